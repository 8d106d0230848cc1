//! Clients that break the rules, or keep to them to do harm.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::client::Client;
use crate::peers::{read_head, serve};
use crate::proxy::wait_for;
use crate::raw::{
    DATA, END_STREAM, GOAWAY, HEADERS, PING, POST, RST_STREAM, Raw, SETTINGS, WINDOW_UPDATE, block, frame,
};
use crate::scene::{Scene, mirror};

/// SETTINGS_INITIAL_WINDOW_SIZE.
const INITIAL_WINDOW: u16 = 4;

/// A host that never answers.
fn silent() -> u16 {
    serve(|mut stream, _| while read_head(&mut stream).is_some() {})
}

/// A host that sends without end, and counts what it could send.
fn endless() -> (u16, Arc<AtomicUsize>) {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let port = serve(move |mut stream, _| {
        if read_head(&mut stream).is_none() || stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").is_err() {
            return;
        }
        while stream.write_all(&[b'x'; 65536]).is_ok() {
            count.fetch_add(65536, Ordering::Relaxed);
        }
    });
    (port, sent)
}

/// Waits until no more is sent; returns how much it was.
fn settled(sent: &AtomicUsize) -> usize {
    let mut before = usize::MAX;
    while before != sent.load(Ordering::Relaxed) || before == 0 {
        before = sent.load(Ordering::Relaxed);
        assert!(before < 256 << 20, "reading pauses while the client does not read");
        std::thread::sleep(Duration::from_millis(500));
    }
    before
}

#[test]
fn rapid_resets_end_the_connection_and_leave_nothing() {
    let scene = Scene::start(silent());
    let mut raw = Raw::connect(scene.auto, &[]);
    let mut is_open = true;
    for index in 0..20_000_u32 {
        let stream = 2 * index + 1;
        is_open = raw.request(stream, END_STREAM, &POST) && raw.send(RST_STREAM, 0, stream, &[0, 0, 0, 8]);
        if !is_open {
            break;
        }
    }
    // What was written is not yet read: the end comes in any case.
    while raw.next().is_some() {}
    drop(raw);
    assert_eq!(Client::connect(scene.auto).get("/direct").text(), "direct");
    scene.wait_for_rest();
    assert!(!is_open || scene.proxy.stat("http.in.downstream_rq_total") < 20_000, "it was ended early");
}

#[test]
fn early_resets_of_requests_that_were_begun_end_the_connection() {
    let scene = Scene::start(silent());
    let mut raw = Raw::connect(scene.auto, &[]);
    let mut requests = 0_u32;
    // In steps, so that each request is begun before it is reset.
    while requests < 3000 {
        let mut bytes = Vec::new();
        for index in requests..requests + 10 {
            bytes.extend(frame(HEADERS, END_STREAM | 4, 2 * index + 1, &block(&POST)));
        }
        if raw.0.write_all(&bytes).is_err() {
            break;
        }
        let begun = u64::from(requests) + 10;
        let is_begun = || {
            let is_ended = scene.proxy.stat("http.in.downstream_rq_too_many_premature_resets") > 0;
            (is_ended || scene.proxy.stat("http.in.downstream_rq_total") >= begun).then_some(())
        };
        wait_for("they are begun", is_begun);
        let resets =
            (requests..requests + 10).flat_map(|index| frame(RST_STREAM, 0, 2 * index + 1, &[0, 0, 0, 8]));
        if raw.0.write_all(&resets.collect::<Vec<u8>>()).is_err() {
            break;
        }
        requests += 10;
    }
    assert!((490..=600).contains(&requests), "{requests}");
    assert_eq!(scene.proxy.stat("http.in.downstream_rq_too_many_premature_resets"), 1);
    drop(raw);
    scene.wait_for_rest();
}

#[test]
fn streams_beyond_the_limit_are_refused() {
    let scene = Scene::start(silent());
    let mut raw = Raw::connect(scene.http2, &[]);
    for stream in [1, 3, 5, 7, 9, 11] {
        raw.request(stream, END_STREAM, &POST);
    }
    let refused: Vec<u32> = (0..2).map(|_| raw.next_of(&[RST_STREAM]).unwrap().stream).collect();
    assert_eq!(refused, [9, 11]);
    wait_for("the others are served", || {
        (scene.proxy.stat("http.in.downstream_rq_active") == 4).then_some(())
    });
    drop(raw);
    scene.wait_for_rest();
}

#[test]
fn a_slow_reader_stops_its_hosts() {
    let (port, sent) = endless();
    let scene = Scene::start(port);
    // Without a window, and with one that no socket fills.
    for window in [0, (1 << 31) - 1] {
        sent.store(0, Ordering::Relaxed);
        let mut raw = Raw::connect(scene.auto, &[(INITIAL_WINDOW, window)]);
        raw.send(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
        for stream in 0..10 {
            raw.request(2 * stream + 1, END_STREAM, &POST);
        }
        settled(&sent);
        // Others are served beside it.
        assert_eq!(Client::connect(scene.auto).get("/direct").text(), "direct");
        drop(raw);
        scene.wait_for_rest();
    }
}

#[test]
fn windows_that_open_byte_by_byte_and_overflow_are_bounded() {
    let (port, sent) = endless();
    let scene = Scene::start(port);
    let mut raw = Raw::connect(scene.auto, &[(INITIAL_WINDOW, 0)]);
    raw.request(1, END_STREAM, &POST);
    for _ in 0..1000 {
        raw.send(WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes());
    }
    let mut received = 0;
    while received < 1000 {
        received += raw.next_of(&[DATA]).unwrap().payload.len();
    }
    assert_eq!(received, 1000);
    settled(&sent);
    // A window beyond the maximum ends the stream or the connection.
    raw.send(WINDOW_UPDATE, 0, 1, &0x7fff_ffff_u32.to_be_bytes());
    raw.send(WINDOW_UPDATE, 0, 1, &0x7fff_ffff_u32.to_be_bytes());
    assert!(raw.next_of(&[RST_STREAM, GOAWAY]).is_some());
    drop(raw);
    // One that becomes smaller while data waits, and grows again.
    let mut raw = Raw::connect(scene.auto, &[(INITIAL_WINDOW, 100)]);
    raw.request(1, END_STREAM, &POST);
    let mut first = 0;
    while first < 100 {
        first += raw.next_of(&[DATA]).unwrap().payload.len();
    }
    for window in [0_u32, 50, 200] {
        let setting = [&INITIAL_WINDOW.to_be_bytes()[..], &window.to_be_bytes()[..]].concat();
        raw.send(SETTINGS, 0, 0, &setting);
    }
    let mut rest = 0;
    while rest < 100 {
        rest += raw.next_of(&[DATA]).unwrap().payload.len();
    }
    assert_eq!((first, rest), (100, 100));
    drop(raw);
    scene.wait_for_rest();
}

#[test]
fn floods_of_frames_end_or_pause_and_others_are_served() {
    let scene = Scene::start(mirror());
    let floods: [(&str, Vec<u8>); 6] = [
        ("PING", frame(PING, 0, 0, &[0; 8])),
        ("SETTINGS", frame(SETTINGS, 0, 0, &[])),
        ("WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes())),
        ("unknown frames", frame(0xbb, 0, 0, &[0; 100])),
        ("empty DATA", frame(DATA, 0, 1, &[])),
        ("empty CONTINUATION", frame(9, 0, 3, &[])),
    ];
    for (name, one) in floods {
        let mut raw = Raw::connect(scene.auto, &[]);
        raw.0.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        raw.request(1, 0, &POST);
        if name == "empty CONTINUATION" {
            raw.send(HEADERS, 0, 3, &block(&POST));
        }
        let many = one.repeat(1000);
        // Nobody reads the answers: either writing pauses, or the connection ends, or frames have no effect.
        for _ in 0..100 {
            if raw.0.write_all(&many).is_err() {
                break;
            }
        }
        assert_eq!(Client::connect(scene.auto).get("/direct").text(), "direct", "{name}");
        drop(raw);
    }
    scene.wait_for_rest();
}

#[test]
fn who_only_wants_answers_is_left() {
    let scene = Scene::start(mirror());
    for (count, one) in (0..).zip([frame(PING, 0, 0, &[0; 8]), frame(SETTINGS, 0, 0, &[])]) {
        let mut raw = Raw::connect(scene.auto, &[]);
        raw.0.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        raw.0.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        // One after the other is no flood.
        assert!(raw.next_of(&[SETTINGS]).is_some());
        for _ in 0..300 {
            raw.0.write_all(&one).unwrap();
            assert!(raw.next_of(&[one[3]]).is_some(), "it is answered");
        }
        assert_eq!(scene.proxy.stat("http2.outbound_control_flood"), count);
        for _ in 0..20 {
            if raw.0.write_all(&one.repeat(1000)).is_err() {
                break;
            }
        }
        while raw.next().is_some() {}
        wait_for("it is ended", || {
            (scene.proxy.stat("http2.outbound_control_flood") == count + 1).then_some(())
        });
    }
    assert_eq!(Client::connect(scene.auto).get("/direct").text(), "direct");
    scene.wait_for_rest();
}

#[test]
fn clients_may_go_at_every_frame() {
    let scene = Scene::start(mirror());
    let frames = [
        frame(HEADERS, 4, 1, &block(&POST)),
        frame(DATA, 0, 1, b"abc"),
        frame(HEADERS, 4 | END_STREAM, 3, &block(&POST)),
        frame(DATA, END_STREAM, 1, b"def"),
    ]
    .concat();
    for count in 0..frames.len() {
        let mut raw = Raw::connect(scene.auto, &[]);
        raw.0.write_all(&frames[..count]).unwrap();
        if count % 2 == 0 {
            raw.0.shutdown(std::net::Shutdown::Write).unwrap();
            // Whatever comes, the connection ends.
            while raw.next().is_some() {}
        }
    }
    scene.wait_for_rest();
    assert_eq!(Client::connect(scene.auto).get("/direct").text(), "direct");
}
