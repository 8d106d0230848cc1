use super::*;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn block(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    fields.iter().for_each(|(name, value)| literal(name, value, &mut out));
    out
}

/// A field that is added to the dynamic table.
fn indexed(name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    literal(name, value, &mut out);
    out[0] = 0x40;
    out
}

const PREFACE_TEXT: &[u8; PREFACE] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const GOOD: [(&[u8], &[u8]); 4] =
    [(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"h"), (b":path", b"/")];

/// What comes through, with the input in pieces of a size.
fn passed(screen: &mut Screen, input: &[u8], size: usize) -> Result<Vec<u8>, Broken> {
    let (mut held, mut out) = (BytesMut::new(), BytesMut::new());
    for piece in input.chunks(size) {
        let count = if held.is_empty() { screen.scan(piece) } else { 0 };
        out.extend_from_slice(&piece[..count]);
        held.extend_from_slice(&piece[count..]);
        screen.pass(&mut held, &mut out)?;
    }
    Ok(out.to_vec())
}

/// The frames of bytes: kind, flags, stream, payload.
fn frames(mut bytes: &[u8]) -> Vec<(u8, u8, u32, Vec<u8>)> {
    let mut found = Vec::new();
    while let Some(header) = bytes.first_chunk::<FRAME>() {
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        let stream = u32::from_be_bytes(header[5..].try_into().unwrap());
        found.push((header[3], header[4], stream, bytes[FRAME..FRAME + length].to_vec()));
        bytes = &bytes[FRAME + length..];
    }
    assert!(bytes.is_empty());
    found
}

/// The fields of a block that uses no dynamic table.
fn fields(block: &[u8]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let add = |field: &Field| {
        let value = field.value.as_ref().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        found.push((String::from_utf8_lossy(name_of(&field.name)).into_owned(), value.unwrap_or_default()));
    };
    let mut decoder = Decoder::new();
    decoder.decode(block, add).unwrap();
    assert_eq!(decoder.changes(), Decoder::new().changes());
    found
}

#[test]
fn what_is_valid_passes_as_it_is_however_it_arrives() {
    let cookie = indexed(b"cookie", b"a=b");
    let long = block(&[(b"x", &[b'y'; 300])]);
    let input = [
        PREFACE_TEXT.to_vec(),
        frame(4, 0, 0, &[]),
        frame(1, END_HEADERS, 1, &[block(&GOOD), cookie].concat()),
        frame(0, 0, 1, &frame(1, 0, 1, b"looks like a head")),
        frame(0, 0, 1, b""),
        frame(1, END_HEADERS | END_STREAM, 1, &block(&[(b"x-trailer", b"1")])),
        // Padded, with priority, and in several frames.
        frame(
            1,
            END_STREAM | PADDED | PRIORITY,
            3,
            &[&[2, 0, 0, 0, 0, 9][..], &block(&GOOD), &[0, 0]].concat(),
        ),
        frame(CONTINUATION, 0, 3, &long[..100]),
        frame(CONTINUATION, 0, 3, b""),
        frame(CONTINUATION, END_HEADERS, 3, &long[100..]),
        frame(1, END_HEADERS | END_STREAM, 5, &[block(&GOOD), vec![0xbe]].concat()),
        frame(1, END_HEADERS | END_STREAM, 7, &[block(&GOOD), vec![0xbe]].concat()),
        frame(1, END_HEADERS | END_STREAM, 9, &[block(&GOOD), vec![0xbe]].concat()),
        frame(8, 0, 0, &[0, 0, 1, 0]),
    ]
    .concat();
    for size in 1..input.len() + 1 {
        let mut screen = Screen::new(1 << 16);
        assert!(passed(&mut screen, &input, size).unwrap() == input, "{size}");
        assert_eq!(screen.take_frames(), (13, 1), "{size}");
        assert_eq!((screen.take_controls(), screen.take_controls()), (1, 0), "{size}");
    }
}

#[test]
fn a_malformed_head_is_replaced_and_others_keep_their_meaning() {
    let odd: [&[(&[u8], &[u8])]; 11] = [
        &[(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"h"), (b":path", b"/\xe9")],
        &[(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"\xff"), (b":path", b"/")],
        &[(b":method", b"G T"), (b":scheme", b"http"), (b":authority", b"h"), (b":path", b"/")],
        &[(b":method", b""), (b":scheme", b"http"), (b":authority", b"h"), (b":path", b"/")],
        &[GOOD[0], GOOD[1], GOOD[2], GOOD[3], (b"", b"")],
        &[GOOD[0], GOOD[1], GOOD[2], GOOD[3], (b"X-Upper", b"1")],
        &[GOOD[0], GOOD[1], GOOD[2], GOOD[3], (b"x y", b"1")],
        &[GOOD[0], GOOD[1], GOOD[2], GOOD[3], (b"x", b"a\r\nb: c")],
        &[GOOD[0], GOOD[1], GOOD[2], GOOD[3], (b"x", b"\0")],
        &[GOOD[0], GOOD[1], GOOD[2], GOOD[3], (b":unknown", b"1")],
        &[GOOD[0], GOOD[1], GOOD[2], GOOD[3], (b":status", b"2000")],
    ];
    for odd in odd {
        let first = frame(1, END_HEADERS, 1, &[block(&GOOD), indexed(b"x-token", b"secret")].concat());
        let input = [
            PREFACE_TEXT.to_vec(),
            first.clone(),
            // It adds to the dynamic table as well.
            frame(1, END_HEADERS | END_STREAM, 3, &[block(odd), indexed(b"x-more", b"2")].concat()),
            frame(0, 0, 1, b"data"),
            frame(1, END_HEADERS, 5, &[block(&GOOD), vec![0xbf, 0xbe]].concat()),
            frame(1, END_HEADERS | END_STREAM, 1, &block(&[(b"x-trailer", b"1")])),
            frame(1, END_HEADERS | END_STREAM, 5, &block(&[(b":path", b"/other")])),
            frame(1, END_HEADERS | END_STREAM, 7, &[block(&GOOD), vec![0xbe]].concat()),
            frame(6, 0, 0, &[0; 8]),
        ]
        .concat();
        for size in [1, 2, 7, 50, input.len()] {
            let out = passed(&mut Screen::new(1 << 16), &input, size).unwrap();
            let rest = out.strip_prefix(&[&PREFACE_TEXT[..], &first].concat()[..]).expect("as it is");
            let found = frames(rest);
            let shape: Vec<_> =
                found.iter().map(|(kind, flags, stream, _)| (*kind, *flags, *stream)).collect();
            let whole = END_HEADERS | END_STREAM;
            assert_eq!(
                shape,
                [
                    (1, whole, 3),
                    (0, 0, 1),
                    (1, END_HEADERS, 5),
                    (1, whole, 1),
                    (1, whole, 5),
                    (1, whole, 7),
                    (6, 0, 0)
                ]
            );
            let text = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
                pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
            };
            let good = text(&[(":method", "GET"), (":scheme", "http"), (":authority", "h"), (":path", "/")]);
            assert_eq!(fields(&found[0].3), text(REFUSED));
            assert_eq!(
                fields(&found[2].3),
                [good.clone(), text(&[("x-token", "secret"), ("x-more", "2")])].concat()
            );
            assert_eq!(fields(&found[3].3), text(&[("x-trailer", "1")]));
            assert_eq!(fields(&found[4].3), text(REFUSED_TRAILERS), "trailers have no path");
            assert_eq!(fields(&found[5].3), [good, text(&[("x-more", "2")])].concat());
        }
    }
}

#[test]
fn what_breaks_the_framing_is_left_to_the_other_side_or_ends_the_connection() {
    let odd = frame(1, END_HEADERS, 1, &block(&[(b"X", b"1")]));
    let tail = frame(6, 0, 0, &[0; 8]);
    for broken in [
        frame(1, END_HEADERS, 3, &[0x80]),
        frame(1, END_HEADERS, 3, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        frame(1, END_HEADERS | PADDED, 3, &[9, 0x82]),
        frame(1, END_HEADERS | PRIORITY, 3, &[0; 4]),
        [frame(1, 0, 3, &[0x82]), frame(0, 0, 3, b"x")].concat(),
        [frame(1, 0, 3, &[0x82]), frame(CONTINUATION, END_HEADERS, 5, &[0x82])].concat(),
        frame(1, END_HEADERS, 3, &vec![0x82; MAX_FRAME + 1]),
        [
            frame(1, 0, 3, &[0x82]),
            frame(CONTINUATION, 0, 3, &[0x82; 900]),
            frame(CONTINUATION, 0, 3, &[0x82; 900]),
        ]
        .concat(),
        [frame(1, 0, 3, &[0x82]), frame(CONTINUATION, 0, 3, b"").repeat(1100)].concat(),
    ] {
        for size in [1, 100, usize::MAX] {
            let input = [PREFACE_TEXT.to_vec(), broken.clone(), tail.clone()].concat();
            assert!(passed(&mut Screen::new(1 << 10), &input, size).unwrap() == input, "{broken:?}");
            let input = [PREFACE_TEXT.to_vec(), odd.clone(), broken.clone(), tail.clone()].concat();
            assert_eq!(passed(&mut Screen::new(1 << 10), &input, size), Err(Broken), "{broken:?}");
        }
    }
}

#[test]
fn a_head_that_grows_when_it_is_written_anew_is_refused() {
    let mut screen = Screen::new(1 << 16);
    let long = indexed(b"x", &[b'y'; 3000]);
    let input = [
        PREFACE_TEXT.to_vec(),
        frame(1, END_HEADERS, 1, &[block(&[(b"X", b"1")]), long].concat()),
        frame(1, END_HEADERS, 3, &[block(&GOOD), vec![0xbe; 10_000]].concat()),
        frame(1, END_HEADERS, 5, &[block(&GOOD), vec![0xbe; 10]].concat()),
    ]
    .concat();
    let out = passed(&mut screen, &input, 1000).unwrap();
    let found = frames(&out[PREFACE..]);
    assert_eq!(fields(&found[1].3), fields(&found[0].3), "30 MB");
    let whole = [&found[2].3[..], &found[3].3].concat();
    assert_eq!((found[2].0, found[3].0, found.len()), (HEADERS, CONTINUATION, 4));
    assert_eq!(fields(&whole).len(), 14);
}

/// An index of one byte stands for thousands: what waits for the other side is bounded, and goes on when it was taken.
#[test]
fn what_is_written_anew_is_bounded() {
    const HEADS: u32 = 60;
    let odd = [&GOOD[..3], &[(&b":path"[..], &b"/\xe9"[..])]].concat();
    let entry = indexed(b"x-long", &[b'y'; 3_900]);
    let mut input = [
        PREFACE_TEXT.to_vec(),
        frame(1, END_HEADERS | END_STREAM, 1, &block(&odd)),
        frame(1, END_HEADERS | END_STREAM, 3, &[block(&GOOD), entry].concat()),
    ]
    .concat();
    for head in 0..HEADS {
        // The other side refuses the large ones itself, those beyond MAX_LIST are replaced.
        let count = if head % 2 == 0 { 20 } else { 120 };
        let fields = [block(&GOOD), vec![0xbe; count]].concat();
        input.extend(frame(1, END_HEADERS | END_STREAM, 5 + 2 * head, &fields));
    }
    let mut screen = Screen::new(1 << 16);
    let passes = screen.scan(&input);
    let (mut held, mut out, mut seen) = (BytesMut::from(&input[passes..]), BytesMut::new(), Vec::new());
    let mut count = 0;
    while !held.is_empty() {
        screen.pass(&mut held, &mut out).unwrap();
        assert!(!out.is_empty() && out.len() <= MAX_OUT + MAX_LIST, "{}", out.len());
        seen.extend(frames(&out.split()).into_iter().filter(|(kind, ..)| *kind == HEADERS));
        count += screen.take_frames().0;
    }
    assert_eq!(seen.len(), 2 + HEADS as usize);
    assert!(count > HEADS * 30, "{count}: it costs as much as frames");
}

#[test]
fn trailers_that_lose_fields_are_refused() {
    let trailers = |count: usize| vec![(&b"x-trailer"[..], &b"1"[..]); count];
    let sent = |stream, count| {
        let head = frame(1, END_HEADERS, stream, &block(&GOOD));
        [head, frame(1, END_HEADERS | END_STREAM, stream, &block(&trailers(count)))].concat()
    };
    // Each takes 9 + 1 + 32 bytes.
    let input = [PREFACE_TEXT.to_vec(), sent(1, 9), sent(3, 10), sent(5, 9)].concat();
    for size in [1, 50, input.len()] {
        let mut screen = Screen::new(1 << 16).with_max_trailers(420);
        let out = passed(&mut screen, &input, size).unwrap();
        let found = frames(&out[PREFACE..]);
        assert_eq!(found.len(), 6);
        assert_eq!([&found[1], &found[5]].map(|frame| fields(&frame.3).len()), [9, 9]);
        let refused: Vec<_> =
            REFUSED_TRAILERS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(fields(&found[3].3), refused);
        // A head may be longer: who reads it says so.
        let head = frame(1, END_HEADERS, 7, &[block(&GOOD), block(&trailers(20))].concat());
        assert!(passed(&mut screen, &head, size).unwrap().len() >= head.len());
    }
}
