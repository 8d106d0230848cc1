mod json;

use super::*;
use json::compact_json;

/// An entry of testdata/yaml/readings.json: the result of Go's yaml.v2, and ours where it differs.
#[derive(serde::Deserialize)]
struct Reading {
    text: String,
    ok: Option<String>,
    err: Option<String>,
    ours: Option<String>,
}

fn read_as_json(text: &str) -> String {
    match parse(text) {
        Ok(parsed) => compact_json(&parsed.root),
        Err(error) => error.cause().to_owned(),
    }
}

#[test]
fn results_equal_those_of_yaml_v2() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../testdata/yaml/readings.json");
    let readings: Vec<Reading> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(readings.len() > 500);
    let mut wrong = Vec::new();
    for reading in readings {
        let expected = reading.ours.or(reading.ok).or(reading.err).unwrap();
        let got = read_as_json(&reading.text);
        if got != expected {
            wrong.push(format!("{:?}: expected {expected}, got {got}", reading.text));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_value_has_its_position() {
    let root = parse("a:\n  - one\n  - \"two\"\n'b' : {c: 12}\n").unwrap().root;
    let span = |path: &str| root.at(&crate::FieldPath::parse(path)).span;
    let position = |l: Location| (l.line, l.column);
    assert_eq!(position(span("a[0]").start), (2, 5));
    assert_eq!(position(span("a[0]").end), (2, 8));
    assert_eq!(position(span("a[1]").start), (3, 5));
    assert_eq!(position(span("a[1]").end), (3, 10));
    assert_eq!(position(span("a").start), (2, 3));
    assert_eq!(position(span("b").start), (4, 7));
    assert_eq!(position(span("b").end), (4, 14));
    assert_eq!(position(span("b.c").start), (4, 11));
    assert_eq!(position(root.entries()[1].key_span.start), (4, 1));
}

#[test]
fn positions_do_not_depend_on_indentation() {
    let root = parse("a: [\nb,\nc]\nd:\te\n").unwrap().root;
    assert_eq!(root.get("a").unwrap().items()[1].span.start, Location { line: 3, column: 1 });
    assert_eq!(root.get("d").unwrap().span.start, Location { line: 4, column: 4 });
}

#[test]
fn unusual_constructs_are_reported() {
    let notes = parse("a: 1\na: 2\nno: x\n---\nb: 1\n").unwrap().notes;
    assert!(matches!(&notes[0], Note::DuplicateKey { key, span, .. } if key == "a" && span.start.line == 2));
    assert!(matches!(&notes[1], Note::BooleanKey { written, key, .. } if written == "no" && key == "false"));
    assert!(matches!(&notes[2], Note::SeveralDocuments { at } if at.line == 4));
}

/// An expression in a mapping on one line.
#[test]
fn values_with_brackets_inside_of_braces_are_told_to_be_in_quotes() {
    for (text, in_quotes) in [
        ("params: {value: request.headers[\"x-user\"] | \"nobody\"}", true),
        ("metadata: {name: ${NAME}, namespace: a}", true),
        ("values: [request.headers[\"x\"], b]", true),
        ("a: {b: c\nd: e\n", false),
    ] {
        let hint = parse(text).err().and_then(|error| error.hint).unwrap_or_default();
        assert_eq!(hint.contains("is in quotes"), in_quotes, "{text}: {hint}");
    }
}

#[test]
fn alias_bombs_and_deep_nesting_are_rejected() {
    let mut bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (previous, name) in ('a'..'j').zip('b'..'k') {
        bomb.push_str(&format!("{name}: &{name} [{}]\n", vec![format!("*{previous}"); 10].join(", ")));
    }
    assert!(parse(&bomb).unwrap_err().cause().contains("more than"));
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    assert!(parse(&deep).unwrap_err().cause().contains("deeper than"));
    assert!(parse(&"x".repeat(MAX_BYTES + 1)).unwrap_err().cause().contains("larger than"));
}

/// Compares the fast path with the parser; true if the text is plain.
fn is_plain_and_equal(text: &str) -> bool {
    let Some(root) = plain::read(text) else { return false };
    let parsed = parse_any(text).unwrap_or_else(|error| panic!("{text:?} is plain, but {error}"));
    assert!(parsed.root == root && parsed.notes.is_empty(), "{text}");
    true
}

/// Every document below testdata, split as by the store.
fn documents() -> Vec<String> {
    let mut pending =
        vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../testdata"))];
    let mut documents = Vec::new();
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|e| e == "yaml" || e == "yml") {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            documents.extend(text.split("\n---\n").map(|chunk| chunk.trim().to_owned()));
        } else if path.extension().is_some_and(|e| e == "json") {
            // Many golden cases contain documents as strings.
            let text = std::fs::read_to_string(&path).unwrap();
            if let Ok(json) = serde_json::from_str::<serde_json::Value>(&text) {
                texts(&json, &mut documents);
            }
        }
    }
    documents
}

fn texts(json: &serde_json::Value, out: &mut Vec<String>) {
    match json {
        serde_json::Value::String(text) => out.extend(text.split("\n---\n").map(|c| c.trim().to_owned())),
        serde_json::Value::Array(items) => items.iter().for_each(|item| texts(item, out)),
        serde_json::Value::Object(fields) => fields.values().for_each(|field| texts(field, out)),
        _ => {}
    }
}

#[test]
fn plain_documents_parse_like_the_parser() {
    let mut plain = 0;
    let documents = documents();
    let resources = documents.iter().filter(|text| text.contains("kind:") && text.contains("metadata:"));
    for text in &documents {
        is_plain_and_equal(text);
    }
    let mut all = 0;
    for text in resources {
        all += 1;
        plain += usize::from(plain::read(text).is_some());
    }
    assert!(all > 100 && plain * 10 > all * 7, "only {plain} of {all} resources are plain");
}

#[test]
fn readings_parse_like_the_parser() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../testdata/yaml/readings.json");
    let readings: Vec<Reading> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for reading in readings {
        is_plain_and_equal(&reading.text);
        is_plain_and_equal(&format!("a:\n  b: 1\n  c: {}\n", reading.text));
        is_plain_and_equal(&format!("a:\n- b\n- {}\n", reading.text));
        is_plain_and_equal(&format!("a: [x, {}, {{k: {}}}]", reading.text, reading.text));
    }
}

/// Pieces of generated lines: plain ones and others that the fast path must leave to the parser.
const PIECES: &[&str] = &[
    "a",
    "b:",
    "c: ",
    "kind: rule",
    "- ",
    "-",
    "? ",
    "- - x",
    ": ",
    "{",
    "}",
    "[",
    "]",
    ", ",
    "{a: 1, b: [x, y]}",
    "[1, two, 3.5]",
    "\"text\"",
    "'text'",
    "\"a\\n\"",
    "'it''s'",
    " # note",
    "#x",
    "---",
    "...",
    "|",
    ">-",
    "&x ",
    "*x",
    "!!str ",
    "<<: ",
    "yes",
    "y: ",
    "12: ",
    "0x1F",
    "1e3",
    ".5",
    ".inf",
    "-1",
    "-x",
    "~",
    "null",
    "2001-01-01",
    "a b",
    "a:b",
    "a: b: c",
    "http://x/y",
    "\t",
    "é",
    "%",
    "@",
    "`",
    "match: a == \"b\" && c[\"d\"]",
    "\r",
    "  ",
    "$x",
    "(a)",
];

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig {
        cases: 4000,
        failure_persistence: None,
        ..Default::default()
    })]
    #[test]
    fn random_documents_parse_like_the_parser(
        lines in proptest::collection::vec(
            (0usize..5, proptest::collection::vec(0..PIECES.len(), 0..4)), 1..8)
    ) {
        let line = |(indent, pieces): &(usize, Vec<usize>)| {
            " ".repeat(*indent) + &pieces.iter().map(|piece| PIECES[*piece]).collect::<String>()
        };
        let text = lines.iter().map(line).collect::<Vec<_>>().join("\n");
        is_plain_and_equal(&text);
    }

    #[test]
    fn random_trees_parse_like_the_parser(seeds in proptest::collection::vec(0u32..64, 1..60), wide in 1usize..4) {
        let mut text = String::new();
        let mut seeds = seeds.into_iter();
        grow(&mut text, &mut seeds, 0, wide, false);
        is_plain_and_equal(&text);
    }

    #[test]
    fn changed_documents_parse_like_the_parser(
        which in 0usize..1000, changes in proptest::collection::vec((0usize..4000, 0..PIECES.len(), 0usize..3), 1..4)
    ) {
        static DOCUMENTS: std::sync::LazyLock<Vec<String>> = std::sync::LazyLock::new(|| {
            documents().into_iter().filter(|text| text.len() < 2000 && plain::read(text).is_some()).collect()
        });
        let mut text = DOCUMENTS[which % DOCUMENTS.len()].clone();
        for (at, piece, how) in changes {
            let at = at % (text.len() + 1);
            match how {
                0 => text.insert_str(at, PIECES[piece]),
                1 => drop(text.drain(at..(at + 1).min(text.len()))),
                _ => text.insert(at, '\n'),
            }
            if !text.is_ascii() {
                break;
            }
        }
        is_plain_and_equal(&text);
    }
}

/// Writes a block mapping or list, nearly always valid.
fn grow(out: &mut String, seeds: &mut impl Iterator<Item = u32>, indent: usize, wide: usize, inline: bool) {
    let list = seeds.next().unwrap_or(0).is_multiple_of(3);
    for number in 0..wide {
        let Some(seed) = seeds.next() else { break };
        if !(inline && number == 0) {
            out.push_str(&" ".repeat(indent));
        }
        match list {
            true => out.push_str("- "),
            false => out.push_str(&format!("key-{number}:")),
        }
        match seed % 8 {
            0 if list && indent < 12 => grow(out, seeds, indent + 2, wide, true),
            0 | 1 if indent < 12 => {
                out.push_str(if seed.is_multiple_of(2) { "\n" } else { " # note\n\n" });
                grow(out, seeds, indent + (seed as usize / 8) % 4, wide, false);
            }
            other => {
                let value = PIECES[(other as usize * 7 + seed as usize) % PIECES.len()];
                out.push_str(&format!("{}{value}\n", if list { "" } else { " " }));
            }
        }
    }
}

#[test]
fn what_aliases_copy_is_bounded() {
    let text = |length: usize| "y".repeat(length);
    for (name, document, accepted) in [
        (
            "a text 4 000 times",
            format!("a: &b \"{}\"\nl: [{}]\n", text(500_000), ["*b"; 4_000].join(", ")),
            false,
        ),
        (
            "a short text 200 times",
            format!("a: &b \"{}\"\nl: [{}]\n", text(100), ["*b"; 200].join(", ")),
            true,
        ),
        (
            "doubled 20 times",
            (1..20).fold("a0: &a0 [x, x]\n".to_owned(), |all, i| {
                let before = i - 1;
                format!("{all}a{i}: &a{i} [*a{before}, *a{before}]\n")
            }),
            false,
        ),
        (
            "nested anchors",
            format!("{}[{}]{}", "[&a ".repeat(100), ["x"; 2_000].join(", "), "]".repeat(100)),
            false,
        ),
        (
            "merged defaults",
            {
                let uses = (0..30).map(|i| format!("k{i}: {{<<: *d, own: {i}}}\n")).collect::<String>();
                format!("d: &d {{a: 1, b: 2, c: 3}}\n{uses}")
            },
            true,
        ),
        ("a long list used twice", format!("a: &b [{}]\nc: *b\n", ["item"; 10_000].join(", ")), true),
    ] {
        let error = parse(&document).map(|_| ()).map_err(|error| error.cause().to_owned());
        match accepted {
            true => assert_eq!(error, Ok(()), "{name}"),
            false => assert!(error.unwrap_err().contains("aliases expand the document"), "{name}"),
        }
    }
}

#[test]
fn keys_that_an_unseeded_hash_maps_to_one_value_are_read_like_others() {
    // Keys and names of anchors for which rustc-hash computes the same hash; comparing each with all before takes minutes.
    const KEYS: usize = 60_000;
    let key = |number| format!("eqfjvlkkeiwpesbs0123456789abcdefizF99KtF{number:08}");
    let text: String =
        (0..KEYS).map(|number| format!("{}: &{} {number}\n", key(number), key(number))).collect();
    let NodeKind::Mapping(entries) = parse(&text).unwrap().root.kind else { panic!("a mapping") };
    assert_eq!(entries.len(), KEYS);
    assert_eq!(&*entries[7].key, key(7));
}
