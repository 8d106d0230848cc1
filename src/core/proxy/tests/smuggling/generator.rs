//! Streams by chance: from the grammar with an error here and there, and by mutation of others.

use fastrand::Rng;

use super::streams::STREAMS;

/// Chooses one, the first one most of the time.
fn mostly<'t>(rng: &mut Rng, usual: &'t [u8], others: &[&'t [u8]]) -> &'t [u8] {
    if rng.u8(..) < 236 { usual } else { others[rng.usize(..others.len())] }
}

fn any<'t>(rng: &mut Rng, choices: &[&'t [u8]]) -> &'t [u8] {
    choices[rng.usize(..choices.len())]
}

fn end_of_line(rng: &mut Rng, out: &mut Vec<u8>) {
    // A line has an error once in about a hundred lines.
    let usual = rng.u8(..) < 253;
    out.extend_from_slice(if usual {
        b"\r\n"
    } else {
        any(rng, &[b"\n", b"\r", b"\r\r\n", b"\n\r", b" \r\n", b"\0\r\n"])
    });
}

fn data(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..4) {
        0 => b"GET /smuggled HTTP/1.1\r\nHost: s\r\n\r\n".to_vec(),
        1 => b"0\r\n\r\n".to_vec(),
        _ => (0..rng.usize(..40)).map(|_| any(rng, &[b"a", b"\r", b"\n", b"0", b" "])[0]).collect(),
    }
}

fn chunks(rng: &mut Rng, out: &mut Vec<u8>) {
    for _ in 0..rng.usize(..3) {
        let data = data(rng);
        if data.is_empty() {
            continue;
        }
        let size = match rng.u8(..24) {
            0 => data.len() + rng.usize(..3),
            1 => data.len().saturating_sub(rng.usize(..3)),
            _ => data.len(),
        };
        out.extend_from_slice(mostly(rng, b"", &[b"0", b"00000000000000000", b" ", b"+", b"0x", b"-"]));
        out.extend_from_slice(
            match rng.bool() {
                true => format!("{size:x}"),
                false => format!("{size:X}"),
            }
            .as_bytes(),
        );
        out.extend_from_slice(mostly(
            rng,
            b"",
            &[b";a", b";a=b", b";a=\"b;c\"", b";", b" ", b";a=\"\n\"", b";\r", b" ;a", b";a=b\n0\r\n\r\n"],
        ));
        end_of_line(rng, out);
        out.extend_from_slice(&data);
        end_of_line(rng, out);
    }
    out.extend_from_slice(mostly(rng, b"0", &[b"00", b"", b"0;a", b"0 ", b"-0", b"1"]));
    end_of_line(rng, out);
    if rng.u8(..6) == 0 {
        out.extend_from_slice(any(
            rng,
            &[
                b"A: b\r\n",
                b"Content-Length: 9\r\n",
                b" a: b\r\n",
                b"GET / HTTP/1.1\r\n",
                b"A : b\r\n",
                b"A\r\n",
            ],
        ));
    }
    end_of_line(rng, out);
}

fn request(rng: &mut Rng, out: &mut Vec<u8>) {
    out.extend_from_slice(mostly(rng, b"", &[b"\r\n", b"\n", b"\r", b" ", b"\r\n\r\n"]));
    let method = any(rng, &[b"GET", b"POST", b"PUT", b"HEAD", b"DELETE", b"OPTIONS", b"PATCH"]);
    out.extend_from_slice(mostly(rng, method, &[b"CONNECT", b"get", b"FOO", b"G ET", b""]));
    out.extend_from_slice(mostly(rng, b" ", &[b"  ", b"\t", b""]));
    out.extend_from_slice(mostly(
        rng,
        b"/a?b",
        &[b"/", b"*", b"http://o/x", b"http://o", b"//", b"/#", b"/ b", b"a", b"/\xff"],
    ));
    out.extend_from_slice(mostly(rng, b" ", &[b"  ", b"\t", b""]));
    out.extend_from_slice(mostly(
        rng,
        b"HTTP/1.1",
        &[b"HTTP/1.0", b"HTTP/1.2", b"HTTP/2.0", b"http/1.1", b"HTTP/1.1 "],
    ));
    end_of_line(rng, out);
    let body = data(rng);
    let mut lines: Vec<Vec<u8>> = Vec::new();
    let host = mostly(
        rng,
        b"Host: h",
        &[b"Host: h:8", b"host:h", b"Host: ", b"Host: a b", b"Host : h", b"X: y", b"Host: [::1]"],
    );
    lines.push(host.to_vec());
    let framing = rng.u8(..4);
    if framing == 1 || framing == 3 && rng.u8(..8) == 0 {
        let name = mostly(
            rng,
            b"Content-Length",
            &[
                b"content-length",
                b"Content-Length ",
                b" Content-Length",
                b"Content_Length",
                b"Content-Length\0",
            ],
        );
        let before = mostly(rng, b": ", &[b":", b":\t", b" : ", b": +", b": 0x", b": -", b": 0", b": \x0b"]);
        let length = if rng.u8(..24) == 0 { body.len() + rng.usize(..3) } else { body.len() };
        let after = mostly(rng, b"", &[b" ", b",", b", 3", b"\0", b"\x0c", b" 1", b".0", b"\r", b"\n"]);
        lines.push([name, before, length.to_string().as_bytes(), after].concat());
    }
    if framing >= 2 {
        let name = mostly(
            rng,
            b"Transfer-Encoding",
            &[b"transfer-encoding", b"Transfer-Encoding ", b" Transfer-Encoding", b"Transfer_Encoding"],
        );
        let coding = mostly(
            rng,
            b": chunked",
            &[
                b":chunked",
                b": CHUNKED",
                b": chunked ",
                b": chunked, chunked",
                b": identity",
                b": gzip, chunked",
                b": ",
                b": xchunked",
                b": \x0bchunked",
                b": chunked\0",
                b":\r\n chunked",
                b": chunked\nX: y",
            ],
        );
        lines.push([name, coding].concat());
    }
    for _ in 0..rng.usize(..3) {
        lines.push(
            any(
                rng,
                &[
                    b"X: y",
                    b"Accept: */*",
                    b"Connection: keep-alive",
                    b"Expect: 100-continue",
                    b"Connection: x",
                    b"X-Empty:",
                    b"TE: trailers",
                    b"Keep-Alive: 5",
                    b"Upgrade: h2c",
                    b"User-Agent: a (b; c)",
                ],
            )
            .to_vec(),
        );
    }
    if rng.u8(..16) == 0 {
        lines.push(
            any(
                rng,
                &[
                    b"Connection: close",
                    b"Content-Length: 0",
                    b"Transfer-Encoding: chunked",
                    b"Host: i",
                    b"X: a\0b",
                    b"X: a\rb",
                    b"X: a\nContent-Length: 5",
                    b" folded",
                    b"\tfolded",
                    b"no colon",
                    b": no name",
                    b"Connection: upgrade",
                    b"Connection: content-length",
                    b"Connection: transfer-encoding",
                    b"Upgrade: websocket",
                ],
            )
            .to_vec(),
        );
    }
    rng.shuffle(&mut lines);
    for line in lines {
        out.extend_from_slice(&line);
        end_of_line(rng, out);
    }
    end_of_line(rng, out);
    match framing {
        0 => {}
        1 => out.extend_from_slice(&body),
        _ => chunks(rng, out),
    }
}

fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..rng.usize(1..4) {
        if bytes.is_empty() {
            return;
        }
        let at = rng.usize(..bytes.len());
        match rng.u8(..8) {
            0 => bytes[at] ^= 1 << rng.u8(..8),
            1 => {
                bytes[at] = any(rng, &[b"\r", b"\n", b"\0", b" ", b":", b";", b"\t", b",", b"0", b"\x80"])[0]
            }
            2 => drop(bytes.remove(at)),
            3 => bytes.insert(at, any(rng, &[b"\r", b"\n", b"\0", b" ", b":", b"0", b"\t", b","])[0]),
            4 => {
                // A part once more, elsewhere.
                let end = (at + rng.usize(..40)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                let to = rng.usize(..=bytes.len());
                bytes.splice(to..to, part);
            }
            5 => drop(bytes.drain(at..(at + rng.usize(..20)).min(bytes.len()))),
            6 => {
                let line: &[u8] = any(
                    rng,
                    &[
                        b"\r\nContent-Length: 5\r\n",
                        b"\r\nTransfer-Encoding: chunked\r\n",
                        b"\r\n\r\n",
                        b"\r\n0\r\n\r\n",
                        b"\r\n ",
                    ],
                );
                bytes.splice(at..at, line.iter().copied());
            }
            _ => bytes.truncate(at),
        }
    }
}

/// A stream.
pub(crate) fn stream(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    match rng.u8(..4) {
        0 => {
            bytes = STREAMS[rng.usize(..STREAMS.len())].bytes();
            if rng.bool() {
                bytes.extend_from_slice(&STREAMS[rng.usize(..STREAMS.len())].bytes());
            }
            mutate(rng, &mut bytes);
        }
        kind => {
            for _ in 0..rng.usize(1..4) {
                request(rng, &mut bytes);
            }
            if kind == 1 {
                mutate(rng, &mut bytes);
            }
        }
    }
    bytes
}
