//! Frames that cost an answer, messages that are larger than they look, and prefixes that announce more than there may be.

use std::io::Write as _;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::scene::{Attacker, Scene};
use crate::support::good_client::Frames;
use crate::support::http2::{DATA, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, frame};
use crate::support::rpc::{CHECK, REPORT};
use crate::support::wire::{Reading, call_headers, connect, pump, wide_open};

/// A frame that nothing follows from. Source: RFC 9113, section 6.3.
const PRIORITY: u8 = 2;
/// The length of one round of a flood.
const ROUND: Duration = Duration::from_millis(300);
/// What a bomb becomes: more than the largest message.
const UNPACKED: usize = 10 << 20;
/// Calls on a connection, whose bodies together fit into its first window.
const CALLS: u32 = 5;

/// Sends these frames over and over on a connection. A server may close it.
fn flooder(port: u16, frames: Vec<u8>, reading: Reading) -> Attacker {
    Box::new(move || {
        let stream = connect(port, &wide_open())?;
        // Whether it is closed or goes on does not matter.
        drop(pump(&stream, &mut || frames.clone(), reading, ROUND));
        Ok(())
    })
}

#[test]
fn floods_of_frames_that_cost_little_to_send() {
    let mut scene = Scene::start(&[]);
    let port = scene.server.ports.api;
    let pings = frame(PING, 0, 0, &[7; 8]).repeat(1000);
    let settings = frame(SETTINGS, 0, 0, &[]).repeat(1000);
    let priorities: Vec<u8> =
        (1..2001).step_by(2).flat_map(|stream| frame(PRIORITY, 0, stream, &[0, 0, 0, 0, 9])).collect();
    let attackers = || {
        vec![
            flooder(port, pings.clone(), Reading::Eager),
            // Acknowledgements that nobody reads.
            flooder(port, pings.clone(), Reading::Reluctant),
            flooder(port, settings.clone(), Reading::Reluctant),
            flooder(port, priorities.clone(), Reading::Eager),
        ]
    };
    scene.attack("PING, SETTINGS and PRIORITY floods", &attackers).assert_within(32);
    scene.end();
}

/// Zeros as a gzip member.
fn bomb() -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let zeros = [0; 64 << 10];
    (0..UNPACKED / zeros.len()).for_each(|_| encoder.write_all(&zeros).expect("a vector takes it"));
    encoder.finish().expect("a vector takes it")
}

/// Calls with this body, or this beginning of one. All of them are refused with this gRPC status, and the connection stays.
fn refused(port: u16, fields: &[(&str, &str)], body: &[u8], flags: u8, status: &str) -> Attacker {
    // As the server writes header fields: the name, and a text with its length.
    let status =
        [&b"grpc-status"[..], &[u8::try_from(status.len()).expect("a short text")], status.as_bytes()]
            .concat();
    let mut bytes = wide_open();
    for stream in (0..CALLS).map(|call| 1 + 2 * call) {
        bytes.extend(call_headers(stream, if stream % 4 == 1 { CHECK } else { REPORT }, fields));
        let mut pieces = body.chunks(16 << 10).peekable();
        while let Some(piece) = pieces.next() {
            let flags = if pieces.peek().is_none() { flags } else { 0 };
            bytes.extend(frame(DATA, flags, stream, piece));
        }
    }
    Box::new(move || {
        let socket = connect(port, &bytes)?;
        let (mut frames, mut ended, mut waited) = (Frames::new(&socket), 0, 0);
        while ended < CALLS {
            match frames.next()? {
                Some((HEADERS, flags, _, block)) if flags & END_STREAM != 0 => {
                    if !block.windows(status.len()).any(|part| part == status) {
                        return Err(format!("HEADERS {:?}", String::from_utf8_lossy(&block)));
                    }
                    ended += 1;
                }
                // Behind an answer the rest of its request is not wanted: error code 0.
                Some((RST_STREAM, _, _, code)) if code == [0; 4] => {}
                Some((RST_STREAM, _, _, code)) => return Err(format!("RST_STREAM {code:?}")),
                Some((GOAWAY, _, _, why)) => return Err(format!("GOAWAY {why:?}")),
                Some(_) => {}
                // A frame is awaited for 100 ms.
                None if waited < 200 => waited += 1,
                None => return Err(format!("{} calls are not answered", CALLS - ended)),
            }
        }
        Ok(())
    })
}

#[test]
fn compressed_messages_and_prefixes_of_four_gibibytes() {
    let mut scene = Scene::start(&[]);
    let port = scene.server.ports.api;
    let bomb = bomb();
    assert!(bomb.len() < 12 << 10, "{} bytes", bomb.len());
    let length = u32::try_from(bomb.len()).expect("a small bomb").to_be_bytes();
    let compressed = [&[1][..], &length, &bomb].concat();
    let announced = [0, 0xff, 0xff, 0xff, 0xff, 0x0a, 0x00];
    let attackers = || {
        vec![
            refused(port, &[("grpc-encoding", "gzip")], &compressed, END_STREAM, "12"),
            // Without saying how it is compressed.
            refused(port, &[], &compressed, END_STREAM, "12"),
            refused(port, &[], &announced, 0, "8"),
        ]
    };
    let outcome = scene.attack("gzip bombs and prefixes of 4 GiB", &attackers);
    // Less than what the bombs of one connection would become.
    outcome.assert_within(32);
    outcome.assert_attackers_succeeded();
    scene.end();
}
