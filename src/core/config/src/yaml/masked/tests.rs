use super::*;
use crate::yaml::parse;
use crate::{Node, NodeKind};

#[test]
fn values_of_secret_keys_are_masked_however_they_are_written() {
    for (text, shown) in [
        ("password: hunter2", "password: ***"),
        ("\"pass\\u0077ord\": x # c", "\"pass\\u0077ord\": *** # c"),
        ("\"pass\\x77ord\":\n  x\na: b", "\"pass\\x77ord\":\n  ***\na: b"),
        ("? >-\n  password\n: x\na: b", "? >-\n  password\n: ***\na: b"),
        ("? |\n  token\n: - x\n  - y: z\n", "? |\n  token\n: - ***\n  - y: ***\n"),
        ("token:\n  v: x\n  w: {n: y}\nb: 2", "token:\n  v: ***\n  w: {n: ***}\nb: 2"),
        ("credentials: {user: a, pass: b}", "credentials: ***"),
        (
            "- {name: authorization, value: x}\n- {value: y, name: team}",
            "- {name: authorization, value: ***}\n- {value: y, name: team}",
        ),
        ("- value:\n    v: [x]\n  key: x-api-key\n", "- value:\n    v: [***]\n  key: x-api-key\n"),
        ("n: &n Cookie\nh: {name: *n, value: x}", "n: &n Cookie\nh: {name: *n, value: ***}"),
        ("providerUrl: https://h/p?sig=x&version=1 # y", "providerUrl: https://h/p?sig=***&version=1 # y"),
        ("providerUrl: https://TOKEN@h/p", "providerUrl: https://***@h/p"),
        (
            "{\"providerUrl\": \"https://h/p?sig=x\", \"b\": 1}",
            "{\"providerUrl\": \"https://h/p?sig=***\", \"b\": 1}",
        ),
        ("providerUrls: ['https://T@h/', \"u:\\x50@h\"]", "providerUrls: ['https://***@h/', ***]"),
        ("address: >-\n  u:P@h\nb: 1", "address: ***\n  ***\nb: 1"),
        ("a: &u https://T@h/\nurl: *u", "a: &u ***\nurl: *u"),
        ("a: &u https://h/\nurl: *u", "a: &u https://h/\nurl: *u"),
        ("a: &x one\n\"tok\\x65n\": *x", "a: &x ***\n\"tok\\x65n\": *x"),
        (
            "a: &x [one, {b: two}]\nc: &y {d: *x}\n? \"\\x74oken\"\n: *y",
            "a: &x [***, {b: ***}]\nc: &y {d: *x}\n? \"\\x74oken\"\n: *y",
        ),
        ("a: &k token\nb: {*k : x}", "a: &k token\nb: {*k : ***}"),
        ("!!binary dG9rZW4=: x", "!!binary dG9rZW4=: ***"),
        ("? [a]\n: x\nb: c", "? [***]\n: ***\nb: c"),
        ("'[x] password': foo, bar", "'[x] password': ***"),
        (
            "a: b\n---\n\"p\\x61ssword\": x\n---\n\"p\\x61ssword\": |\n  y\n\n  z\n",
            "a: b\n---\n\"p\\x61ssword\": ***\n---\n\"p\\x61ssword\": ***\n  ***\n\n  ***\n",
        ),
        ("a: b # why\nc: [d, \"e\"]\n", "a: b # why\nc: [d, \"e\"]\n"),
        ("url: redis://u:p@h/0", "url: redis://***@h/0"),
        // What follows an error.
        ("a: 'b\npassword: x\nc: d", "a***\n***\n***"),
        ("a: {b: c}}\nd: e", "a: {b: c}}\nd: e"),
        ("a: {b: c}}\n\"p\\x61ssword\": x\n  d: e", "a: {b: c}***\n***\n  ***"),
        ("\"p\\x61ssword\": x\na: {b: c}}\nd: e\n", "\"p\\x61ssword\": ***\na: {b: c}***\n***\n"),
        ("a: b\n---\ntoken: |\n# c\n  x: y\n", "a: b\n---\ntoken: ***\n***\n  ***\n"),
    ] {
        assert_eq!(mask_secrets(text), shown, "{text}");
    }
}

#[test]
fn long_texts_are_masked_in_linear_time() {
    let pieces = [
        "---\n",
        "--- x\n",
        "...\n",
        "a: &x b\n",
        "[",
        "{",
        "? ",
        "- ",
        "&x ",
        "!t ",
        "*x ",
        "\"",
        "\"\\x61\": b\n",
        "token: x\n",
    ];
    for piece in pieces {
        let text = piece.repeat((16 << 10) / piece.len());
        assert!(mask_secrets(&text).len() <= 4 * text.len(), "{piece}");
    }
}

/// What is secret.
const MARKER: &str = "S3CR3T";

/// Writes documents in random styles.
struct Writer {
    state: u64,
    anchors: usize,
}

impl Writer {
    fn next(&mut self, bound: usize) -> usize {
        // The constants of Knuth's MMIX.
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.state >> 33).unwrap() % bound
    }

    fn pick<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.next(of.len())]
    }

    fn anchor(&mut self) -> String {
        self.anchors += 1;
        format!("&a{}", self.anchors)
    }

    /// A tag, an anchor, both or neither, and a blank.
    fn marks(&mut self) -> String {
        match self.next(12) {
            0 => format!("{} ", self.anchor()),
            1 => "!!str ".to_owned(),
            2 => format!("!!str {} ", self.anchor()),
            3 => format!("{} !!str ", self.anchor()),
            _ => String::new(),
        }
    }

    fn escaped(&mut self, text: &str) -> String {
        let at = self.next(text.len());
        let code = u32::from(text.as_bytes()[at]);
        let escape = match self.next(3) {
            0 => format!("\\x{code:02x}"),
            1 => format!("\\u{code:04x}"),
            _ => format!("\\U{code:08x}"),
        };
        format!("\"{}{escape}{}\"", &text[..at], &text[at + 1..])
    }

    /// A name of a key in one line.
    fn name(&mut self, name: &str) -> String {
        match self.next(7) {
            0 => format!("'{name}'"),
            1 => format!("\"{name}\""),
            2 => self.escaped(name),
            3 => format!("{}{name}", self.marks()),
            4 => format!("{}\"{name}\"", self.marks()),
            _ => name.to_owned(),
        }
    }

    fn comment(&mut self) -> &'static str {
        self.pick(&["", "", "", " # c", " # a: b", " # it's [", " # token: x", " # \""])
    }

    /// Lines of a comment, blank or none.
    fn between(&mut self, indent: usize) -> String {
        let lines = self.pick(&["", "", "", "", "\n", "# c\n", "# a: b\n", "  # - x\n", "# 'x\n"]);
        let spaces = " ".repeat(self.next(indent + 1));
        if lines.trim().is_empty() { lines.to_owned() } else { format!("{spaces}{lines}") }
    }

    fn text(&mut self, marker: &str) -> String {
        match self.next(9) {
            0 => format!("a {marker}"),
            1 => format!("{marker}, b"),
            2 => format!("{marker}] b"),
            3 => format!("a: {marker}"),
            4 => format!("it''s {marker}"),
            5 => format!("- {marker}"),
            6 => format!("a #{marker}"),
            _ => marker.to_owned(),
        }
    }

    /// A scalar that may stand in a flow collection.
    fn inline(&mut self, marker: &str, indent: usize) -> String {
        let marks = self.marks();
        let text = self.text(marker);
        let spaces = " ".repeat(indent + 1);
        let scalar = match self.next(7) {
            0 => format!("'{text}'"),
            1 => format!("\"{text}\""),
            2 => format!("'a\n{spaces}{text}'"),
            3 => format!("\"a\n\n{spaces}{text}\""),
            4 => format!("\"a\\\n{spaces}{text}\""),
            5 => format!("a\n{spaces}{marker}"),
            // A comment is none of a value.
            _ if text.contains('#') => format!("'{text}'"),
            _ => text,
        };
        marks + &scalar
    }

    /// `{` or `[` with a marker below a secret key.
    fn flow(&mut self, marker: &str, indent: usize, is_secret: bool) -> String {
        let line = if self.next(3) == 0 { format!("\n{}", " ".repeat(indent + 2)) } else { String::new() };
        match (is_secret, self.next(3)) {
            (true, 0) => format!("[{line}a, {line}{}{line}]", self.inline(marker, indent)),
            (true, 1) => format!("[{line}{}, {{x: y}}{line}]", self.inline(marker, indent)),
            (true, _) => self.inline(marker, indent),
            (false, 0) => {
                let (secret, colon) = (self.secret(), self.pick(&[": ", " : "]));
                format!(
                    "{{{line}a: b,{line}{}{colon}{line}{}{line}}}",
                    self.name(secret),
                    self.flow(marker, indent, true)
                )
            }
            (false, 1) => {
                let secret = self.secret();
                format!(
                    "[{line}? {} : {line}{}{line}, b]",
                    self.name(secret),
                    self.flow(marker, indent, true)
                )
            }
            (false, _) => {
                let secret = self.secret();
                let separator = self.pick(&[": ", "\n : ", " :\n   "]);
                format!(
                    "{{? {}{separator}{}{line}, c: d}}",
                    self.name(secret),
                    self.flow(marker, indent, true)
                )
            }
        }
    }

    fn secret(&mut self) -> &'static str {
        self.pick(&["password", "token", "apiKey", "clientSecret", "signingKeys", "x-cookie"])
    }

    /// What follows the colon of a key: a value with a marker, from the blank to the end of the line.
    fn value(&mut self, marker: &str, indent: usize, is_secret: bool) -> String {
        let spaces = " ".repeat(indent);
        let marks = self.marks();
        match self.next(if is_secret { 8 } else { 4 }) {
            0 => format!(" {}{}\n", self.flow(marker, indent, is_secret), self.comment()),
            1 => format!(
                "{}\n{}{spaces}  {}\n",
                self.comment(),
                self.between(indent),
                self.flow(marker, indent + 2, is_secret)
            ),
            2 if !is_secret => format!(" {marks}{}\n{}", self.comment(), self.mapping(marker, indent + 2)),
            3 if !is_secret => format!("\n{spaces}- {}", self.mapping(marker, indent + 2).trim_start()),
            4 => {
                let header = self.pick(&["|", ">", "|-", ">-", "|+", "|2"]);
                let first = self.pick(&["", "  # c\n", "  a: b\n", "  - x\n"]);
                let first = if first.is_empty() { String::new() } else { format!("{spaces}{first}") };
                format!(" {marks}{header}\n{first}{spaces}  {}\n", self.text(marker))
            }
            5 => {
                let item = self.value(marker, indent + 2, true);
                let dashes = self.pick(&["-", "  -"]);
                format!(
                    "{}\n{spaces}{dashes} a\n{}{spaces}{dashes}{item}",
                    self.comment(),
                    self.between(indent)
                )
            }
            6 => format!(" {marks}\n{spaces}  {}\n", self.inline(marker, indent + 2)),
            _ => format!(" {}{}\n", self.inline(marker, indent), self.comment()),
        }
    }

    /// A mapping of which one key is secret and has a marker, or holds another mapping.
    fn mapping(&mut self, marker: &str, indent: usize) -> String {
        let spaces = " ".repeat(indent);
        let is_secret = self.next(3) > 0;
        let named = if is_secret { self.secret() } else { "spec" };
        let name = self.name(named);
        let value = self.value(marker, indent, is_secret);
        let entry = match self.next(8) {
            0 => format!("{spaces}? {name}\n{}{spaces}:{value}", self.between(indent)),
            1 => format!("{spaces}? >-\n{spaces}  {named}\n{spaces}:{value}"),
            2 => format!("{spaces}? |-\n{spaces}  {named}\n{}{spaces}:{value}", self.between(indent)),
            3 => format!("{spaces}{name} :{value}"),
            _ => format!("{spaces}{name}:{value}"),
        };
        let (before, after) = (
            self.pick(&["", "a: b\n", "a: [b, \"c\"]\n", "a: |\n  x\n"]),
            self.pick(&["", "z: y\n", "z: {y: x}\n"]),
        );
        let indented = |text: &str| text.lines().map(|line| format!("{spaces}{line}\n")).collect::<String>();
        format!("{}{}{entry}{}", indented(before), self.between(indent), indented(after))
    }

    fn document(&mut self) -> String {
        match self.next(8) {
            // An alias stands for the secret.
            0 => {
                let (marked, secret) = (self.inline(MARKER, 0), self.secret());
                let anchor = if marked.contains('&') { String::new() } else { self.anchor() + " " };
                let number = self.anchors;
                format!("first: {anchor}{marked}\n{}: *a{number}\n", self.name(secret))
            }
            1 => format!("a: b\n---\n{}", self.mapping(MARKER, 0)),
            2 => format!("{}\n", self.flow(MARKER, 0, false)),
            _ => self.mapping(MARKER, 0),
        }
    }
}

/// Whether a value has the marker that is not below a key with the name of a secret.
fn is_elsewhere(node: &Node, is_below: bool) -> bool {
    match &node.kind {
        NodeKind::Sequence(items) => items.iter().any(|item| is_elsewhere(item, is_below)),
        NodeKind::Mapping(entries) => entries
            .iter()
            .any(|entry| entry.key.contains(MARKER) || is_elsewhere(&entry.value, is_secret(&entry.key))),
        NodeKind::String(text) => text.contains(MARKER) && !is_below,
        _ => false,
    }
}

#[test]
fn no_style_shows_a_secret() {
    let mut writer = Writer { state: 1, anchors: 0 };
    let (mut parsed, mut broken, mut shown) = (0, 0, Vec::new());
    for _ in 0..10_000 {
        let text = writer.document();
        let is_meant = |document: &str| parse(document).is_ok_and(|read| !is_elsewhere(&read.root, false));
        // An alias stands for a secret elsewhere.
        let is_secret = match text.starts_with("first:") {
            true => parse(&text).is_ok(),
            false => text.split("---\n").all(is_meant),
        };
        parsed += usize::from(is_secret);
        if is_secret {
            let masked = mask_secrets(&text);
            if masked.contains(MARKER) {
                shown.push(format!("{text:?}: {masked:?}"));
            }
            assert_eq!(masked.lines().count(), text.lines().count(), "{text}");
        }
        // The same with an error at any place before it.
        let Some(end) = text.find(MARKER) else { continue };
        let at = writer.next(end);
        let mistake = writer.pick(&["}", "]", "\"", "'", "\n@\n", "\t", ": ", "&", "\n %\n"]);
        let Some((before, after)) = text.split_at_checked(at) else { continue };
        let mistaken = format!("{before}{mistake}{after}");
        if is_secret && before.ends_with('\n') && parse(&mistaken).is_err() {
            broken += 1;
            let masked = mask_secrets(&mistaken);
            if masked.contains(MARKER) {
                shown.push(format!("mistaken {mistaken:?}: {masked:?}"));
            }
        }
    }
    assert!(parsed > 3_000 && broken > 200, "{parsed} {broken}");
    shown.sort_by_key(String::len);
    assert!(
        shown.is_empty(),
        "{} of {parsed} and {broken}:\n{}",
        shown.len(),
        shown[..shown.len().min(20)].join("\n")
    );
}
