//! This server as a sink.

use mixer_config::store::ConfigStore;
use mixer_mcp::{
    Cache, CallOut, Change, Collection, Refusal, Resource, Snapshot, Source, SourceOptions, Updater,
};

use super::*;
use crate::StoreOptions;

const RULES: &str = "istio/policy/v1beta1/rules";
const DENIERS: &str = "istio/config/v1alpha2/legacy/deniers";
const RULE: &str = "type.googleapis.com/istio.policy.v1beta1.Rule";
const STRUCT: &str = "type.googleapis.com/google.protobuf.Struct";
/// Longer than anything that is waited for takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// Every kind of the table, as if the server knew them all.
fn kinds() -> Vec<StoreKind> {
    mixer_schema::kinds().iter().map(|kind| StoreKind { kind: kind.kind, group: kind.group }).collect()
}

fn asked(url: &str) -> Result<Vec<&'static str>, String> {
    let (scheme, rest) = url.split_once("://").unwrap();
    let settings = Settings::parse(url, scheme, rest).map_err(|error| error.to_string())?;
    let found = settings.kinds(url, &kinds()).map_err(|error| error.to_string())?;
    Ok(found.into_iter().map(|kind| kind.collection).collect())
}

#[test]
fn urls_say_where_and_what() {
    let parse = |url: &str| {
        let (scheme, rest) = url.split_once("://").unwrap();
        Settings::parse(url, scheme, rest).map_err(|error| error.to_string())
    };
    let to = |address: &str, is_mutual_tls| {
        Ok(Settings { end: End::Connects(address.to_owned()), is_mutual_tls, collections: Vec::new() })
    };
    assert_eq!(parse("mcp://galley:9901"), to("galley:9901", false));
    assert_eq!(parse("mcps://galley:9901/"), to("galley:9901", true));
    let listens = parse("mcps+listen://127.0.0.1:1").unwrap();
    assert!(listens.is_mutual_tls && matches!(listens.end, End::Listens(_)), "{listens:?}");
    for url in
        ["mcp://galley", "mcp://:9901", "mcp://", "mcps://galley:0", "mcp+listen://x", "mcp://a:1?node=x"]
    {
        let refused = parse(url).unwrap_err();
        assert!(refused.starts_with(&format!("invalid config URL {url} ")), "{refused}");
    }
    let own = asked("mcp://a:1").unwrap();
    assert!(own.contains(&RULES) && own.contains(&DENIERS) && !own.contains(&NOT_ASKED_FOR), "{own:?}");
    assert!(own.iter().all(|name| !name.contains("networking")), "{own:?}");
    let more = asked("mcp://a:1?collections=istio/rbac/v1alpha1/serviceroles").unwrap();
    assert_eq!(more.len(), own.len() + 1);
    assert!(
        asked("mcp://a:1?collections=x").unwrap_err().ends_with("`x` is no collection that a server reads")
    );
}

/// Whatever a source sends, and however fast, the threads are those that are there.
#[test]
fn changes_are_applied_on_one_thread() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let threads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&threads);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .on_thread_start(move || _ = counted.fetch_add(1, Ordering::Relaxed))
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let scene = Scene::new();
        let mut flood = tokio::task::JoinSet::new();
        for _ in 0..64 {
            let mut applier = scene.applier.clone();
            flood.spawn(async move {
                for number in 0..8 {
                    let rules = (0..20).map(|n| rule(&format!("ns/r{n}"), &format!("a{number}"))).collect();
                    applier.apply_elsewhere(change(RULES, rules)).await.unwrap();
                }
            });
        }
        flood.join_all().await;
    });
    // Two of the event loop, and one that applies; others if that had not become idle in time. Not one for each change that waits.
    let threads = threads.load(Ordering::Relaxed);
    assert!(threads <= 16, "{threads} threads");
}

/// A rule with this condition.
fn rule(name: &str, text: &str) -> Resource {
    let mut body = vec![0x0a, u8::try_from(text.len()).unwrap()];
    body.extend(text.as_bytes());
    Resource::new(name, "1", RULE, body)
}

fn change(collection: &str, resources: Vec<Resource>) -> Change {
    Change {
        collection: collection.into(),
        resources: resources.into(),
        removed: Vec::new(),
        incremental: false,
        system_version: "7".to_owned(),
    }
}

struct Scene {
    store: FeedStore,
    applier: Applier,
}

impl Scene {
    fn new() -> Self {
        let (store, feed) = Feed::new("mcp://h:1", "mcp://h:1", ());
        let kinds: Vec<&'static Kind> =
            [RULES, DENIERS].iter().map(|name| mixer_schema::by_collection(name).unwrap()).collect();
        feed.change(|draft| {
            kinds.iter().for_each(|kind| draft.expect(kind.collection));
            draft.close();
        });
        Self { store, applier: Applier::new(feed, &kinds) }
    }

    fn texts(&self) -> Vec<(String, String)> {
        let contents = self.store.contents();
        let shown = |resource: &std::sync::Arc<mixer_config::RawResource>| {
            let document = resource.document();
            let spec = document.get("spec").cloned().unwrap_or_default();
            let text = spec.get("match").and_then(mixer_config::Node::as_str).unwrap_or_default().to_owned();
            (resource.key.to_string(), text)
        };
        contents.resources.iter().map(shown).collect()
    }
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[tokio::test]
async fn a_change_replaces_a_collection_and_only_differences_count() {
    let mut scene = Scene::new();
    let two = vec![rule("shop/a", "x"), rule("a/b/c", "y")];
    scene.applier.apply(change(RULES, two.clone())).unwrap();
    assert!(scene.store.contents().unavailable.is_some(), "the other collection is missing");
    scene.applier.apply(change(DENIERS, Vec::new())).unwrap();
    assert_eq!(scene.texts(), pairs(&[("c.rule.a/b", "y"), ("a.rule.shop", "x")]));
    scene.store.changed().await;
    let first = scene.store.contents();
    // The same again, in another order and another version.
    let mut again: Vec<Resource> = two.into_iter().rev().collect();
    again[0].version = "2".into();
    scene.applier.apply(change(RULES, again)).unwrap();
    assert!(!scene.store.has_changed() && std::sync::Arc::ptr_eq(&first, &scene.store.contents()));
    scene.applier.apply(change(RULES, vec![rule("shop/a", "z")])).unwrap();
    assert_eq!(scene.texts(), pairs(&[("a.rule.shop", "z")]));
    scene.applier.apply(change(RULES, Vec::new())).unwrap();
    assert_eq!(scene.texts(), []);
    let source = scene.store.source().unwrap();
    let rules = source.collections.iter().find(|known| &*known.name == RULES).unwrap();
    assert_eq!((&*rules.version, rules.objects), ("7", 0));
}

/// How far the decoding of a collection is; also of one that is refused.
#[tokio::test]
async fn a_change_counts_the_resources_that_are_read() {
    let mut scene = Scene::new();
    let many =
        |count: usize| (0..count).map(|index| rule(&format!("shop/r{index}"), "x")).collect::<Vec<_>>();
    let mut broken = many(17);
    broken[4].body = vec![0xff].into();
    // Changes of other tests count as well.
    for (resources, expected) in [(many(23), (23, 23)), (broken, (5, 17))] {
        let deadline = std::time::Instant::now() + DEADLINE;
        loop {
            let _ = scene.applier.apply(change(RULES, resources.clone()));
            let ended = mixer_base::load::ended();
            let place = format!("mcp://h:1/{RULES}");
            let read = ended.iter().filter(|load| load.what == place);
            if read.clone().any(|load| (load.documents, load.of_documents) == expected) {
                break;
            }
            assert!(std::time::Instant::now() < deadline, "{expected:?}: {:?}", read.collect::<Vec<_>>());
        }
    }
}

#[tokio::test]
async fn what_cannot_be_decoded_refuses_the_whole_change() {
    let mut scene = Scene::new();
    scene.applier.apply(change(DENIERS, Vec::new())).unwrap();
    scene.applier.apply(change(RULES, vec![rule("shop/a", "x")])).unwrap();
    let broken = Resource::new("shop/b", "1", RULE, vec![0x0a, 9]);
    let refusal = scene.applier.apply(change(RULES, vec![rule("shop/a", "y"), broken])).unwrap_err();
    assert!(refusal.code == 2 && refusal.message.starts_with("shop/b: "), "{refusal:?}");
    assert_eq!(scene.texts(), pairs(&[("a.rule.shop", "x")]));
    let unknown = Resource::new("shop/b", "1", "type.googleapis.com/example.Thing", Vec::new());
    let refusal = scene.applier.apply(change(RULES, vec![unknown])).unwrap_err();
    assert_eq!(
        refusal,
        Refusal { code: 2, message: "shop/b: unknown message type `example.Thing`".to_owned() }
    );
    // One without a namespace is told, and not refused: as in a file.
    scene.applier.apply(change(RULES, vec![rule("a", "x")])).unwrap();
    assert_eq!((scene.texts(), scene.store.contents().broken.len()), (Vec::new(), 1));
}

#[tokio::test]
async fn differences_are_applied_to_what_is_there() {
    let mut scene = Scene::new();
    scene.applier.apply(change(DENIERS, Vec::new())).unwrap();
    scene.applier.apply(change(RULES, vec![rule("shop/a", "x"), rule("shop/b", "x")])).unwrap();
    let delta = Change {
        incremental: true,
        removed: vec!["shop/b".to_owned()],
        ..change(RULES, vec![rule("shop/c", "z")])
    };
    scene.applier.apply(delta).unwrap();
    assert_eq!(scene.texts(), pairs(&[("a.rule.shop", "x"), ("c.rule.shop", "z")]));
    // One for which there is no room replaces nothing; one that takes the place of another has that of both.
    scene.applier.max_bytes = scene.applier.feed.bytes();
    let with = |removed: &[&str], name: &str| Change {
        incremental: true,
        removed: removed.iter().map(|name| (*name).to_owned()).collect(),
        ..change(RULES, vec![rule(name, "y")])
    };
    assert!(scene.applier.apply(with(&[], "shop/d")).is_err());
    assert_eq!(scene.texts(), pairs(&[("a.rule.shop", "x"), ("c.rule.shop", "z")]));
    scene.applier.apply(with(&["shop/c"], "shop/d")).unwrap();
    assert_eq!(scene.texts(), pairs(&[("a.rule.shop", "x"), ("d.rule.shop", "y")]));
    scene.applier.apply(with(&[], "shop/d")).unwrap();
    scene.applier.apply(change(RULES, vec![rule("shop/d", "y"), rule("shop/e", "z")])).unwrap();
    assert_eq!(scene.texts(), pairs(&[("d.rule.shop", "y"), ("e.rule.shop", "z")]));
}

#[tokio::test]
async fn a_structure_is_the_value_that_was_written() {
    let mut scene = Scene::new();
    let text =
        "spec: {status: {code: 7, message: no}, validUseCount: 1000, ratio: 0.5, list: [1, two, null, true]}";
    let written = mixer_config::yaml::parse(text).unwrap().root;
    let kind = mixer_schema::by_collection(DENIERS).unwrap();
    let spec = written.get("spec").unwrap();
    let encoded = mixer_schema::encode(kind, spec).unwrap();
    assert_eq!(encoded.type_url, STRUCT);
    scene.applier.apply(change(RULES, Vec::new())).unwrap();
    let resource = Resource::new("shop/no", "1", STRUCT, encoded.body);
    scene.applier.apply(change(DENIERS, vec![resource])).unwrap();
    let contents = scene.store.contents();
    let read = contents.resources.iter().next().unwrap();
    assert_eq!(
        (read.key.to_string(), &*read.envelope.api_version),
        ("no.denier.shop".to_owned(), "config.istio.io/v1alpha2")
    );
    let document = read.document();
    let found = document.get("spec").unwrap();
    for entry in spec.entries() {
        let same = found.get(&entry.key).is_some_and(|value| {
            // Members of objects are sorted.
            value.same_value(&entry.value)
        });
        assert!(same, "{}: {}", entry.key, read.origin.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_can_connect_to_this_server() {
    let url = "mcp+listen://127.0.0.1:0";
    let options = StoreOptions { kinds: kinds(), ..StoreOptions::new(url) };
    let store = crate::open(&options, &Arc::default()).unwrap();
    let waits = async {
        loop {
            let why = store.availability().err().map(|outage| outage.why).unwrap_or_default();
            match why.strip_prefix("no source is connected to ") {
                Some(address) => break address.to_owned(),
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    };
    let address = tokio::time::timeout(DEADLINE, waits).await.expect("it says that it waits");
    let cache = Cache::new(|_, _| "default".into());
    let names: Vec<Arc<str>> = mixer_schema::kinds().iter().map(|kind| kind.collection.into()).collect();
    let filled = |text: &str, version: &str| {
        let rules = Collection::new(RULES, version, [Arc::new(rule("shop/a", text))]);
        let empty = names.iter().filter(|name| ***name != *RULES);
        let empty = empty.map(|name| Collection::new(Arc::clone(name), "1", []));
        Arc::new(Snapshot::of(empty.chain([rules])))
    };
    cache.set_snapshot("default", filled("x", "1"));
    let source = Source::new(Arc::clone(&cache), SourceOptions::new(names.clone()), &Arc::default()).unwrap();
    let call_out = CallOut::new(source, ClientOptions::new(address.clone()));
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let calls = tokio::spawn(async move { call_out.run(stopped).await });
    tokio::time::timeout(DEADLINE, store.loaded()).await.expect("everything arrives");
    let name =
        || store.contents().resources.iter().map(|resource| resource.origin.place()).collect::<Vec<_>>();
    assert_eq!(name(), [format!("{url}/{RULES}/shop/a")]);
    store.changed().await;
    cache.set_snapshot("default", filled("y", "2"));
    tokio::time::timeout(DEADLINE, store.changed()).await.expect("a change arrives");
    stop.cancel();
    calls.await.unwrap();
    let waits = async {
        while store.availability().is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, waits).await.expect("the end is told");
    assert_eq!(name().len(), 1, "and nothing else");
    // The port is that of somebody else.
    let options = StoreOptions::new(format!("mcp+listen://{address}"));
    let taken = crate::open(&options, &Arc::default()).err().unwrap().to_string();
    assert!(taken.starts_with("invalid configuration: unable to listen: "), "{taken}");
}

#[tokio::test]
async fn a_change_for_which_there_is_no_room_is_refused() {
    let mut scene = Scene::new();
    assert_eq!(scene.applier.max_bytes, 304 << 20);
    scene.applier.max_bytes = 37_000;
    scene.applier.apply(change(DENIERS, Vec::new())).unwrap();
    // A rule takes some 2 600 bytes.
    let rules = |count: usize, text: &str| -> Vec<Resource> {
        (0..count).map(|number| rule(&format!("shop/r{number}"), text)).collect()
    };
    scene.applier.apply(change(RULES, rules(12, "x"))).unwrap();
    let refusal = scene.applier.apply(change(RULES, rules(20, "x"))).unwrap_err();
    assert!(refusal.message.contains("bytes of others; all may take 37000, and half as much"), "{refusal:?}");
    assert_eq!(scene.texts().len(), 12, "nothing was applied");
    // As many others take their place, but not all at once if that takes too much meanwhile.
    let refusal = scene.applier.apply(change(RULES, rules(12, "y"))).unwrap_err();
    assert_eq!((refusal.code, scene.texts()[0].1.as_str()), (3, "x"));
    scene.applier.apply(change(RULES, rules(7, "x"))).unwrap();
    scene.applier.apply(change(RULES, rules(12, "x"))).unwrap();
    scene.applier.apply(change(RULES, [rules(6, "y"), rules(12, "x").split_off(6)].concat())).unwrap();
    scene.applier.apply(change(RULES, rules(12, "y"))).unwrap();
    assert!(scene.texts().iter().all(|(_, text)| text == "y"));
}

#[tokio::test]
async fn a_resource_that_is_there_twice_and_differently_is_refused() {
    let mut scene = Scene::new();
    scene.applier.apply(change(DENIERS, Vec::new())).unwrap();
    scene.applier.apply(change(RULES, vec![rule("shop/a", "x")])).unwrap();
    let twice = vec![rule("shop/a", "x"), rule("shop/a", "y")];
    let refusal = scene.applier.apply(change(RULES, twice)).unwrap_err();
    assert_eq!(refusal.message, "shop/a is there twice, and differently");
    scene.applier.apply(change(RULES, vec![rule("shop/a", "z"), rule("shop/a", "z")])).unwrap();
    assert_eq!(scene.texts(), pairs(&[("a.rule.shop", "z")]));
}

#[tokio::test]
async fn what_a_source_has_is_unknown_until_it_was_received_from_this_stream() {
    let mut scene = Scene::new();
    scene.applier.begin();
    let unknown = |scene: &Scene| -> Vec<String> {
        scene.store.contents().unread().into_iter().map(|unread| unread.why).collect()
    };
    scene.applier.apply(change(DENIERS, Vec::new())).unwrap();
    scene.applier.apply(change(RULES, vec![rule("shop/a", "x")])).unwrap();
    assert_eq!((scene.texts(), unknown(&scene)), (pairs(&[("a.rule.shop", "x")]), Vec::new()));
    // The source is connected again, and begins with another collection than it ends with.
    scene.applier.begin();
    assert_eq!(unknown(&scene), Vec::<String>::new(), "nothing has changed");
    scene.applier.apply(change(RULES, Vec::new())).unwrap();
    assert_eq!(
        unknown(&scene),
        [
            "mcp://h:1/istio/config/v1alpha2/legacy/deniers: it is not received again yet since the source was connected"
        ]
    );
    scene.applier.apply(change(DENIERS, Vec::new())).unwrap();
    assert_eq!(unknown(&scene), Vec::<String>::new());
    // What is refused is unknown until something is accepted.
    let refusal = Refusal::from("shop/a is bad".to_owned());
    scene.applier.refused(RULES, &refusal);
    scene.applier.refused("another", &refusal);
    assert_eq!(
        unknown(&scene),
        ["mcp://h:1/istio/policy/v1beta1/rules: its last change is refused: shop/a is bad"]
    );
    scene.applier.apply(change(RULES, Vec::new())).unwrap();
    assert_eq!(unknown(&scene), Vec::<String>::new());
}

#[tokio::test]
async fn a_change_of_a_stream_that_has_ended_says_nothing_of_the_next_one() {
    let mut scene = Scene::new();
    scene.applier.begin();
    scene.applier.apply(change(DENIERS, Vec::new())).unwrap();
    scene.applier.apply(change(RULES, vec![rule("shop/a", "x")])).unwrap();
    let turn = scene.applier.turn();
    // It waits for its turn when the source is connected again.
    let mut old = scene.applier.clone();
    let applying = old.apply_elsewhere(change(RULES, vec![rule("shop/a", "y")]));
    scene.applier.begin();
    drop(turn);
    applying.await.unwrap();
    let unknown: Vec<_> = scene.store.contents().unread().into_iter().map(|unread| unread.path).collect();
    assert_eq!(unknown, [DENIERS, RULES].map(|name| format!("mcp://h:1/{name}").into()));
    scene.applier.apply(change(RULES, vec![rule("shop/a", "y")])).unwrap();
    let unknown: Vec<_> = scene.store.contents().unread().into_iter().map(|unread| unread.path).collect();
    assert_eq!(unknown, [format!("mcp://h:1/{DENIERS}").into()]);
}

#[tokio::test]
async fn a_resource_with_a_field_that_is_not_known_cannot_be_read() {
    let newer = || {
        let mut body = rule("shop/a", "x").body.to_vec();
        // Field 15: 1.
        body.extend([0x78, 1]);
        Resource::new("shop/b", "1", RULE, body)
    };
    let mut scene = Scene::new();
    scene.applier.apply(change(DENIERS, Vec::new())).unwrap();
    scene.applier.apply(change(RULES, vec![rule("shop/a", "x"), newer()])).unwrap();
    assert_eq!(scene.texts(), pairs(&[("a.rule.shop", "x")]));
    let unread = scene.store.contents().unread();
    let why = "mcp://h:1/istio/policy/v1beta1/rules/shop/b: unknown field with number 15 in `istio.policy.v1beta1.Rule`";
    assert_eq!((unread.len(), &*unread[0].why), (1, why));
    let mut lenient = Scene::new();
    lenient.applier = lenient.applier.ignoring_unknown_fields(true);
    lenient.applier.apply(change(DENIERS, Vec::new())).unwrap();
    lenient.applier.apply(change(RULES, vec![newer()])).unwrap();
    assert_eq!(lenient.texts(), pairs(&[("b.rule.shop", "x")]));
}

#[tokio::test]
async fn a_collection_that_was_emptied_while_the_source_was_away_is_told_apart_from_one_that_is_emptied() {
    let scene = Scene::new();
    let empty =
        || scene.store.contents().always_empty.iter().map(|path| path.to_string()).collect::<Vec<_>>();
    let of = |collection: &str| format!("mcp://h:1/{collection}");
    let stream = || {
        let mut applier = scene.applier.clone();
        applier.begin();
        applier
    };
    let mut first = stream();
    assert!(empty().is_empty(), "nothing is received yet");
    first.apply(change(RULES, vec![rule("ns/r", "a")])).unwrap();
    first.apply(change(DENIERS, Vec::new())).unwrap();
    assert_eq!(empty(), [of(DENIERS)]);
    first.apply(change(RULES, Vec::new())).unwrap();
    assert_eq!(empty(), [of(DENIERS)], "the last rule was deleted");
    first.apply(change(RULES, vec![rule("ns/r", "a")])).unwrap();
    let mut second = stream();
    second.apply(change(DENIERS, Vec::new())).unwrap();
    assert_eq!(empty(), [of(DENIERS)], "of the rules nothing is known");
    second.apply(change(RULES, Vec::new())).unwrap();
    assert_eq!(empty(), [of(DENIERS), of(RULES)]);
    second.apply(change(RULES, Vec::new())).unwrap();
    assert_eq!(empty(), [of(DENIERS), of(RULES)], "again");
    second.apply(change(RULES, vec![rule("ns/r", "a")])).unwrap();
    assert_eq!(empty(), [of(DENIERS)]);
    second.apply(change(RULES, Vec::new())).unwrap();
    assert_eq!(empty(), [of(DENIERS)], "it was deleted on a stream that had it");
    // What comes again in the same form counts as well.
    second.apply(change(RULES, vec![rule("ns/r", "a")])).unwrap();
    let mut third = stream();
    third.apply(change(RULES, vec![rule("ns/r", "a")])).unwrap();
    third.apply(change(RULES, Vec::new())).unwrap();
    assert!(empty().is_empty(), "of the others nothing is known by now");
    let mut fourth = stream();
    fourth.apply(change(RULES, Vec::new())).unwrap();
    assert_eq!(empty(), [of(RULES)], "whoever emptied it");
    // One of a stream that has ended says nothing of the next one.
    let mut fifth = stream();
    fourth.apply(change(RULES, vec![rule("ns/r", "a")])).unwrap();
    fourth.apply(change(RULES, Vec::new())).unwrap();
    fifth.apply(change(RULES, Vec::new())).unwrap();
    assert_eq!(empty(), [of(RULES)]);
}
