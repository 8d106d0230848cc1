use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;
use std::time::Duration;

use super::*;
use crate::testing::{problems, ready, test_env};
use mixer_attribute::ValueType;
use mixer_engine::template;

mod documents;
mod encoding;
mod exchanged;
mod expiry;
mod inheritance;
mod large;
mod pages;
mod patterns;

/// An HTTP server that sends a configured response, byte for byte.
struct Server {
    address: SocketAddr,
    answer: Arc<Mutex<Vec<u8>>>,
}

impl Server {
    fn start(answer: &[u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answer = Arc::new(Mutex::new(answer.to_vec()));
        let shared = answer.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { break };
                let mut request = [0; 4096];
                let _ = stream.read(&mut request);
                let bytes = shared.lock().unwrap().clone();
                if bytes.is_empty() {
                    // Never answers.
                    std::mem::forget(stream);
                    continue;
                }
                let _ = stream.write_all(&bytes);
            }
        });
        Self { address, answer }
    }

    fn serve(&self, body: &str) {
        *self.answer.lock().unwrap() = ok(body);
    }

    fn url(&self) -> String {
        format!("http://{}/l", self.address)
    }
}

fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
        .into_bytes()
}

fn some(entries: &[&str]) -> Option<Vec<Option<String>>> {
    Some(entries.iter().map(|entry| Some((*entry).to_owned())).collect())
}

fn params(url: String) -> Params {
    Params {
        provider_url: url,
        refresh_interval: SignedDuration::from_secs(1),
        ttl: SignedDuration::from_secs(2),
        ..Params::default()
    }
}

struct Fixture {
    handler: Box<dyn Handler>,
    env: Env,
}

impl Fixture {
    async fn new(params: Params) -> Self {
        Self::within(params, test_env("h.istio-system")).await
    }

    async fn within(params: Params, env: Env) -> Self {
        let leaf = mixer_engine::adapter::Leaf::new("value", None, ValueType::String);
        let bound = BoundInstance {
            name: "e.instance.istio-system".into(),
            template: template::find("listentry").unwrap(),
            leaves: [leaf].into(),
            messages: Vec::new(),
            plan: None,
            read_outputs: Arc::default(),
        };
        let handler = ListChecker::build(params, vec![bound], env.clone()).await.unwrap();
        Self { handler, env }
    }

    fn reply(&self, value: Option<Value<'_>>) -> Reply<CheckResult> {
        let instance = Instance { bound: 0, name: "e.instance.istio-system", values: &[value] };
        self.handler.as_check().unwrap().check(&instance)
    }

    /// Code and message.
    fn ask(&self, value: Option<Value<'_>>) -> (i32, String) {
        let result = ready(self.reply(value));
        (result.status.code, result.status.message)
    }

    fn has(&self, symbol: &str) -> bool {
        self.ask(Some(Value::String(symbol.as_bytes()))).0 == 0
    }

    fn error(&self) -> String {
        match self.reply(Some(Value::String(b"x"))) {
            Reply::Ready(Err(error)) => error.message,
            Reply::Ready(Ok(result)) => format!("no error but {result:?}"),
            Reply::Later(_) => panic!("the list adapter replies synchronously"),
        }
    }

    async fn until(&self, what: impl Fn(&Self) -> bool) {
        for _ in 0..500 {
            if what(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it did not come true within 5s");
    }
}

#[test]
fn params_table() {
    let url = |url: &str| Params { provider_url: url.into(), ..Params::default() };
    let seconds = SignedDuration::from_secs;
    let rows: Vec<(&str, Params, Vec<&str>)> = vec![
        ("nothing given", Params::default(), vec![]),
        ("a good URL", url("https://lists.example:8443/l"), vec![]),
        ("no scheme", url("lists.example"), vec!["providerUrl: URL scheme and host cannot be empty"]),
        ("a file URL", url("file:///etc/list"), vec!["providerUrl: URL scheme and host cannot be empty"]),
        (
            "a file URL with a host",
            url("file://h/etc/list"),
            vec!["the handler will not be built: providerUrl: the scheme `file` is not supported"],
        ),
        (
            "not a URL",
            url("http://h/%zz"),
            vec!["providerUrl: parse \"http://h/%zz\": invalid URL escape \"%zz\""],
        ),
        ("equal ttl and interval", Params { ttl: seconds(60), ..url("http://h") }, vec![]),
        (
            "intervals do not matter without a provider",
            Params { ttl: seconds(0), refresh_interval: seconds(0), ..Params::default() },
            vec![],
        ),
        ("a file", Params { provider_file: "/etc/list".into(), ..Params::default() }, vec![]),
        ("a file as a URL", Params { provider_file: "file:///etc/list".into(), ..Params::default() }, vec![]),
        (
            "a relative file",
            Params { provider_file: "list".into(), ..Params::default() },
            vec!["providerFile: an absolute path or file:///path is needed, it is list"],
        ),
        (
            "a file and a URL",
            Params { provider_file: "/l".into(), ..url("http://h") },
            vec!["providerFile: cannot be given together with providerUrl"],
        ),
        (
            "bad addresses",
            Params {
                entry_type: EntryType::IpAddresses,
                overrides: some(&["10.0.0.0/33", "1.1.1.1", "x"]),
                ..Params::default()
            },
            vec![
                "overrides: could not parse ip address override 10.0.0.0/33: invalid CIDR address: 10.0.0.0/33",
                "overrides: could not parse ip address override x: invalid CIDR address: x/32",
            ],
        ),
    ];
    for (name, params, wanted) in rows {
        assert_eq!(problems::<ListChecker>(&params), wanted, "{name}");
    }
}

/// Entries that are missing or null, as templates and comments leave them.
#[tokio::test]
async fn a_blacklist_without_entries_is_not_built_unless_that_is_meant() {
    let null = || Some(vec![Some("bob".to_owned()), None]);
    let url = "http://h".to_owned();
    let entries = "overrides: a blacklist without entries and without provider lets everybody pass";
    let entry = "overrides: an entry of the blacklist is null";
    let blacklist = |overrides| Params { overrides, blacklist: true, ..Params::default() };
    for (name, params, error) in [
        ("none", blacklist(None), Some(entries)),
        ("an empty list", blacklist(Some(Vec::new())), Some(entries)),
        ("meant", Params { allow_empty_list: true, ..blacklist(None) }, None),
        ("null among others", blacklist(null()), Some(entry)),
        ("null beside a provider", Params { provider_url: url.clone(), ..blacklist(null()) }, Some(entry)),
        ("a provider", Params { provider_url: url, ..blacklist(None) }, None),
        ("whom a whitelist lets pass", Params { blacklist: false, ..blacklist(null()) }, None),
    ] {
        let told = error.map(|text| format!("the handler will not be built: {text}"));
        let found = problems::<ListChecker>(&params);
        assert_eq!(found.iter().find(|text| text.starts_with("the handler")), told.as_ref(), "{name}");
        if params.provider_url.is_empty() {
            let built = ListChecker::build(params.clone(), Vec::new(), test_env("h.istio-system")).await;
            assert_eq!(built.err().map(|refused| refused.to_string()).as_deref(), error, "{name}");
            let env = test_env("h.istio-system");
            env.commons.insert(Arc::new(AdapterOptions { as_istio_mixer: true }));
            assert!(ListChecker::build(params, Vec::new(), env).await.is_ok(), "{name}");
        }
    }
    // Null is no entry; Istio Mixer lets the empty text pass.
    let whitelist = Fixture::new(Params { blacklist: false, ..blacklist(null()) }).await;
    assert!(whitelist.has("bob") && !whitelist.has(""));
}

#[test]
fn all_problems_are_reported_in_order() {
    let params = Params {
        provider_url: "x".into(),
        refresh_interval: SignedDuration::from_nanos(500_000_000),
        ttl: SignedDuration::ZERO,
        caching_interval: SignedDuration::from_secs(-1),
        caching_use_count: -2,
        entry_type: EntryType::Regex,
        overrides: some(&["(a"]),
        ..Params::default()
    };
    let found = problems::<ListChecker>(&params);
    let half = params.refresh_interval;
    assert_eq!(found.len(), 6, "{found:?}");
    assert_eq!(found[0], "providerUrl: URL scheme and host cannot be empty");
    assert_eq!(
        found[1],
        format!("refreshInterval: refresh interval must be at least 1 second, it is {half}")
    );
    let zero = SignedDuration::ZERO;
    assert_eq!(
        found[2],
        format!("ttl: ttl must be > refreshInterval, ttl is {zero} and refreshInterval is {half}")
    );
    assert!(found[3].starts_with("cachingInterval: caching interval must be >= 0, it is -"));
    assert_eq!(found[4], "cachingUseCount: caching use count must be >= 0, it is -2");
    assert!(found[5].starts_with("overrides: could not parse regex override (a: "));
}

#[tokio::test]
async fn answers() {
    let f = Fixture::new(Params { overrides: some(&["a", "10.0.0.1"]), ..Params::default() }).await;
    let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1];
    let rows = [
        (Some(Value::String(b"a")), (0, "")),
        (Some(Value::String(b"b")), (7, "b is not whitelisted")),
        (Some(Value::String(b"")), (7, " is not whitelisted")),
        (Some(Value::Bytes(&[10, 0, 0, 1])), (0, "")),
        (Some(Value::Bytes(&mapped)), (0, "")),
        (Some(Value::Bytes(&[10, 0, 0, 2])), (7, "10.0.0.2 is not whitelisted")),
        (Some(Value::Int64(8)), (3, "8 is not a valid string or IP address")),
        (Some(Value::Bool(true)), (3, "true is not a valid string or IP address")),
        (None, (3, "<nil> is not a valid string or IP address")),
    ];
    for (value, (code, message)) in rows {
        assert_eq!(f.ask(value), (code, message.to_owned()), "{value:?}");
    }
    // Callers choose how long a value is.
    let long = format!("a{}", "ä".repeat(mixer_attribute::text::MAX_REPEATED));
    let shown =
        format!("a value of {} bytes is not whitelisted", 2 * mixer_attribute::text::MAX_REPEATED + 1);
    assert_eq!(f.ask(Some(Value::String(long.as_bytes()))), (7, shown));
    let f = Fixture::new(Params { overrides: some(&["a"]), blacklist: true, ..Params::default() }).await;
    assert_eq!(f.ask(Some(Value::String(b"a"))), (7, "a is blacklisted".to_owned()));
    assert_eq!(f.ask(Some(Value::String(b"b"))), (0, String::new()));
    let result = ready(f.reply(None));
    assert_eq!((result.valid_duration, result.valid_use_count), (SignedDuration::from_secs(300), 10_000));
}

#[tokio::test]
async fn addresses_are_looked_up_as_bytes_and_as_text() {
    let overrides = some(&["10.0.0.0/8"]);
    let entry_type = EntryType::IpAddresses;
    let f = Fixture::new(Params { overrides: overrides.clone(), entry_type, ..Params::default() }).await;
    let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1];
    let rows = [
        (Value::Bytes(&[10, 0, 0, 1]), (0, "")),
        (Value::Bytes(&mapped), (0, "")),
        (Value::String(b"10.0.0.1"), (0, "")),
        (Value::Bytes(&[11, 0, 0, 1]), (7, "11.0.0.1 is not whitelisted")),
        (Value::Bytes(b"abc"), (3, "?616263 is not a valid IP address")),
        (Value::Bytes(b""), (3, "<nil> is not a valid IP address")),
        (Value::String(b"10.0.0.1/8"), (3, "10.0.0.1/8 is not a valid IP address")),
    ];
    for (value, (code, message)) in rows {
        assert_eq!(f.ask(Some(value)), (code, message.to_owned()), "{value:?}");
    }
    let f = Fixture::new(Params { overrides, entry_type, blacklist: true, ..Params::default() }).await;
    assert_eq!(f.ask(Some(Value::Bytes(&[10, 0, 0, 1]))), (7, "10.0.0.1 is blacklisted".to_owned()));
    assert_eq!(f.ask(Some(Value::Bytes(&[11, 0, 0, 1]))), (0, String::new()));
    let f =
        Fixture::new(Params { overrides: some(&["10.0.0.1"]), blacklist: true, ..Params::default() }).await;
    assert_eq!(f.ask(Some(Value::Bytes(&[10, 0, 0, 1]))).0, 7);
}

#[tokio::test]
async fn a_list_is_refreshed_kept_through_an_outage_and_purged() {
    let server = Server::start(&ok("a\n"));
    let f = Fixture::new(Params { overrides: some(&["z"]), ..params(server.url()) }).await;
    assert!(f.has("a") && f.has("z") && !f.has("b"));
    server.serve("b\n");
    f.until(|f| f.has("b")).await;
    assert!(!f.has("a"));
    *server.answer.lock().unwrap() =
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_vec();
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert!(f.has("b"));
    let url = server.url();
    f.until(|f| f.error() == format!("could not fetch list from {url}: 503")).await;
    server.serve("c\n");
    f.until(|f| matches!(f.reply(None), Reply::Ready(Ok(_)))).await;
    assert!(f.has("c"));
}

#[tokio::test]
async fn a_list_that_is_fetched_again_unchanged_clears_its_error() {
    let server = Server::start(&ok("a\n"));
    let source = fetch::ListSource::Url(server.url());
    let (provider, mut refresher) = refresher(source, EntryType::Strings, false);
    assert!(refresher.fetch().await);
    *server.answer.lock().unwrap() =
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_vec();
    assert!(!refresher.fetch().await);
    assert!(provider.state().error.is_some() && provider.state().entries.is_some());
    server.serve("a\n");
    assert!(refresher.fetch().await);
    assert_eq!(provider.state().error, None);
    assert!(provider.state().entries.is_some());
}

/// Bodies that hold no list: a file that was emptied or cut short, an answer that a proxy made up.
const WITHOUT_LIST: [(EntryType, &str, &str); 9] = [
    (EntryType::Strings, "a\n", ""),
    (EntryType::Strings, "a\n", "\n \t\r\n"),
    (EntryType::Strings, "a\n", "# who is blocked\n  # none\n"),
    (EntryType::CaseInsensitiveStrings, "A\n", ""),
    (EntryType::Regex, "^a$\n", "# patterns"),
    (EntryType::IpAddresses, "whitelist: [10.0.0.1]", ""),
    (EntryType::IpAddresses, "whitelist: [10.0.0.1]", "# addresses\n"),
    (EntryType::IpAddresses, "whitelist: [10.0.0.1]", "whitelist:\n"),
    (EntryType::IpAddresses, "whitelist: [10.0.0.1]", "{}"),
];

fn refresher(
    source: fetch::ListSource,
    entry_type: EntryType,
    accepts_empty: bool,
) -> (Arc<Provider>, provider::Refresher) {
    let seconds = SignedDuration::from_secs;
    let provider = Arc::new(Provider::new(source, entry_type, Vec::new(), "h".into(), accepts_empty));
    (provider.clone(), provider::Refresher::new(provider, seconds(5), seconds(60)))
}

fn length(provider: &Provider) -> Option<usize> {
    provider.state().entries.as_ref().map(|entries| entries.len)
}

#[tokio::test]
async fn a_provider_without_a_list_keeps_the_last_one() {
    for (entry_type, body, without) in WITHOUT_LIST {
        let server = Server::start(&ok(body));
        let source = || fetch::ListSource::Url(server.url());
        let (provider, mut refresher) = refresher(source(), entry_type, false);
        assert!(refresher.fetch().await, "{entry_type:?} {body:?}");
        server.serve(without);
        for _ in 0..2 {
            assert!(!refresher.fetch().await, "{entry_type:?} {without:?}");
            assert_eq!(length(&provider), Some(1), "{entry_type:?} {without:?}");
            let text =
                format!("the list from {} is empty; if that is meant, set `allowEmptyList`", server.url());
            assert_eq!(provider.state().error, Some(text), "{entry_type:?} {without:?}");
        }
        server.serve(body);
        assert!(refresher.fetch().await);
        assert_eq!(provider.state().error, None);

        // Without a last list, there is none.
        server.serve(without);
        let (provider, mut first) = self::refresher(source(), entry_type, false);
        assert!(!first.fetch().await);
        assert_eq!(length(&provider), None, "{entry_type:?} {without:?}");

        // As Istio Mixer, or as configured.
        let (provider, mut accepting) = self::refresher(source(), entry_type, true);
        assert!(accepting.fetch().await);
        assert!(length(&provider).is_some_and(|length| length <= 2), "{entry_type:?} {without:?}");
    }
}

#[tokio::test]
async fn fetches_are_counted_and_what_a_list_takes() {
    let server = Server::start(&ok("one\ntwo\n"));
    let source = fetch::ListSource::Url(server.url());
    let metrics = mixer_base::metrics::Metrics::default();
    let counted = ListMetrics::new(&metrics, "h");
    let provider = Provider::new(source, EntryType::Strings, Vec::new(), "h".into(), false).counting(counted);
    let hour = SignedDuration::from_secs(3600);
    let mut refresher = provider::Refresher::new(Arc::new(provider), hour, hour);
    for (body, is_taken) in [("one\ntwo\n", true), ("one\ntwo\n", true), ("", false), ("one\n", true)] {
        server.serve(body);
        assert_eq!(refresher.fetch().await, is_taken, "{body:?}");
    }
    *server.answer.lock().unwrap() = b"garbage\r\n\r\n".to_vec();
    assert!(!refresher.fetch().await);
    let of = |result| metrics.counter(mixer_base::metrics::Family::ListFetches, &["h", result]).get();
    let all = ["updated", "unchanged", "refused", "no-room", "failed"].map(of);
    assert_eq!(all, [2, 1, 1, 0, 1]);
    let bytes = || {
        let mut text = Vec::new();
        metrics.write(&mut text);
        let text = String::from_utf8(text).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("mixer_listchecker_bytes{handler=\"h\"} "));
        line.map(|value| value.parse::<f64>().unwrap())
    };
    assert!(bytes().is_some_and(|bytes| (4.0..1000.0).contains(&bytes)), "{:?}", bytes());
    drop(refresher);
    assert_eq!(bytes(), None, "the list is gone");
}

#[tokio::test]
async fn a_list_that_says_that_it_is_empty_is_empty() {
    let server = Server::start(&ok("whitelist: [10.0.0.1]"));
    let (provider, mut refresher) =
        refresher(fetch::ListSource::Url(server.url()), EntryType::IpAddresses, false);
    assert!(refresher.fetch().await);
    server.serve("whitelist: []");
    assert!(refresher.fetch().await);
    assert_eq!(length(&provider), Some(0));
}

#[tokio::test]
async fn an_emptied_file_keeps_its_list_unless_that_is_meant() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("list");
    let hour = SignedDuration::from_secs(3600);
    let params = |allow_empty_list| Params {
        provider_file: path.display().to_string(),
        refresh_interval: hour,
        ttl: hour,
        blacklist: true,
        allow_empty_list,
        ..Params::default()
    };
    std::fs::write(&path, "").unwrap();
    let unloaded = Fixture::new(params(false)).await;
    let text = format!("the list from {} is empty; if that is meant, set `allowEmptyList`", path.display());
    assert_eq!(unloaded.error(), text, "a list that was never loaded lets nobody pass");
    assert_eq!(unloaded.handler.degradation(), Some(text.clone()));
    assert!(Fixture::new(params(true)).await.has("a"), "everybody passes an empty denylist");

    std::fs::write(&path, "a\n").unwrap();
    let f = Fixture::new(params(false)).await;
    let meant = Fixture::new(params(true)).await;
    assert!(!f.has("a") && !meant.has("a") && f.has("b"));
    assert_eq!(f.handler.degradation(), None);
    std::fs::write(&path, "").unwrap();
    f.until(|f| f.handler.status().trouble.is_some_and(|trouble| trouble == text)).await;
    meant.until(|meant| meant.has("a")).await;
    assert!(!f.has("a"), "the last list stays");
}

/// The new directory may have the inode of the old one, whose watch has ended.
#[tokio::test]
async fn a_file_whose_directory_is_removed_and_made_again_is_followed() {
    let directory = tempfile::tempdir().unwrap();
    let lists = directory.path().join("lists");
    let path = lists.join("list");
    let write = |text: &str| {
        std::fs::create_dir_all(&lists).unwrap();
        std::fs::write(&path, text).unwrap();
    };
    write("a\n");
    let hour = SignedDuration::from_secs(3600);
    let params = Params {
        provider_file: path.display().to_string(),
        refresh_interval: hour,
        ttl: hour,
        blacklist: true,
        ..Params::default()
    };
    let f = Fixture::new(params).await;
    for round in 0..3 {
        let (first, edited) = (format!("first-{round}"), format!("edited-{round}"));
        std::fs::remove_dir_all(&lists).unwrap();
        write(&format!("{first}\n"));
        f.until(|f| !f.has(&first)).await;
        write(&format!("{edited}\n"));
        f.until(|f| !f.has(&edited)).await;
    }
    // It may come later.
    std::fs::remove_dir_all(&lists).unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!f.has("edited-2"), "the last list stays");
    write("late\n");
    f.until(|f| !f.has("late")).await;
}

/// An entry with a carriage return would match nothing: a denylist that was edited on Windows would let everybody pass.
#[tokio::test]
async fn a_file_may_begin_with_a_byte_order_mark_and_its_lines_end_in_cr_lf() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("list");
    std::fs::write(&path, "\u{feff}a\r\n\r\nb\rc\r\nd\r\ne").unwrap();
    let provider_file = path.display().to_string();
    let f = Fixture::new(Params { provider_file, blacklist: true, ..Params::default() }).await;
    let denied = ["a", "b\rc", "d", "e", "b", "a\r", ""].map(|symbol| !f.has(symbol));
    assert_eq!(denied, [true, true, true, true, false, false, false]);
}

#[tokio::test]
async fn called_as_mixs_an_empty_list_is_empty() {
    let server = Server::start(&ok(""));
    let env = test_env("h.istio-system");
    env.commons.insert(Arc::new(AdapterOptions { as_istio_mixer: true }));
    let handler = ListChecker::build(params(server.url()), Vec::new(), env).await.unwrap();
    assert_eq!((handler.status().trouble, handler.degradation()), (None, None));
}

/// Dates a file into the future: it is not known how old it is.
fn change_later(path: &std::path::Path) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(std::time::SystemTime::now() + Duration::from_secs(3600)).unwrap();
}

/// On a network file system the system does not know who has a file open.
#[tokio::test]
async fn a_file_of_unknown_writers_must_be_unchanged_for_a_second() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("list");
    std::fs::write(&path, "a\nb\n").unwrap();
    change_later(&path);
    let source = fetch::ListSource::File(path.display().to_string(), path.clone());
    let (provider, refresher) = refresher(source, EntryType::Strings, false);
    let mut refresher = refresher.without_leases();
    // The first look: the file was changed just now.
    assert!(!refresher.fetch().await);
    assert_eq!(length(&provider), None);
    assert!(refresher.looks_again_at().is_some());
    refresher.load().await;
    assert_eq!(length(&provider), Some(2), "a first load waits until it is known");
    // A writer that is in the middle of it: what it has written so far is no list.
    for part in ["c\n", "c\nd\n", "c\nd\ne\n"] {
        std::fs::write(&path, part).unwrap();
        assert!(!refresher.fetch().await);
        assert_eq!(length(&provider), Some(2));
        assert_eq!(provider.state().error, None, "that is no failure");
    }
    let mut looks = 0;
    while !refresher.fetch().await {
        assert!(looks < 500, "it is not read within 5s");
        looks += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(length(&provider), Some(3));
    assert!(refresher.looks_again_at().is_none());
}

#[tokio::test]
async fn a_file_of_unknown_writers_that_keeps_changing_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("list");
    std::fs::write(&path, "a\n").unwrap();
    change_later(&path);
    let source = fetch::ListSource::File(path.display().to_string(), path.clone());
    let (provider, refresher) = refresher(source, EntryType::Strings, false);
    let mut refresher = refresher.without_leases();
    let text = format!(
        "could not fetch list from {}: the file is being changed: it is read when it is unchanged for 1s",
        path.display()
    );
    assert!(!refresher.fetch().await);
    assert_eq!(provider.state().error, Some(text.clone()), "there is no list meanwhile");
    refresher.load().await;
    assert_eq!((length(&provider), &provider.state().error), (Some(1), &None));
    let mut refresher = refresher.without_patience();
    std::fs::write(&path, "a\nb\n").unwrap();
    assert!(!refresher.fetch().await);
    assert_eq!((length(&provider), &provider.state().error), (Some(1), &Some(text)));
}

/// Time passes as soon as there is nothing to do.
#[tokio::test(start_paused = true)]
async fn a_provider_that_never_answers_does_not_delay_the_configuration() {
    let server = Server::start(b"");
    let params = Params {
        provider_url: server.url(),
        refresh_interval: SignedDuration::from_secs(60),
        ttl: SignedDuration::from_secs(300),
        ..Params::default()
    };
    let started = tokio::time::Instant::now();
    let handler = ListChecker::build(params, Vec::new(), test_env("h.istio-system")).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert_eq!(handler.status().notes, [("entries", "none".to_owned())]);
}

#[tokio::test]
async fn a_list_that_was_slow_is_fetched_in_the_background() {
    let server = Server::start(&ok("a\nb\n"));
    let source = fetch::ListSource::Url(server.url());
    let hour = SignedDuration::from_secs(3600);
    let provider = Arc::new(Provider::new(source, EntryType::Strings, Vec::new(), "h".into(), false));
    let mut refresher = provider::Refresher::new(provider.clone(), hour, hour);
    // As after a first fetch that was given up.
    let run = tokio::spawn(async move { refresher.run().await });
    let loaded = async {
        while provider.state().entries.is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(20), loaded).await.is_ok(), "before the interval");
    run.abort();
    assert_eq!(length(&provider), Some(2));
}

#[tokio::test]
async fn a_failed_first_fetch_fails_checks() {
    let server = Server::start(b"garbage\r\n\r\n");
    let f = Fixture::new(params(server.url())).await;
    assert!(f.error().starts_with(&format!("could not fetch list from {}: ", server.url())), "{}", f.error());

    let cut = Server::start(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\nabc");
    let f = Fixture::new(params(cut.url())).await;
    assert!(f.error().starts_with(&format!("Could not read from {}: ", cut.url())), "{}", f.error());

    let huge = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}", "x".repeat(fetch::MAX_BODY + 1));
    let huge = Server::start(huge.as_bytes());
    let f =
        Fixture::new(Params { refresh_interval: SignedDuration::from_secs(30), ..params(huge.url()) }).await;
    assert_eq!(
        f.error(),
        format!("Could not read from {}: the list is larger than 16777216 bytes", huge.url())
    );

    let f = Fixture::new(params("http://127.0.0.1:9/l".into())).await;
    let wanted = "could not fetch list from http://127.0.0.1:9/l: Get \"http://127.0.0.1:9/l\": dial tcp 127.0.0.1:9: connect: connection refused";
    assert_eq!(f.error(), wanted);
    assert!(f.error().to_lowercase().contains("refused"), "{}", f.error());

    let istio = test_env("h.istio-system");
    istio.commons.insert(Arc::new(AdapterOptions { as_istio_mixer: true }));
    let f = Fixture::within(params("file://localhost/etc/hostname".into()), istio).await;
    let wanted = "could not fetch list from file://localhost/etc/hostname: Get \"file://localhost/etc/hostname\": unsupported protocol scheme \"file\"";
    assert_eq!(f.error(), wanted);
}

/// Callers get the text, and users of Envoy.
#[tokio::test]
async fn what_is_secret_in_an_address_is_not_told() {
    let f = Fixture::new(params("http://user:pa55w@127.0.0.1:9/l?token=t0k3n&a=b".into())).await;
    let text = f.error();
    assert!(text.starts_with("could not fetch list from ") && text.contains("127.0.0.1:9/l"), "{text}");
    assert!(!text.contains("pa55w") && !text.contains("t0k3n"), "{text}");
}

/// The last version of the list stays instead.
#[tokio::test]
async fn a_provider_of_another_scheme_is_an_error() {
    for (url, scheme) in
        [("htp://lists/l", "htp"), ("HTPS://lists/l", "htps"), ("file://localhost/l", "file")]
    {
        let error = ListChecker::build(params(url.into()), Vec::new(), test_env("h")).await.err().unwrap();
        let why = format!("providerUrl: the scheme `{scheme}` is not supported");
        assert_eq!(error.to_string(), why);
        assert_eq!(
            problems::<ListChecker>(&params(url.into())),
            [format!("the handler will not be built: {why}")]
        );
    }
    assert_eq!(problems::<ListChecker>(&params("HTTPS://lists/l".into())), [""; 0]);
}

#[tokio::test]
async fn a_provider_that_hangs_times_out() {
    let server = Server::start(b"");
    let f = Fixture::new(params(server.url())).await;
    assert_eq!(
        f.error(),
        format!("could not fetch list from {}: no complete answer within 1s", server.url())
    );
}

/// A connection that was kept since the last fetch may be dead: this server never answers a second request on one.
#[tokio::test]
async fn every_fetch_has_a_connection_of_its_own() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/l", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { break };
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na\n");
            std::mem::forget(stream);
        }
    });
    let (source, mut fetcher) = (fetch::ListSource::Url(url), fetch::Fetcher::default());
    for _ in 0..3 {
        let fetched = fetcher.fetch(&source, Duration::from_secs(5)).await;
        assert_eq!(fetched.map(|body| body.bytes).map_err(|error| error.text), Ok(b"a\n".to_vec()));
    }
}

/// The first fetch goes on in the background; until it ends, the handler does not answer as configured.
#[tokio::test]
async fn a_first_fetch_that_is_slow_degrades_the_handler() {
    let server = Server::start(b"");
    let minute = SignedDuration::from_secs(60);
    let f = Fixture::new(Params { refresh_interval: minute, ttl: minute, ..params(server.url()) }).await;
    let waited_for =
        format!("could not fetch list from {}: no answer within 2s, it is waited for", server.url());
    assert_eq!((f.error(), f.handler.degradation()), (waited_for.clone(), Some(waited_for)));
}

#[tokio::test]
async fn a_file_is_reloaded_when_it_changes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("list");
    let hour = SignedDuration::from_secs(3600);
    let file = |written: String| Params {
        provider_file: written,
        refresh_interval: hour,
        ttl: hour,
        overrides: some(&["z"]),
        ..Params::default()
    };
    let f = Fixture::new(file(format!("file://{}", path.display()))).await;
    assert!(f.error().starts_with("could not fetch list from file:///"), "{}", f.error());
    std::fs::write(&path, "a\n").unwrap();
    f.until(|f| matches!(f.reply(None), Reply::Ready(Ok(_)))).await;
    assert!(f.has("a") && f.has("z") && !f.has("b"));
    // Saved by an editor: written beside it and renamed.
    let beside = directory.path().join("list.tmp");
    std::fs::write(&beside, "b\n").unwrap();
    std::fs::rename(&beside, &path).unwrap();
    f.until(|f| f.has("b")).await;
    assert!(!f.has("a"));
    // Written slowly: the old list stays until its writer closes the file.
    let mut slow = std::fs::File::create(&path).unwrap();
    let being_written = |trouble: String| trouble.contains("is being written");
    f.until(|f| f.handler.status().trouble.is_some_and(being_written)).await;
    assert!(f.has("b"));
    std::io::Write::write_all(&mut slow, b"c\nb\n").unwrap();
    assert!(f.has("b") && !f.has("c"));
    drop(slow);
    f.until(|f| f.has("c")).await;
    assert!(f.has("b"));
    // Removed: the old list stays.
    std::fs::remove_file(&path).unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(f.has("b"));
}

#[tokio::test]
async fn close_ends_the_refresher() {
    let server = Server::start(&ok("a\n"));
    let f = Fixture::new(params(server.url())).await;
    assert_eq!(f.env.tasks.live(), 1);
    f.handler.close(Duration::from_secs(1)).await.unwrap();
    f.env.tasks.shut_down().await;
    assert_eq!(f.env.tasks.live(), 0);
    let local = Fixture::new(Params::default()).await;
    assert_eq!(local.env.tasks.live(), 0);
}
