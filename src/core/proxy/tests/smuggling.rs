//! Request smuggling: what hosts receive of a stream of bytes is what a strict reading of RFC 9112 allows, no request more and none less.
//!
//! `MIXER_SMUGGLING_STREAMS` sets the number of generated streams, `MIXER_SMUGGLING_SEED` the first of them: a run that was interrupted goes on
//! behind the last seed that it printed. With `MIXER_SMUGGLING_PORT` and `MIXER_SMUGGLING_HOST` the streams made by hand, and as many generated
//! ones, are sent to the port of another proxy that forwards to a host at the other port, and its differences are printed: for comparisons by
//! hand.

#![cfg(test)]

#[path = "smuggling/generator.rs"]
mod generator;
#[path = "support/proxy.rs"]
mod proxy;
#[path = "smuggling/reference.rs"]
mod reference;
#[path = "smuggling/scene.rs"]
mod scene;
#[path = "smuggling/streams.rs"]
mod streams;

use std::sync::atomic::{AtomicU64, Ordering};

use proxy::{Proxy, wait_for};
use reference::End;
use scene::Lane;
use streams::STREAMS;

fn letter(end: End) -> char {
    match end {
        End::Clean => 'c',
        End::Incomplete => 'i',
        End::Refused(_) => 'r',
        End::Closed => 'x',
    }
}

/// Plays a stream. Returns what differs from the strict reading.
fn difference(lane: &Lane, bytes: &[u8], piece: usize) -> Option<String> {
    let expected = reference::read(bytes);
    let played = lane.play(bytes, piece, &expected);
    let (requests, end) = &expected;
    let is_refused = matches!(end, End::Refused(_));
    // A refusal is answered, unless the line that is wrong has not ended.
    let answered = played.statuses.len();
    let is_answered = match end {
        End::Clean => answered == requests.len() + 1,
        End::Closed | End::Incomplete => answered == requests.len(),
        End::Refused(_) => answered <= requests.len() + 1,
    };
    let refusal = played.statuses.get(requests.len());
    let is_error = !is_refused || refusal.is_none_or(|status| (400..600).contains(status));
    if played.seen.requests == *requests
        && played.seen.invalid.is_empty()
        && is_answered
        && is_error
        && played.has_ended
    {
        return None;
    }
    Some(format!(
        "{}\n  in pieces of {piece}\n  strict: {} requests, {end:?}\n  hosts:  {} requests, invalid: {:?}\n  statuses: {:?}, ended: {}\n  {:?}\n  {:?}",
        bytes.escape_ascii(),
        requests.len(),
        played.seen.requests.len(),
        played.seen.invalid,
        played.statuses,
        played.has_ended,
        requests,
        played.seen.requests,
    ))
}

#[test]
fn streams_made_by_hand_are_read_as_the_standard_says() {
    assert!(STREAMS.len() >= 200, "{}", STREAMS.len());
    let mut misread = Vec::new();
    for stream in STREAMS {
        let (requests, end) = reference::read(&stream.bytes());
        if (requests.len(), letter(end)) != (stream.forwarded, stream.end) {
            misread.push(format!("{}: {} {end:?}", stream.subject, requests.len()));
        }
    }
    assert_eq!(misread, [""; 0], "what the reference reads otherwise");
    let (proxy, [lane]) = scene::start::<1>();
    let mut differences = Vec::new();
    for stream in STREAMS {
        // As a whole, and so that every place is the end of a read.
        for piece in [usize::MAX, 1] {
            if let Some(difference) = difference(&lane, &stream.bytes(), piece) {
                differences.push(format!("{}: {difference}", stream.subject));
            }
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    wait_for_rest(&proxy, &lane);
}

/// Waits until no request is left.
fn wait_for_rest(proxy: &Proxy, lane: &Lane) {
    let name = format!("http.lane-{}.downstream_rq_active", lane.port);
    wait_for(&name, || (proxy.stat(&name) == 0).then_some(()));
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

/// Streams after which a long run says how far it is.
const PROGRESS: u64 = 50_000;

/// Lanes for so many streams. Most of the time a lane waits: the proxy must not answer a stream of which more may come.
fn lanes_for(count: u64) -> (Proxy, Vec<Lane>) {
    if count > PROGRESS {
        let (proxy, lanes) = scene::start::<32>();
        (proxy, lanes.into())
    } else {
        let (proxy, lanes) = scene::start::<4>();
        (proxy, lanes.into())
    }
}

#[test]
fn generated_streams_are_read_as_the_standard_says() {
    let count = number("MIXER_SMUGGLING_STREAMS", 20_000);
    let first = number("MIXER_SMUGGLING_SEED", 0);
    let (proxy, lanes) = lanes_for(count);
    let (next, finished) = (AtomicU64::new(0), AtomicU64::new(0));
    // What each lane plays.
    let playing: Vec<AtomicU64> = lanes.iter().map(|_| AtomicU64::new(0)).collect();
    let differences = parking_lot::Mutex::new(Vec::new());
    let (forwarded, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for (lane, plays) in lanes.iter().zip(&playing) {
            let (next, finished, playing, differences) = (&next, &finished, &playing, &differences);
            let (forwarded, refused) = (&forwarded, &refused);
            scope.spawn(move || {
                while differences.lock().len() < 10 {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= count {
                        return;
                    }
                    plays.store(seed, Ordering::Relaxed);
                    let mut rng = fastrand::Rng::with_seed(first + seed);
                    let bytes = generator::stream(&mut rng);
                    let (requests, end) = reference::read(&bytes);
                    forwarded.fetch_add(requests.len() as u64, Ordering::Relaxed);
                    refused.fetch_add(u64::from(matches!(end, End::Refused(_))), Ordering::Relaxed);
                    let piece = if rng.u8(..8) == 0 { rng.usize(1..64) } else { usize::MAX };
                    if let Some(difference) = difference(lane, &bytes, piece) {
                        differences.lock().push(format!("seed {}: {difference}", first + seed));
                    }
                    let finished = finished.fetch_add(1, Ordering::Relaxed) + 1;
                    if finished.is_multiple_of(PROGRESS) {
                        let oldest = playing.iter().map(|seed| seed.load(Ordering::Relaxed)).min();
                        let (before, differ) = (first + oldest.unwrap_or(0), differences.lock().len());
                        println!("{finished} streams, all before seed {before}: {differ} differ");
                    }
                }
            });
        }
    });
    let differences = differences.into_inner();
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    lanes.iter().for_each(|lane| wait_for_rest(&proxy, lane));
    let (forwarded, refused) = (forwarded.into_inner(), refused.into_inner());
    println!("{count} streams: {forwarded} requests forwarded, {refused} streams refused");
    // Neither kind is rare.
    assert!(forwarded * 4 > count && refused * 10 > count, "{count} {forwarded} {refused}");
}

/// Another proxy, for comparisons by hand.
#[test]
fn another_proxy_is_compared_if_one_is_named() {
    let named = ["MIXER_SMUGGLING_PORT", "MIXER_SMUGGLING_HOST"].map(|name| number(name, 0));
    let lane = match named.map(|port| u16::try_from(port).unwrap()) {
        [0, _] | [_, 0] => {
            let [port, host] = proxy::free_ports();
            let _listener = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
            // Nobody is named: a proxy that does nothing forwards no request.
            let lane = Lane::of(port, std::net::TcpListener::bind(("127.0.0.1", host)).unwrap());
            assert!(lane.seen_requests().is_empty());
            return;
        }
        [port, host] => Lane::of(port, std::net::TcpListener::bind(("127.0.0.1", host)).unwrap()),
    };
    for stream in STREAMS {
        if let Some(difference) = otherwise(&lane, &stream.bytes()) {
            println!("{difference} {}", stream.subject);
        }
    }
    let count = number("MIXER_SMUGGLING_STREAMS", 0);
    let first = number("MIXER_SMUGGLING_SEED", 0);
    let mut differences = std::collections::BTreeMap::<String, u64>::new();
    for seed in first..first + count {
        let bytes = generator::stream(&mut fastrand::Rng::with_seed(seed));
        if let Some(difference) = otherwise(&lane, &bytes) {
            println!("{difference} seed {seed}: {}", bytes.escape_ascii());
            let kind = difference.split([' ', ':']).next().unwrap_or_default().to_owned();
            *differences.entry(kind).or_default() += 1;
        }
    }
    println!("{count} generated streams: {differences:?}");
}

/// What another proxy makes of a stream, if it is not the strict reading: whether it forwards `more` or `fewer` requests, or as many and
/// something `invalid`.
fn otherwise(lane: &Lane, bytes: &[u8]) -> Option<String> {
    let (requests, end) = reference::read(bytes);
    let played = lane.play_patiently(bytes);
    let kind = match played.seen.requests.len().cmp(&requests.len()) {
        std::cmp::Ordering::Greater => "more",
        std::cmp::Ordering::Less => "fewer",
        std::cmp::Ordering::Equal if played.seen.invalid.is_empty() => return None,
        std::cmp::Ordering::Equal => "invalid",
    };
    Some(format!(
        "{kind}: {} of {} {end:?} {:?} {:?}",
        played.seen.requests.len(),
        requests.len(),
        played.statuses,
        played.seen.invalid
    ))
}
