//! Messages of clients, valid and not.

use super::*;

const NAME: &str = "secret.test";

fn short(bytes: &[u8]) -> Vec<u8> {
    [&[u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

fn long(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes(), &*long(content)].concat()
}

fn server_name(name: &[u8]) -> Vec<u8> {
    extension(0, &long(&[&[0], &*long(name)].concat()))
}

/// The parts of a ClientHello.
#[derive(Clone)]
struct Parts {
    record: [u8; 2],
    version: [u8; 2],
    session: Vec<u8>,
    ciphers: Vec<u8>,
    compressions: Vec<u8>,
    /// All after the compressions.
    rest: Vec<u8>,
}

impl Parts {
    /// With these extensions.
    fn with(extensions: &[Vec<u8>]) -> Self {
        Self {
            record: [3, 1],
            version: [3, 3],
            session: vec![7; 32],
            ciphers: vec![0xc0, 0x2b, 0, 0x2f],
            compressions: vec![0],
            rest: long(&extensions.concat()),
        }
    }

    fn message(&self) -> Vec<u8> {
        let parts = [
            &self.version,
            &[9; 32][..],
            &short(&self.session),
            &long(&self.ciphers),
            &short(&self.compressions),
            &self.rest,
        ];
        let body = parts.concat();
        let [_, length @ ..] = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[1], &length[..], &body].concat()
    }

    /// In records of so many bytes.
    fn records(&self, size: usize) -> Vec<u8> {
        let record = |content: &[u8]| [&[22], &self.record[..], &long(content)].concat();
        self.message().chunks(size).flat_map(record).collect()
    }

    fn read(&self) -> Hello {
        read_hello(&self.records(1 << 14))
    }
}

/// Signature algorithms, groups, and the server name.
fn usual() -> Vec<Vec<u8>> {
    vec![
        server_name(NAME.as_bytes()),
        extension(13, &[0, 4, 4, 3, 8, 4]),
        extension(10, &[0, 2, 0, 29]),
        extension(11, &[1, 0]),
    ]
}

fn found(protocols: &[&str]) -> Hello {
    let protocols = protocols.iter().map(|&protocol| protocol.to_owned()).collect();
    Hello::Found { server_name: Some(NAME.to_owned()), protocols }
}

#[test]
fn what_other_stacks_serve_has_its_server_name() {
    let with = |kind: u16, content: &[u8]| {
        let mut extensions = usual();
        extensions.retain(|known| known[..2] != kind.to_be_bytes());
        extensions.push(extension(kind, content));
        Parts::with(&extensions)
    };
    let pre_shared = extension(41, &[&[0, 7, 0, 1, b'a', 0, 0, 0, 0, 0, 0x22, 0x21][..], &[0; 33]].concat());
    let cases = [
        ("usual", Parts::with(&usual())),
        (
            "no signature algorithms",
            Parts::with(&[server_name(NAME.as_bytes()), extension(10, &[0, 2, 0, 29])]),
        ),
        ("TLS 1.1", Parts { version: [3, 2], ..Parts::with(&usual()) }),
        ("TLS 1.0", Parts { version: [3, 1], ..Parts::with(&usual()) }),
        ("a later version", Parts { version: [4, 4], ..Parts::with(&usual()) }),
        ("empty groups", with(10, &[0, 0])),
        ("odd protocols", with(16, &[0, 3, 2, b'h'])),
        ("a protocol without a name", with(16, &[0, 1, 0])),
        ("no protocols", with(16, &[])),
        ("a pre-shared key that is not the last", {
            let mut extensions = usual();
            extensions.insert(1, pre_shared);
            Parts::with(&extensions)
        }),
        ("odd key shares", with(51, &[0xff])),
        ("odd versions", with(43, &[3, 1])),
        ("empty signature algorithms", with(13, &[0, 0])),
        ("an extended master secret with content", with(23, b"x")),
        ("odd point formats", with(11, &[2, 1, 2])),
        ("odd status", with(5, &[9])),
        ("no session", Parts { session: Vec::new(), ..Parts::with(&usual()) }),
        ("compression", Parts { compressions: vec![1, 0], ..Parts::with(&usual()) }),
        ("record of TLS 1.3", Parts { record: [3, 4], ..Parts::with(&usual()) }),
        ("record of no version", Parts { record: [5, 0], ..Parts::with(&usual()) }),
    ];
    for (what, parts) in cases {
        assert_eq!(parts.read(), found(&[]), "{what}");
    }
    assert_eq!(with(16, b"\0\x0c\x02h2\x08http/1.1").read(), found(&["h2", "http/1.1"]));
    assert_eq!(with(16, b"\0\x06\x02\xff\xfe\x02h2").read(), found(&["h2"]), "what is no text is left out");
    let upper = Parts::with(&[server_name(b"A_b.Test.")]).read();
    assert_eq!(upper, Hello::Found { server_name: Some("A_b.Test.".to_owned()), protocols: Vec::new() });
    let nameless = Hello::Found { server_name: None, protocols: Vec::new() };
    assert_eq!(Parts::with(&[]).read(), nameless);
    assert_eq!(Parts { rest: Vec::new(), ..Parts::with(&[]) }.read(), nameless, "no extensions");
}

#[test]
fn a_hello_in_several_records_is_read_as_it_comes() {
    for size in [1, 2, 3, 4, 5, 20, 100] {
        let bytes = Parts::with(&usual()).records(size);
        assert_eq!(read_hello(&bytes), found(&[]), "{size}");
        for length in 0..bytes.len() {
            assert_eq!(read_hello(&bytes[..length]), Hello::Incomplete, "{length} in records of {size}");
        }
        assert_eq!(read_hello(&[&bytes[..], &[22, 3, 3, 0, 1]].concat()), found(&[]), "and more");
    }
    let bytes = Parts::with(&usual()).records(20);
    let empty = [22, 3, 1, 0, 0];
    assert_eq!(read_hello(&[&empty[..], &empty, &bytes].concat()), found(&[]));
    let many = [&empty.repeat(33)[..], &bytes].concat();
    assert_eq!(read_hello(&many), Hello::Invalid, "too many records without content");
    let mut mixed = bytes.clone();
    mixed[25] = 21;
    assert_eq!(read_hello(&mixed), Hello::Invalid, "an alert between its records");
}

#[test]
fn what_cannot_be_read_is_invalid() {
    let rest = |extensions: &[u8]| Parts { rest: extensions.to_vec(), ..Parts::with(&[]) };
    let twice = |extension: Vec<u8>| Parts::with(&[extension.clone(), extension]);
    let cases = [
        ("SSL 3.0", Parts { version: [3, 0], ..Parts::with(&usual()) }),
        ("a long session", Parts { session: vec![0; 33], ..Parts::with(&usual()) }),
        ("no ciphers", Parts { ciphers: Vec::new(), ..Parts::with(&usual()) }),
        ("half a cipher", Parts { ciphers: vec![1, 2, 3], ..Parts::with(&usual()) }),
        ("no compression", Parts { compressions: Vec::new(), ..Parts::with(&usual()) }),
        ("half a length", rest(&[0])),
        ("extensions that do not end", rest(&[0, 5, 0, 0])),
        ("an extension that does not end", rest(&[0, 5, 0, 0, 0, 2, 0])),
        ("a byte after the extensions", rest(&[0, 0, 0])),
        ("two server names", twice(server_name(NAME.as_bytes()))),
        ("an unknown extension twice", twice(extension(9999, b"a"))),
        ("an empty list of names", Parts::with(&[extension(0, &[0, 0])])),
        ("no list of names", Parts::with(&[extension(0, &[])])),
        ("an empty name", Parts::with(&[server_name(b"")])),
        ("a name with a zero", Parts::with(&[server_name(b"secret.test\0")])),
        ("a name with a line feed", Parts::with(&[server_name(b"secret.test\nx")])),
        ("a name of letters that are not ASCII", Parts::with(&[server_name("ä.test".as_bytes())])),
        ("a long name", Parts::with(&[server_name(&[b'a'; 256])])),
        ("a name of another kind", Parts::with(&[extension(0, b"\0\x04\x01\0\x01a")])),
        ("bytes after the name", Parts::with(&[extension(0, b"\0\x05\0\0\x01a\0")])),
        ("bytes after the names", Parts::with(&[extension(0, b"\0\x04\0\0\x01a\0")])),
    ];
    for (what, parts) in cases {
        assert_eq!(parts.read(), Hello::Invalid, "{what}");
    }
    assert_eq!(read_hello(&[22, 3, 1, 0x40, 1, 1]), Hello::Invalid, "a record that is too long");
}

#[test]
fn other_protocols_are_none() {
    for bytes in [
        &b"GET / HTTP/1.1"[..],
        b"P",
        &[22, 16],
        &[22, 3, 1, 0, 4, 2, 0, 0, 0],
        &[22, 9, 9, 0, 3, 1, 2, 3],
        &[22, 9, 9, 0xff, 0xff, 1],
        &[21, 3, 1, 0, 2, 1, 0],
    ] {
        assert_eq!(read_hello(bytes), Hello::None, "{bytes:?}");
        assert_eq!(begins_as_hello(bytes), Some(false), "{bytes:?}");
    }
    for bytes in [&b""[..], &[22], &[22, 3, 1, 0, 9]] {
        assert_eq!((read_hello(bytes), begins_as_hello(bytes)), (Hello::Incomplete, None), "{bytes:?}");
    }
    assert_eq!(begins_as_hello(&[22, 3, 1, 0, 9, 1]), Some(true));
}

#[test]
fn whatever_begins_as_a_hello_is_never_plain_text() {
    let mut random = fastrand::Rng::with_seed(5);
    let (mut read, mut refused) = (0, 0);
    for round in 0..40_000 {
        let mut bytes = Parts::with(&usual()).records([1, 7, 30, 1 << 14][round % 4]);
        // The header of the first record and the kind of the message stay.
        for _ in 0..random.usize(1..4) {
            let at = random.usize(6..bytes.len());
            match random.u8(0..4) {
                0 => bytes[at] = random.u8(..),
                1 => bytes[at] ^= 1 << random.u8(0..8),
                2 => bytes.insert(at, random.u8(..)),
                _ => drop(bytes.remove(at)),
            }
        }
        if round % 3 == 0 {
            bytes.truncate(random.usize(6..=bytes.len()));
        }
        match read_hello(&bytes) {
            Hello::None => panic!("no TLS: {bytes:?}"),
            Hello::Invalid => refused += 1,
            Hello::Found { .. } => read += 1,
            Hello::Incomplete => {}
        }
        assert_eq!(begins_as_hello(&bytes), Some(true));
    }
    assert!(read > 1000 && refused > 1000, "{read} read, {refused} refused");
    for _ in 0..40_000 {
        let length = random.usize(0..80);
        let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(length).collect();
        let bytes = [&[22, 3, random.u8(..), 0, random.u8(1..), 1], &bytes[..]].concat();
        assert_ne!(read_hello(&bytes), Hello::None, "{bytes:?}");
    }
}
