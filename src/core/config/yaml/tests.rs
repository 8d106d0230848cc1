use super::*;

/// One line of testdata/yaml/readings.json: what Go's reader makes of a text, and what we make of it where that differs.
#[derive(serde::Deserialize)]
struct Reading {
    text: String,
    ok: Option<String>,
    err: Option<String>,
    ours: Option<String>,
}

fn read_as_json(text: &str) -> String {
    match parse(text) {
        Ok(parsed) => parsed.root.compact_json(),
        Err(error) => error.cause().to_owned(),
    }
}

#[test]
fn reads_as_the_originals_do() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/yaml/readings.json");
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
fn every_value_knows_its_place() {
    let root = parse("a:\n  - one\n  - \"two\"\n'b' : {c: 12}\n").unwrap().root;
    let span = |path: &str| root.at(&crate::core::config::FieldPath::parse(path)).span;
    let place = |l: Location| (l.line, l.column);
    assert_eq!(place(span("a[0]").start), (2, 5));
    assert_eq!(place(span("a[0]").end), (2, 8));
    assert_eq!(place(span("a[1]").start), (3, 5));
    assert_eq!(place(span("a[1]").end), (3, 10));
    assert_eq!(place(span("a").start), (2, 3));
    assert_eq!(place(span("b").start), (4, 7));
    assert_eq!(place(span("b").end), (4, 14));
    assert_eq!(place(span("b.c").start), (4, 11));
    assert_eq!(place(root.entries()[1].key_span.start), (4, 1));
}

#[test]
fn places_survive_mending() {
    let root = parse("a: [\nb,\nc]\nd:\te\n").unwrap().root;
    assert_eq!(root.get("a").unwrap().items()[1].span.start, Location { line: 3, column: 1 });
    assert_eq!(root.get("d").unwrap().span.start, Location { line: 4, column: 4 });
}

#[test]
fn oddities_are_noted() {
    let notes = parse("a: 1\na: 2\nno: x\n---\nb: 1\n").unwrap().notes;
    assert!(matches!(&notes[0], Note::DuplicateKey { key, span } if key == "a" && span.start.line == 2));
    assert!(matches!(&notes[1], Note::BooleanKey { written, key, .. } if written == "no" && key == "false"));
    assert!(matches!(&notes[2], Note::SeveralDocuments { at } if at.line == 4));
}

#[test]
fn bombs_are_refused() {
    let mut bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (previous, name) in ('a'..'j').zip('b'..'k') {
        bomb.push_str(&format!("{name}: &{name} [{}]\n", vec![format!("*{previous}"); 10].join(", ")));
    }
    assert!(parse(&bomb).unwrap_err().cause().contains("more than"));
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    assert!(parse(&deep).unwrap_err().cause().contains("deeper than"));
    assert!(parse(&"x".repeat(MAX_BYTES + 1)).unwrap_err().cause().contains("larger than"));
}
