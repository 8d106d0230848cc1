//! Lists that take long to read: what else the tasks of a server do meanwhile, and who waits for whom.

use super::super::entries::Entries;
use super::*;
use rustix::time::{ClockId, clock_gettime};

/// How much work this thread has done.
fn work() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

/// A list that is no small one. `last`: its last entry.
fn large(last: &str) -> String {
    let mut text: String = (0..10_000).map(|n| format!("user-{n}\n")).collect();
    assert!(text.len() > turn::SMALL);
    text.push_str(last);
    text
}

fn of(server: &Server, entry_type: EntryType) -> (Arc<Provider>, provider::Refresher) {
    refresher(ListSource::Url(server.url()), entry_type, false)
}

fn has(provider: &Provider, symbol: &str) -> bool {
    let state = provider.state();
    state.entries.as_ref().is_some_and(|entries| entries.look_up(symbol.as_bytes()) == Lookup::Found)
}

const LONG: Duration = Duration::from_secs(60);

/// The runtime of the test has one thread, as a server has few for everything but calls.
#[tokio::test]
async fn a_list_is_read_and_looked_at_on_another_thread() {
    let strings = |from: usize| (from..from + 200_000).map(|n| format!("user-{n}\n")).collect::<String>();
    let addresses = |from: usize| {
        let of = |n: usize| format!("- 10.{}.{}.{}\n", n >> 16, n >> 8 & 255, n & 255);
        format!("whitelist:\n{}", (from..from + 40_000).map(of).collect::<String>())
    };
    let patterns =
        |from: usize| (from..from + 800).map(|n| format!("^user{n}\\.[a-z]+$\n")).collect::<String>();
    for (entry_type, first, second) in [
        (EntryType::Strings, strings(0), strings(500_000)),
        (EntryType::CaseInsensitiveStrings, strings(0), strings(500_000)),
        (EntryType::IpAddresses, addresses(0), addresses(100_000)),
        (EntryType::Regex, patterns(0), patterns(1000)),
    ] {
        let began = work();
        Entries::parse(entry_type, &first.clone().into_bytes().into(), &[], Dialect::Native).unwrap();
        let cost = work() - began;
        let server = Server::start(&ok(&first));
        let (provider, mut refresher) = of(&server, entry_type);
        let began = work();
        assert!(refresher.fetch().await);
        server.serve(&second);
        assert!(refresher.fetch().await);
        let spent = work() - began;
        assert!(length(&provider).is_some_and(|length| length >= 800));
        // Parsed twice, and looked through several times more.
        assert!(spent < cost, "{entry_type:?}: {spent:?} for two fetches, {cost:?} for one list");
    }
}

#[tokio::test]
async fn large_lists_are_read_one_after_the_other_and_the_last_ones_serve_meanwhile() {
    let (server, small) = (Server::start(&ok(&large("a"))), Server::start(&ok("a\n")));
    let (provider, mut refresher) = of(&server, EntryType::Strings);
    let (little, mut other) = of(&small, EntryType::Strings);
    assert!(refresher.fetch().await && other.fetch().await);
    server.serve(&large("b"));
    small.serve("b\n");

    // Another list is being read.
    let another = turn::turn(turn::SMALL + 1).await.unwrap();
    let fetch = tokio::spawn(async move { (refresher.fetch().await, refresher) });
    assert!(tokio::time::timeout(LONG, other.fetch()).await.unwrap(), "a small one does not wait");
    assert!(has(&little, "b"));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!fetch.is_finished() && has(&provider, "a") && !has(&provider, "b"));
    drop(another);
    let (is_new, mut refresher) = tokio::time::timeout(LONG, fetch).await.unwrap().unwrap();
    assert!(is_new && has(&provider, "b") && !has(&provider, "a"));

    // A handler that is removed meanwhile leaves nothing behind.
    server.serve(&large("c"));
    let another = turn::turn(turn::SMALL + 1).await.unwrap();
    let fetch = tokio::spawn(async move { refresher.fetch().await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    fetch.abort();
    assert!(fetch.await.unwrap_err().is_cancelled());
    drop(another);
    let next = tokio::time::timeout(LONG, turn::turn(turn::SMALL + 1)).await;
    assert!(next.is_ok(), "it does not keep its turn");
    assert!(has(&provider, "b") && !has(&provider, "c"));
    let only = tokio::time::timeout(LONG, async {
        while Arc::strong_count(&provider) > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(only.await.is_ok(), "nothing else has its provider");
}

/// Work that has begun keeps its turn to its end: lists of handlers that are replaced all the time are still read one at a time.
#[tokio::test]
async fn work_that_nobody_waits_for_keeps_its_turn_and_is_told() {
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let (end, ends) = std::sync::mpsc::channel();
    let (told, is_told) = tokio::sync::oneshot::channel();
    let run = tokio::spawn(turn::in_turn(turn::SMALL + 1, move |awaited| {
        let before = awaited.is_over();
        begun.send(()).unwrap();
        ends.recv().unwrap();
        told.send((before, awaited.is_over())).unwrap();
    }));
    tokio::time::timeout(LONG, has_begun).await.unwrap().unwrap();
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    let short = Duration::from_millis(100);
    assert!(tokio::time::timeout(short, turn::turn(turn::SMALL + 1)).await.is_err());
    end.send(()).unwrap();
    assert_eq!(tokio::time::timeout(LONG, is_told).await.unwrap(), Ok((false, true)));
    assert!(tokio::time::timeout(LONG, turn::turn(turn::SMALL + 1)).await.is_ok());
    let panics = turn::in_turn(1, |_| assert_eq!(1, 2)).await;
    assert!(panics.unwrap_err().contains("panic"));
}

/// While another list is being read: a body that is known needs no turn.
#[tokio::test]
async fn a_body_that_was_read_or_refused_is_not_read_again() {
    let server = Server::start(&ok(&large("(bad")));
    let (provider, mut refresher) = of(&server, EntryType::Regex);
    assert!(!refresher.fetch().await);
    let why = provider.state().error.clone();
    assert!(why.as_ref().is_some_and(|why| why.contains("(bad")), "{why:?}");
    *server.answer.lock().unwrap() =
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_vec();
    assert!(!refresher.fetch().await);
    assert_ne!(provider.state().error, why);
    server.serve(&large("(bad"));
    let another = turn::turn(turn::SMALL + 1).await.unwrap();
    for _ in 0..2 {
        assert_eq!(tokio::time::timeout(LONG, refresher.fetch()).await, Ok(false));
        assert_eq!(provider.state().error, why, "it is told all the same");
    }
    drop(another);

    let server = Server::start(&ok(&large("a")));
    let (provider, mut refresher) = of(&server, EntryType::Strings);
    assert!(refresher.fetch().await);
    let _another = turn::turn(turn::SMALL + 1).await.unwrap();
    assert_eq!(tokio::time::timeout(LONG, refresher.fetch()).await, Ok(true));
    assert!(has(&provider, "a"));
}

/// It is the answer of every check, and kept with the list.
#[tokio::test]
async fn an_error_does_not_quote_an_entry_of_any_length() {
    let server = Server::start(&ok(&format!("({}", "a".repeat(1 << 20))));
    let (provider, mut refresher) = of(&server, EntryType::Regex);
    assert!(!refresher.fetch().await);
    assert!(provider.state().error.as_ref().is_some_and(|why| why.len() < 5000));
    server.serve(&format!("whitelist: [{}]", "x".repeat(1 << 20)));
    let (provider, mut refresher) = of(&server, EntryType::IpAddresses);
    assert!(!refresher.fetch().await);
    let error = provider.state().error.clone().unwrap();
    assert!(error.len() < 5000 && error.ends_with('…'), "{}", error.len());
}

/// What came in time is worth waiting for: until it is read, every check fails.
#[tokio::test]
async fn a_handler_waits_longer_for_a_list_that_is_being_read() {
    let server = Server::start(&ok(&large("a")));
    for (limit, is_loaded) in [(LONG, true), (Duration::from_millis(50), false)] {
        let (provider, mut refresher) = of(&server, EntryType::Strings);
        let another = turn::turn(turn::SMALL + 1).await.unwrap();
        let later = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(if is_loaded { 2500 } else { 4000 })).await;
            drop(another);
        });
        refresher.load_within(Duration::from_secs(2), limit).await;
        assert_eq!(has(&provider, "a"), is_loaded);
        let told = format!("the list from {} is being read, it is waited for", server.url());
        assert_eq!(provider.state().error, (!is_loaded).then_some(told));
        later.await.unwrap();
    }
}

/// The list of the handler before, if that takes long, too.
#[tokio::test]
async fn an_inherited_list_that_takes_long_is_read_in_the_background() {
    let server = Server::start(&ok(&large("a")));
    let (before, mut first) = of(&server, EntryType::Strings);
    assert!(first.fetch().await);
    let known = KnownProviders::default();
    known.add(&before);
    *server.answer.lock().unwrap() =
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec();
    let (after, mut refresher) = of(&server, EntryType::Strings);
    refresher.load().await;
    let another = turn::turn(turn::SMALL + 1).await.unwrap();
    refresher.inherit(&known, Duration::from_millis(50)).await;
    assert_eq!(length(&after), None);
    // The handler that fetched it is gone.
    drop((first, before));
    drop(another);
    let run = tokio::spawn(async move { refresher.run().await });
    let serves = tokio::time::timeout(LONG, async {
        while !has(&after, "a") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(serves.await.is_ok());
    run.abort();
}
