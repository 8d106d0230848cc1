//! Complete requests with large heads, one behind the other.

use std::net::TcpStream;
use std::time::Duration;

use crate::scene::{Attacker, Scene};
use crate::support::http2::{END_HEADERS, END_STREAM, HEADERS, frame};
use crate::support::wire::{Reading, connect, pump, wide_open};

/// Connections that are open together.
const CONNECTIONS: usize = 64;

/// A literal field with a name of the static table and a value of 1 900 bytes, for the dynamic table.
fn long_field(name: u8, value: u8) -> Vec<u8> {
    // 1900 = 127 + 0x6d + 13 * 128.
    [&[0x40 | name, 0x7f, 0xed, 13][..], &[value; 1900]].concat()
}

/// A request that fills the dynamic table with a path and an authority, and 1 000 requests of 100 bytes with 100 fields each: the path, the
/// authority, and fields of the static table.
fn requests() -> Vec<u8> {
    let path = [&[0x44, 0x7f, 0xed, 13, b'/'][..], &[b'p'; 1899]].concat();
    let first = [&[0x83, 0x86][..], &path, &long_field(1, b'a')].concat();
    // `content-length` (28) and `te` (57) without a value are malformed.
    let fields = (15..62_u8).filter(|name| ![28, 57].contains(name)).map(|name| 0x80 | name);
    let block: Vec<u8> = [0x83, 0x86, 0xbf, 0xbe].into_iter().chain(fields.cycle().take(96)).collect();
    let mut bytes = [wide_open(), frame(HEADERS, END_HEADERS | END_STREAM, 1, &first)].concat();
    for number in 1..=1000 {
        bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, &block));
    }
    bytes
}

#[test]
fn pipelined_requests_with_large_heads() {
    let mut scene = Scene::start(&[]);
    let port = scene.server.ports.api;
    let bytes = requests();
    let attacker = |_| {
        let bytes = bytes.clone();
        let attacker = move || {
            // All connections have sent all of their requests before one reads.
            let open: Result<Vec<TcpStream>, String> = (0..CONNECTIONS)
                .map(|_| {
                    let stream = connect(port, &[])?;
                    let mut parts = Some(bytes.clone()).into_iter();
                    pump(
                        &stream,
                        &mut || parts.next().unwrap_or_default(),
                        Reading::Eager,
                        Duration::from_millis(5),
                    )?;
                    Ok(stream)
                })
                .collect();
            open.map(drop)
        };
        Box::new(attacker) as Attacker
    };
    let outcome = scene.attack("pipelined large heads", &|| (0..2).map(attacker).collect());
    outcome.assert_within(96);
    scene.end();
}
