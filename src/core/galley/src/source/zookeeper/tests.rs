//! The source against a real ZooKeeper, with the pipeline behind it.

#[path = "../../../../../../tests/support/ports.rs"]
mod ports;
#[path = "../../../../../../tests/support/zookeeper.rs"]
mod server;

use super::*;
use crate::Galley;
use crate::source::tests::{held, start, state, until, until_held};
use server::{Acl, Writer};

/// `reader:secret`, as ZooKeeper keeps it.
const READER: &str = "reader:TwMYkJISsEPORbrSYGWeRLjeNEk=";

fn free_port() -> u16 {
    ports::next_free_port().unwrap()
}

fn zookeeper() -> server::Zookeeper {
    server::Zookeeper::start(free_port)
}

fn settings(address: &str) -> ZookeeperOptions {
    ZookeeperOptions {
        address: address.to_owned(),
        session_timeout: Duration::from_secs(4),
        ..ZookeeperOptions::default()
    }
}

fn galley(settings: &ZookeeperOptions) -> Galley {
    start(|options| Zookeeper::new(settings, options).unwrap())
}

/// The path of a provider with a port.
fn provider(service: &str, address: &str) -> String {
    let url = format!("dubbo://{address}/{service}?application=shop&side=provider");
    let name = percent_encoding::utf8_percent_encode(&url, percent_encoding::NON_ALPHANUMERIC);
    format!("/dubbo/{service}/providers/{name}")
}

fn fill(writer: &mut Writer) {
    for (service, address) in [("a.A", "10.0.0.1:1"), ("a.A", "10.0.0.2:1"), ("b.B", "10.0.0.3:2")] {
        writer.create(&provider(service, address));
    }
    for other in ["/dubbo/metadata/a.A/x", "/dubbo/c.C/consumers/y", "/dubbo/a.A/configurators", "/else/x"] {
        writer.create(other);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_arrives_and_changes_follow() {
    let server = zookeeper();
    let mut writer = server.writer();
    let galley = galley(&settings(&server.address()));
    galley.synced().await;
    assert!(held(&galley).is_empty(), "a root that is missing is empty");
    fill(&mut writer);
    until_held(&galley, &["dubbo/a.a 10.0.0.1 10.0.0.2", "dubbo/b.b 10.0.0.3"]).await;
    writer.create(&provider("c.C", "10.0.0.4:3"));
    writer.delete(&provider("a.A", "10.0.0.1:1"));
    until_held(&galley, &["dubbo/a.a 10.0.0.2", "dubbo/b.b 10.0.0.3", "dubbo/c.c 10.0.0.4"]).await;
    for path in [&*provider("c.C", "10.0.0.4:3"), "/dubbo/c.C/providers"] {
        writer.delete(path);
    }
    until_held(&galley, &["dubbo/a.a 10.0.0.2", "dubbo/b.b 10.0.0.3"]).await;
    writer.create(&provider("c.C", "10.0.0.5:3"));
    until_held(&galley, &["dubbo/a.a 10.0.0.2", "dubbo/b.b 10.0.0.3", "dubbo/c.c 10.0.0.5"]).await;
    for path in [&*provider("b.B", "10.0.0.3:2"), "/dubbo/b.B/providers", "/dubbo/b.B"] {
        writer.delete(path);
    }
    until_held(&galley, &["dubbo/a.a 10.0.0.2", "dubbo/c.c 10.0.0.5"]).await;
    // What cannot be used is told, and is no error of the rest.
    writer.create("/dubbo/a.A/providers/kettle");
    writer.create(&provider("a.A", "10.0.0.6:0"));
    writer.create(&provider("A.a", "10.0.0.7:1"));
    until("problems are shown", &galley, || state(&galley).skipped == 3).await;
    let problems: Vec<String> = state(&galley).problems.iter().map(Diagnostic::brief).collect();
    for part in ["/dubbo/a.A/providers: provider `kettle`", "`0` is no port", "is that of `A.a` already"] {
        assert!(problems.iter().any(|problem| problem.contains(part)), "{part}: {problems:?}");
    }
    until_held(&galley, &["dubbo/a.a 10.0.0.7", "dubbo/c.c 10.0.0.5"]).await;
    writer.delete("/dubbo/a.A/providers/kettle");
    for address in ["10.0.0.6:0", "10.0.0.2:1"] {
        writer.delete(&provider("a.A", address));
    }
    until("problems are gone", &galley, || state(&galley).skipped == 0).await;
    let source = state(&galley);
    assert!(source.is_connected && source.is_synced() && source.last_error.is_none(), "{source:?}");
    until("both have a session", &galley, || server.sessions() == 2).await;
    // How far the reading of everything was.
    let place = format!("zookeeper {}/dubbo", server.address());
    let last = |place: &str| {
        let ended = mixer_base::load::ended().into_iter().filter(|load| load.what == place);
        ended.map(|load| (load.unit, load.stage, load.documents, load.of_documents)).collect::<Vec<_>>()
    };
    let [(unit, stage, read, known)] = last(&place)[..] else { panic!("{:?}", mixer_base::load::ended()) };
    assert!(("nodes", "read") == (unit, stage) && read == known && known > 0, "{read} of {known}");
    // All of it once more: the root, and the providers of three services.
    galley.reload();
    until("everything was read again", &galley, || last(&place) == [("nodes", "read", 4, 4)]).await;
    galley.stop().await;
    until("the session is closed", &galley, || server.sessions() == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_fails_during_a_watch_loses_nothing() {
    let mut server = zookeeper();
    fill(&mut server.writer());
    let nobody = free_port();
    let galley = galley(&settings(&format!("127.0.0.1:{nobody},{}", server.address())));
    galley.synced().await;
    let first = ["dubbo/a.a 10.0.0.1 10.0.0.2", "dubbo/b.b 10.0.0.3"];
    assert_eq!(held(&galley), first);
    server.kill();
    until("the outage is shown", &galley, || !state(&galley).is_connected).await;
    let source = state(&galley);
    let (why, _) = source.last_error.unwrap();
    assert!(why.starts_with("server `127.0.0.1:"), "{why}");
    assert_eq!(held(&galley), first, "what was known counts");
    server.restart();
    // It happens before the source is there again, or after that.
    let mut writer = server.writer();
    writer.delete(&provider("a.A", "10.0.0.1:1"));
    for path in [&*provider("b.B", "10.0.0.3:2"), "/dubbo/b.B/providers", "/dubbo/b.B"] {
        writer.delete(path);
    }
    writer.create(&provider("d.D", "10.0.0.9:4"));
    let last = ["dubbo/a.a 10.0.0.2", "dubbo/d.d 10.0.0.9"];
    until_held(&galley, &last).await;
    until("it is connected", &galley, || state(&galley).is_connected).await;
    assert_eq!(state(&galley).generation, 1, "the source was not started again");
    let fresh = self::galley(&settings(&server.address()));
    fresh.synced().await;
    assert_eq!(held(&fresh), last, "as a fresh start");
    fresh.stop().await;
    galley.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_has_expired_is_replaced() {
    let mut server = zookeeper();
    fill(&mut server.writer());
    let galley = galley(&settings(&server.address()));
    galley.synced().await;
    // The servers do not know the session, and are behind what was seen.
    server.wipe();
    server.restart();
    server.writer().create(&provider("e.E", "10.0.0.5:5"));
    until_held(&galley, &["dubbo/e.e 10.0.0.5"]).await;
    until("it is connected", &galley, || state(&galley).is_connected).await;
    let (why, _) = state(&galley).last_error.unwrap();
    assert!(why.contains("the session has expired"), "{why}");
    // A server that is silent is left; its session ends meanwhile or not.
    server.signal("STOP");
    until("silence is noticed", &galley, || !state(&galley).is_connected).await;
    assert_eq!(held(&galley), ["dubbo/e.e 10.0.0.5"]);
    server.signal("CONT");
    server.writer().create(&provider("e.E", "10.0.0.6:5"));
    until_held(&galley, &["dubbo/e.e 10.0.0.5 10.0.0.6"]).await;
    galley.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_read_is_told_what_to_do() {
    let server = zookeeper();
    let mut writer = server.writer();
    fill(&mut writer);
    writer.allow("/dubbo/b.B/providers", Acl::User(READER));
    let of_everybody = galley(&settings(&server.address()));
    of_everybody.synced().await;
    assert_eq!(held(&of_everybody), ["dubbo/a.a 10.0.0.1 10.0.0.2"], "one node holds up no other");
    let source = state(&of_everybody);
    let problem = source.problems[0].brief();
    assert!(
        problem.contains("the ACL of `/dubbo/b.B/providers` does not let everybody read it (NoAuth)"),
        "{problem}"
    );
    writer.allow("/dubbo/b.B/providers", Acl::Open);
    until_held(&of_everybody, &["dubbo/a.a 10.0.0.1 10.0.0.2", "dubbo/b.b 10.0.0.3"]).await;
    until("the problem is gone", &of_everybody, || state(&of_everybody).problems.is_empty()).await;
    of_everybody.stop().await;
    writer.allow("/dubbo", Acl::User(READER));
    let directory = tempfile::tempdir().unwrap();
    let password_file = directory.path().join("password");
    std::fs::write(&password_file, "wrong\n").unwrap();
    let user = "reader".to_owned();
    let galley = galley(&ZookeeperOptions {
        user,
        password_file: password_file.clone(),
        ..settings(&server.address())
    });
    until("it is told", &galley, || state(&galley).last_error.is_some()).await;
    let source = state(&galley);
    let (why, _) = source.last_error.clone().unwrap();
    assert!(
        why.contains("the ACL of `/dubbo` does not let user `reader` read it (NoAuth) (name a user"),
        "{why}"
    );
    assert!(!source.is_connected && !source.is_synced() && !galley.is_synced(), "{source:?}");
    assert!(!why.contains("wrong"), "{why}");
    std::fs::write(&password_file, "secret\n").unwrap();
    galley.synced().await;
    assert_eq!(held(&galley), ["dubbo/a.a 10.0.0.1 10.0.0.2", "dubbo/b.b 10.0.0.3"]);
    galley.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_services_are_read_at_once_and_below_another_root() {
    let server = zookeeper();
    let mut writer = server.writer();
    for service in 0..600 {
        writer.create(&format!("/mesh{}", provider(&format!("s{service:03}"), "10.0.0.1:1")));
    }
    let galley = galley(&settings(&format!("{}/mesh", server.address())));
    galley.synced().await;
    assert_eq!(held(&galley).len(), 600);
    assert!(state(&galley).name.ends_with("/mesh/dubbo"), "{:?}", state(&galley));
    galley.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_tls_is_read_with_a_certificate() {
    let [server, client] =
        [(); 2].map(|()| rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap());
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let tls = server::Tls {
        port: free_port(),
        certificate: server.cert.pem(),
        key: server.signing_key.serialize_pem(),
        roots: client.cert.pem(),
    };
    let secure = format!("localhost:{}", tls.port);
    let zookeeper = server::Zookeeper::start_with(free_port, Some(tls));
    fill(&mut zookeeper.writer());
    let options = ClientTlsOptions {
        ca_file: file("ca.pem", server.cert.pem()),
        cert_file: file("cert.pem", client.cert.pem()),
        key_file: file("key.pem", client.signing_key.serialize_pem()),
        ..ClientTlsOptions::default()
    };
    let galley = galley(&ZookeeperOptions { tls: Some(options.clone()), ..settings(&secure) });
    galley.synced().await;
    assert_eq!(held(&galley), ["dubbo/a.a 10.0.0.1 10.0.0.2", "dubbo/b.b 10.0.0.3"]);
    zookeeper.writer().create(&provider("c.C", "10.0.0.4:3"));
    until("changes follow", &galley, || held(&galley).len() == 3).await;
    galley.stop().await;
    let strange = ClientTlsOptions { ca_file: options.cert_file.clone(), ..options };
    for (tls, text) in [(Some(strange), "invalid peer certificate"), (None, "server `localhost:")] {
        let refused = self::galley(&ZookeeperOptions { tls, ..settings(&secure) });
        let is_told = || state(&refused).last_error.is_some_and(|(why, _)| why.contains(text));
        until(text, &refused, is_told).await;
        assert!(!state(&refused).is_connected && !refused.is_synced());
        refused.stop().await;
    }
}

/// Answers the first messages of each connection with these bytes.
async fn impostor(answers: Vec<Vec<u8>>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut connections = tokio::task::JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let answers = answers.clone();
            connections.spawn(async move {
                let mut buffer = [0; 1024];
                for answer in answers {
                    let _ = stream.read(&mut buffer).await;
                    let _ = stream.write_all(&answer).await;
                }
                while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_zookeeper_is_told() {
    let session = b"\0\0\0\x25\0\0\0\0\0\0\x0f\xa0\0\0\0\0\0\0\0\x07\0\0\0\x100123456789abcdef\0";
    let reply = |rest: &[u8]| vec![session.to_vec(), rest.to_vec()];
    for (answers, text) in [
        (vec![b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()], "is its port the one of clients?"),
        (vec![b"\xff\xff\xff\xff".to_vec()], "is its port the one of clients?"),
        (vec![b"\0\0\0\x04\0\0\0\0".to_vec()], "is its port the one of clients?"),
        (Vec::new(), "no answer within"),
        (reply(b"\0\0\0\x10\0\0\0\x09\0\0\0\0\0\0\0\x01\0\0\0\0"), "not the ZooKeeper protocol"),
        (
            reply(b"\0\0\0\x14\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\x7f\xff\xff\xff"),
            "not the ZooKeeper protocol",
        ),
        (
            reply(b"\x7f\xff\xff\xff\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0"),
            "take 2147483647 bytes, more than 16777216",
        ),
        (
            reply(b"\0\0\0\x10\xff\xff\xff\xfc\0\0\0\0\0\0\0\0\xff\xff\xff\x8d"),
            "refuses the credentials of user",
        ),
    ] {
        let mut settings = settings(&impostor(answers).await);
        settings.session_timeout = Duration::from_secs(1);
        let galley = galley(&settings);
        until(text, &galley, || state(&galley).last_error.is_some_and(|(why, _)| why.contains(text))).await;
        let source = state(&galley);
        assert!(!source.is_connected && !source.is_synced() && !galley.is_synced(), "{text}: {source:?}");
        galley.stop().await;
    }
}

#[test]
fn settings_that_mean_nothing_are_refused() {
    let refused = |change: &dyn Fn(&mut ZookeeperOptions)| {
        let mut settings = settings("127.0.0.1:2181");
        change(&mut settings);
        Zookeeper::new(&settings, &Options::default()).expect_err("refused").to_string()
    };
    for address in ["", " , ", "/dubbo", "host:port", "fd00::1:2181"] {
        let text = refused(&|settings| settings.address = address.to_owned());
        assert!(text.starts_with("--zookeeper-address: "), "{address}: {text}");
    }
    for root in ["", "dubbo", "/a/../b", "/a\n"] {
        let text = refused(&|settings| settings.root = root.to_owned());
        assert!(text.starts_with("--zookeeper-root: "), "{root}: {text}");
    }
    assert!(refused(&|settings| settings.session_timeout = Duration::ZERO).contains("1s to 1h"));
    assert!(refused(&|settings| settings.user = "a".to_owned()).contains("belong together"));
    let text = refused(&|settings| {
        (settings.user, settings.password_file) = ("a".to_owned(), "/nosuch/file".into());
    });
    assert!(text.starts_with("--zookeeper-password-file: cannot read file `/nosuch/file`"), "{text}");
    let named = |address: &str, root: &str| {
        let settings = ZookeeperOptions { root: root.to_owned(), ..settings(address) };
        Zookeeper::new(&settings, &Options::default()).unwrap().name()
    };
    assert_eq!(named("a, b:1,[fd00::1]/x/", "/d/"), "zookeeper a:2181,b:1,[fd00::1]:2181/x/d");
    assert_eq!(named("a", "/"), "zookeeper a:2181/");
}
