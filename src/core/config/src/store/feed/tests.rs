use serde_json::json;

use super::*;
use crate::store::{SourceObject, read_object};

fn object(feed: &Feed, name: &str, text: &str) -> ReadObject {
    let object = SourceObject {
        kind: "rule".to_owned(),
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        spec: json!({"match": text}),
        ..SourceObject::default()
    };
    read_object(&feed.origin("rules", Some(name)), object)
}

fn put(feed: &Feed, name: &str, text: &str) {
    let read = object(feed, name, text);
    feed.change(|draft| {
        draft.put("rules", name, read);
        draft.received("rules", "1");
    });
}

fn names(store: &FeedStore) -> Vec<String> {
    store.contents().resources.iter().map(|resource| resource.key.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn there_are_contents_once_every_collection_was_received() {
    let (store, feed) = Feed::new("mcp://h:1", "mcp://h:1", ());
    assert_eq!(store.availability().unwrap_err().why, "not connected yet");
    feed.change(|draft| ["rules", "handlers"].into_iter().for_each(|name| draft.expect(name)));
    feed.change(FeedDraft::close);
    put(&feed, "a", "true");
    assert_eq!(store.availability().unwrap_err().why, "not yet ready: [handlers]");
    assert!(!store.availability().unwrap_err().keeps_last);
    assert_eq!(store.contents().unavailable.as_deref(), Some("not read yet"));
    assert_eq!(store.contents().unread()[0].path, "mcp://h:1".into());
    assert!(!store.has_changed());
    feed.change(|draft| draft.received("handlers", ""));
    store.loaded().await;
    assert_eq!((names(&store), store.availability()), (vec!["a.rule.shop".to_owned()], Ok(())));
    feed.outage(Some("h:1: connection refused".to_owned()));
    let outage = Outage { why: "h:1: connection refused".to_owned(), keeps_last: true };
    assert_eq!(store.availability(), Err(outage));
    assert_eq!(names(&store), ["a.rule.shop"]);
}

#[tokio::test(start_paused = true)]
async fn only_differences_are_changes_and_those_in_quick_succession_are_one() {
    let (store, feed) = Feed::new("mcp://h:1", "mcp://h:1", ());
    feed.change(FeedDraft::close);
    put(&feed, "a", "true");
    store.changed().await;
    let first = store.contents();
    put(&feed, "a", "true");
    assert!(!store.has_changed() && Arc::ptr_eq(&first, &store.contents()), "the same again");
    let begun = Instant::now();
    for number in 0..5 {
        put(&feed, &format!("b{number}"), "true");
        tokio::time::advance(QUIET / 2).await;
    }
    assert!(store.has_changed());
    store.changed().await;
    assert!(begun.elapsed() < QUIET * 4 && !store.has_changed());
    assert_eq!((names(&store).len(), first.resources.len()), (6, 1));
    feed.change(|draft| draft.retain("rules", |name| name == "b3"));
    store.changed().await;
    assert_eq!(names(&store), ["b3.rule.shop"]);
    feed.change(|draft| draft.forget("rules"));
    store.changed().await;
    assert_eq!((names(&store).len(), store.source().unwrap().collections.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn changes_that_never_pause_are_announced_all_the_same() {
    let (store, feed) = Feed::new("mcp://h:1", "mcp://h:1", ());
    feed.change(FeedDraft::close);
    put(&feed, "a", "0");
    store.changed().await;
    let begun = Instant::now();
    let write = async {
        for number in 0.. {
            put(&feed, "a", &number.to_string());
            tokio::time::sleep(QUIET / 2).await;
        }
    };
    tokio::select! {
        () = write => {}
        () = store.changed() => {}
    }
    let took = begun.elapsed();
    assert!(took >= MAX_DELAY && took < MAX_DELAY * 2, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_collection_that_comes_later_holds_up_no_change_and_loses_none() {
    let (store, feed) = Feed::new("k8s://h:1", "k8s://h:1", ());
    feed.change(FeedDraft::close);
    put(&feed, "a", "true");
    store.changed().await;
    // Another kind is served, and not listed yet.
    feed.change(|draft| draft.expect("handlers"));
    put(&feed, "b", "true");
    store.changed().await;
    assert_eq!(names(&store), ["a.rule.shop", "b.rule.shop"]);
    let contents = store.contents();
    let broken: Vec<_> =
        contents.broken.iter().map(|broken| (&*broken.problem.message, broken.keeps_last)).collect();
    assert_eq!(broken, [("k8s://h:1/handlers: it is not received yet", false)]);
    feed.change(|draft| draft.received("handlers", "1"));
    store.changed().await;
    assert_eq!((names(&store).len(), store.contents().broken.len()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn what_a_collection_has_is_unknown_after_a_change_that_cannot_be_used() {
    let (store, feed) = Feed::new("mcp://h:1", "mcp://h:1", ());
    feed.change(|draft| {
        draft.expect("rules");
        draft.close();
    });
    feed.change(|draft| draft.refused("rules", "its change is refused: no message"));
    let why = store.availability().unwrap_err().why;
    assert_eq!(why, "not yet ready: [rules: its change is refused: no message]");
    put(&feed, "a", "true");
    store.changed().await;
    assert_eq!((store.availability(), store.contents().broken.len()), (Ok(()), 0));
    feed.change(|draft| draft.refused("rules", "its change is refused: no message"));
    store.changed().await;
    let contents = store.contents();
    assert_eq!((names(&store), contents.broken.len()), (vec!["a.rule.shop".to_owned()], 1));
    let broken = &contents.broken[0];
    assert_eq!((&*broken.file, broken.keeps_last), ("mcp://h:1/rules", true));
    assert!(contents.unread()[0].covers("mcp://h:1/rules/a"));
    assert_eq!(
        store.source().unwrap().collections[0].trouble,
        broken.problem.message.strip_prefix("mcp://h:1/rules: ").map(Into::into)
    );
    feed.change(|draft| draft.refused("rules", "its change is refused: no message"));
    assert!(!store.has_changed(), "the same again");
    put(&feed, "a", "true");
    store.changed().await;
    assert_eq!(store.contents().broken.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_collection_that_is_not_followed_is_told_with_the_next_change() {
    let (store, feed) = Feed::new("k8s://h:1", "k8s://h:1", ());
    feed.change(|draft| draft.expect("handlers"));
    feed.change(|draft| draft.received("handlers", "1"));
    feed.change(FeedDraft::close);
    put(&feed, "a", "true");
    store.changed().await;
    let unfollowed = |why: Option<&str>| feed.change(|draft| draft.unfollowed("handlers", why));
    unfollowed(Some("forbidden"));
    unfollowed(None);
    assert!(!store.has_changed(), "an outage alone changes nothing");
    unfollowed(Some("forbidden"));
    put(&feed, "a", "false");
    store.changed().await;
    assert_eq!(store.contents().broken[0].problem.message, "k8s://h:1/handlers: forbidden");
    unfollowed(None);
    store.changed().await;
    assert_eq!(store.contents().broken.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn collections_that_become_empty_one_after_the_other_are_one_change() {
    let (store, feed) = Feed::new("mcp://h:1", "mcp://h:1", ());
    feed.change(FeedDraft::close);
    put(&feed, "a", "true");
    let handler = SourceObject {
        kind: "handler".to_owned(),
        namespace: "shop".to_owned(),
        name: "h".to_owned(),
        ..SourceObject::default()
    };
    let handler = read_object(&feed.origin("handlers", Some("h")), handler);
    feed.change(|draft| draft.put("handlers", "h", handler));
    feed.change(|draft| draft.received("handlers", "1"));
    store.changed().await;
    assert_eq!(names(&store).len(), 2);
    let empties = async {
        for collection in ["rules", "handlers"] {
            feed.change(|draft| draft.retain(collection, |_| false));
            tokio::time::sleep(QUIET * 10).await;
        }
        std::future::pending().await
    };
    tokio::select! {
        () = store.changed() => {}
        () = empties => {}
    }
    assert_eq!(names(&store), Vec::<String>::new(), "a configuration without rules alone was to serve");
    // What takes the place of everything that there was is no deletion.
    put(&feed, "a", "true");
    store.changed().await;
    let (begun, b) = (Instant::now(), object(&feed, "b", "true"));
    feed.change(|draft| {
        draft.retain("rules", |_| false);
        draft.put("rules", "b", b);
    });
    store.changed().await;
    assert!(begun.elapsed() < EMPTIED_QUIET);
}

#[tokio::test(start_paused = true)]
async fn an_object_for_which_there_is_no_room_cannot_be_read() {
    let (store, feed) = Feed::new("mcp://h:1", "mcp://h:1", ());
    feed.change(|draft| {
        draft.max_bytes = 12 << 20;
        draft.close();
    });
    let large = "x".repeat(3 << 20);
    put(&feed, "a", &large);
    put(&feed, "b", &large);
    let contents = store.contents();
    assert_eq!((names(&store), contents.broken.len()), (vec!["a.rule.shop".to_owned()], 1));
    let text = "mcp://h:1/rules/b: it is not read: all objects have more than 12 MiB";
    assert_eq!(contents.broken[0].problem.message, text);
    put(&feed, "b", "small");
    assert_eq!((names(&store).len(), store.contents().broken.len()), (2, 0));
    put(&feed, "a", &large.replace('x', "y"));
    feed.change(|draft| draft.remove("rules", "a"));
    put(&feed, "b", &large);
    assert_eq!(store.contents().broken.len(), 0, "there is room again");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_is_unknown_and_not_gone() {
    let (store, feed) = Feed::new("mcp://h:1", "mcp://h:1", ());
    feed.change(FeedDraft::close);
    put(&feed, "a", "true");
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    feed.change(|draft| {
        let object = SourceObject {
            kind: "rule".into(),
            namespace: "shop".into(),
            name: "a".into(),
            spec: deep,
            ..SourceObject::default()
        };
        draft.put("rules", "a", read_object(&feed.origin("rules", Some("a")), object));
    });
    let contents = store.contents();
    assert_eq!((contents.resources.len(), contents.broken.len(), contents.diagnostics.len()), (0, 1, 1));
    assert_eq!(&*contents.broken[0].file, "mcp://h:1/rules/a");
    assert_eq!(store.source().unwrap().collections[0].broken, 1);
    put(&feed, "a", "true");
    assert_eq!((names(&store).len(), store.contents().broken.len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn labels_and_annotations_count_with_what_they_take() {
    const MOST: usize = 2_540_000;
    let (store, feed) = Feed::new("mcp://h:1", "mcp://h:1", ());
    feed.change(|draft| {
        draft.max_bytes = MOST;
        draft.close();
        draft.received("rules", "1");
    });
    let labelled = |name: &str| {
        let entries: BTreeMap<String, String> =
            (0..1_000).map(|number| (format!("a{number}"), "b".to_owned())).collect();
        let object = SourceObject {
            kind: "rule".to_owned(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            labels: entries.clone(),
            annotations: entries,
            ..SourceObject::default()
        };
        read_object(&feed.origin("rules", Some(name)), object)
    };
    // Each has some 130 KB: three times its text, and its annotations once more.
    let names: Vec<String> = (0..30).map(|number| number.to_string()).collect();
    for name in &names {
        let read = labelled(name);
        feed.change(|draft| draft.put("rules", name, read));
    }
    let contents = store.contents();
    let read = contents.resources.len();
    assert!((18..=20).contains(&read) && contents.broken.len() == names.len() - read, "{read}");
    let hint = contents.broken[0].problem.hint.as_deref();
    assert!(
        hint.is_some_and(|hint| hint.contains("each counts 3 times its text and 2048 bytes")),
        "{hint:?}"
    );
    let sizes = contents.resources.iter().map(|resource| object_size(&Ok(Arc::clone(resource))));
    let unread = contents.broken.iter().map(|broken| object_size(&Err(Box::new(broken.clone()))));
    let all = sizes.sum::<usize>();
    assert!(all <= MOST && all + unread.sum::<usize>() == feed.bytes(), "{all}");
}

#[tokio::test(start_paused = true)]
async fn objects_count_with_what_they_take_and_many_without_room_are_one_problem() {
    let (store, feed) = Feed::new("mcp://h:1", "mcp://h:1", ());
    feed.change(|draft| {
        draft.max_bytes = 8 << 20;
        draft.close();
    });
    let all = |count: usize| -> Vec<bool> {
        let objects = (0..count).map(|number| format!("r{number}"));
        let objects: Vec<_> = objects.map(|name| (object(&feed, &name, "true"), name)).collect();
        feed.change(|draft| {
            draft.retain("rules", |name| {
                name.strip_prefix('r').is_some_and(|n| n.parse::<usize>().unwrap() < count)
            });
            let put = objects.into_iter().map(|(read, name)| draft.put("rules", &name, read));
            let put = put.collect();
            draft.received("rules", "1");
            put
        })
    };
    let had_room = all(10_000).into_iter().filter(|had_room| *had_room).count();
    // Their texts have 1 MiB and more.
    assert!((3_000..3_500).contains(&had_room), "{had_room}");
    let contents = store.contents();
    assert_eq!((contents.resources.len(), contents.broken.len()), (had_room, MAX_LISTED + 1));
    let whole = contents.broken.iter().find(|broken| &*broken.file == "mcp://h:1/rules").unwrap();
    let text = "mcp://h:1/rules: more than 100 of its objects are not read: all objects have more than 8 MiB";
    assert_eq!((&*whole.problem.message, whole.keeps_last), (text, true));
    assert!(feed.has_left_out("rules"));
    store.changed().await;
    feed.change(|draft| draft.received("rules", "2"));
    assert!(!store.has_changed(), "nothing is new");
    all(2_000);
    assert_eq!((names(&store).len(), store.contents().broken.len()), (2_000, 0));
    assert!(!feed.has_left_out("rules"));
    let draft = feed.0.draft.lock();
    let rules = &draft.collections["rules"];
    assert_eq!(draft.bytes, rules.objects.values().map(object_size).sum::<usize>());
    assert_eq!((rules.bytes, rules.broken.len()), (draft.bytes, 0));
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_process_had_and_the_server_may_have_is_unknown() {
    let (store, feed) = Feed::new("k8s://h:1", "k8s://h:1", ());
    let is_asked = |name: &str| name != "gateways";
    feed.change(|draft| {
        draft.may_come(is_asked);
        draft.close();
    });
    put(&feed, "a", "true");
    store.changed().await;
    let unread = || store.contents().unread().into_iter().map(|unread| unread.why).collect::<Vec<_>>();
    let earlier =
        ["k8s://g:2/roles/shop/r", "k8s://g:2/gateways/shop/g", "k8s://h:1/rules/shop/a", "/etc/x/y"];
    store.expect(&earlier.map(Path::new));
    let why = "k8s://h:1/roles: it is not served yet, and the last good configuration has objects of it";
    assert_eq!((unread(), store.has_changed()), (vec![why.to_owned()], true));
    // It is served, and then received.
    feed.change(|draft| {
        draft.expect("roles");
        draft.may_come(is_asked);
    });
    assert_eq!(unread(), ["k8s://h:1/roles: it is not received yet"]);
    feed.change(|draft| draft.received("roles", "1"));
    assert_eq!(unread(), Vec::<String>::new());
    // It ends.
    feed.change(|draft| {
        draft.forget("roles");
        draft.may_come(is_asked);
    });
    assert_eq!((unread(), feed.change(|draft| draft.absent())), (Vec::new(), Vec::new()));
}

#[test]
fn what_a_server_lacks_at_first_that_is_connected_again_is_a_lapse() {
    let (store, feed) = Feed::new("mcp://h:1", "mcp://h:1", ());
    feed.change(|draft| ["rules", "handlers"].into_iter().for_each(|name| draft.expect(name)));
    feed.change(FeedDraft::close);
    let connected =
        || feed.change(|draft| ["rules", "handlers"].into_iter().for_each(|name| draft.connected(name)));
    let receive = |collection: &str, all: &[&str]| {
        let objects: Vec<ReadObject> = all.iter().map(|name| object(&feed, name, "true")).collect();
        feed.change(|draft| {
            draft.retain(collection, |name| all.contains(&name));
            all.iter().zip(objects).for_each(|(name, object)| _ = draft.put(collection, name, object));
            draft.received(collection, "1");
        });
        store.contents().lapses
    };
    connected();
    assert_eq!((receive("rules", &["a", "b"]), receive("handlers", &["h"])), (0, 0));
    assert_eq!(receive("rules", &["a"]), 0, "a deletion");
    assert_eq!(receive("rules", &["a", "b"]), 0);
    connected();
    assert_eq!((receive("rules", &["b", "c", "a"]), receive("handlers", &["h"])), (0, 0), "it lacks nothing");
    connected();
    assert_eq!(receive("rules", &["a"]), 1);
    assert_eq!(receive("handlers", &["h", "i"]), 2, "what is received after it may be all there is by now");
    assert_eq!((receive("rules", &["c"]), receive("rules", &["a", "b"])), (2, 2), "deletions");
    // One that is empty at first.
    connected();
    assert_eq!((receive("rules", &[]), receive("handlers", &["h", "i"])), (2, 3));
    assert_eq!((receive("rules", &["b"]), receive("rules", &["a"])), (4, 4));
}
