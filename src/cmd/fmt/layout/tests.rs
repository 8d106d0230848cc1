use proptest::prelude::*;

use super::*;

/// Of each: a name, what is written, and its layout.
const LAYOUTS: &[(&str, &str, &str)] = &[
    (
        "keys of resources have an order, and others keep theirs",
        "kind: rule\nspec:\n    actions:\n      -   instances: [b]\n          handler: a\n    match: x == 1\n    zeta: 1\n    alpha: 2\nmetadata: {name: r, namespace: n}\n",
        "kind: rule\nmetadata: {name: r, namespace: n}\nspec:\n  match: x == 1\n  actions:\n  - handler: a\n    instances: [b]\n  zeta: 1\n  alpha: 2\n",
    ),
    (
        "comments stay with what is below them, and at the ends of lines",
        "# Of the file.\n\n# The kind.\nkind: handler # here\nmetadata:\n  # Whose.\n  namespace: n\n  # What.\n  name: h   \nspec:\n  params: {}  # none\n  # Which.\n  compiledAdapter: denier\n  # Last of the spec.\n# Last of the file.\n",
        "# Of the file.\n\n# The kind.\nkind: handler # here\nmetadata:\n  # What.\n  name: h\n  # Whose.\n  namespace: n\nspec:\n  # Which.\n  compiledAdapter: denier\n  params: {}  # none\n  # Last of the spec.\n# Last of the file.\n",
    ),
    (
        "texts keep their lines",
        "kind: handler\nspec:\n      params:\n            policy: |\n              a: # no comment\n\n                b  \n              # nor this\n            next: >-\n               folded\n               text\n            quoted: \"one\n              two\"\n      compiledAdapter: opa\n",
        "kind: handler\nspec:\n  compiledAdapter: opa\n  params:\n    policy: |\n      a: # no comment\n\n        b  \n      # nor this\n    next: >-\n       folded\n       text\n    quoted: \"one\n      two\"\n",
    ),
    (
        "comments above items and their keys",
        "kind: rule\nspec:\n  actions:\n    # first\n    - instances:\n        - i\n      # who\n      handler: h\n    # second\n    -\n      handler: g\n      instances: []\n",
        "kind: rule\nspec:\n  actions:\n  # first\n  # who\n  - handler: h\n    instances:\n    - i\n  # second\n  -\n    handler: g\n    instances: []\n",
    ),
    (
        "documents are apart, and blank lines around them go",
        "\n# one\n\n---\n\nkind: x\n\n---\n---\na: [1,\n  2]\n\n",
        "# one\n---\nkind: x\n---\n---\na: [1,\n  2]\n",
    ),
    (
        "aliases",
        "a: &x {b: 1}\nc:\n  - *x\n  - d: 1\n    e: *x\n",
        "a: &x {b: 1}\nc:\n- *x\n- d: 1\n  e: *x\n",
    ),
    (
        "rate limits",
        "domain: d\ndescriptors:\n    - key: a\n      descriptors:\n          - key: b\n",
        "domain: d\ndescriptors:\n- key: a\n  descriptors:\n  - key: b\n",
    ),
    (
        "a text that stays at the end of its document",
        "spec:\n    t: |\n      x\n\n---\nspec:\n    t: |\n      x\n\n\n",
        "spec:\n  t: |\n    x\n---\nspec:\n  t: |\n    x\n",
    ),
    ("nothing", "", ""),
    ("a list of scalars", "a:\n    - 1\n    - 'x'   \n    - {b: 2}\n", "a:\n- 1\n- 'x'\n- {b: 2}\n"),
];

#[test]
fn texts_are_laid_out() {
    for (name, before, after) in LAYOUTS {
        let found = formatted(before).unwrap_or_else(|refusal| panic!("{name}: {refusal:?}"));
        assert_eq!(&found, after, "{name}");
        assert_eq!(formatted(&found).as_ref(), Ok(&found), "{name}, again");
    }
}

/// Blank lines with blanks after a text that ends a document.
#[test]
fn a_layout_is_its_own_layout() {
    for text in [
        "spec:\n  match: |-\n     # text\n   \nkind: rule\n",
        "spec:\n params:\n   - >-\n        - item\n        text\n   \nkind: rule\n\n---\na: 1\n",
    ] {
        let after = formatted(text).expect(text);
        assert_ne!(after, text);
        assert_eq!(formatted(&after).as_ref(), Ok(&after), "{text:?}");
    }
}

#[test]
fn what_cannot_be_laid_out_is_refused_with_its_line() {
    for (text, line, why) in [
        ("a:\n\tb: 2\n", 1, "yaml"),
        ("a: 1\r\nb: 2\r\n", 1, "carriage return"),
        ("a: 1\n--- # two\nb: 2\n", 2, "separator"),
        ("a: 1\n---\n\na: [\n", 4, "yaml"),
        ("a: 1\n---\nb: 1\nb: 2\n", 3, "twice"),
        (
            "kind: rule\nspec: &a\n  actions: []\n  match: x\nmetadata: {name: *a}\n",
            1,
            "changing what it says",
        ),
        // Servers cut off the line feed of a text that ends a document.
        ("a: 1\n---\nkind: rule\nspec:\n  actions: []\n  match: |\n    x\n\n---\na: 1\n", 3, "line feed"),
        ("kind: rule\nspec:\n  actions: []\n  match: |\n    x\n", 1, "line feed"),
        ("spec: |\n  x\nkind: rule\n", 1, "line feed"),
        ("spec: |+\n  x\n\n\n---\na: 1\n", 1, "changing what it says"),
        ("  a: 1\n  b: 2\n", 1, "yaml"),
    ] {
        let refusal = formatted(text).expect_err(text);
        assert!(refusal.line == line && refusal.why.contains(why), "{text:?}: {refusal:?}");
    }
}

/// The files of the repository.
#[test]
fn the_meaning_of_every_example_stays() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut directories = vec![
        root.join("testdata/config"),
        root.join("testdata/bad"),
        root.join("examples"),
        root.join("src/cmd/init"),
    ];
    let (mut kept, mut refused) = (0, 0);
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let is_yaml = path.extension().is_some_and(|end| end == "yaml");
            let Some(text) = is_yaml.then(|| std::fs::read_to_string(&path).ok()).flatten() else { continue };
            match formatted(&text) {
                Ok(after) => {
                    assert_eq!(formatted(&after).as_ref(), Ok(&after), "{}", path.display());
                    // What is right is in its layout already.
                    let is_wrong = path.starts_with(root.join("testdata/bad"));
                    assert!(is_wrong || after == text, "{}:\n{after}", path.display());
                    kept += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    // Those of testdata/bad that are no YAML, and few others.
    assert!(kept > 300 && refused < 30, "{kept} {refused}");
}

/// Lines of a block mapping or list, with comments, indented somehow.
fn block(depth: u32) -> BoxedStrategy<Vec<String>> {
    let scalar = prop_oneof![
        Just("1".to_owned()),
        Just("x # said".to_owned()),
        Just("'#no'".to_owned()),
        Just("{a: 1, b: [2]}".to_owned()),
        Just("[1,\n    2]".to_owned()),
        Just("|\n    text\n\n      more  \n    # text".to_owned()),
        Just("|-\n    text\n   \n".to_owned()),
        Just("|+\n    text\n\n     \n\n".to_owned()),
        Just(">\n     # text\n    more\n \n   \n".to_owned()),
        Just("\"a\n    b\"".to_owned()),
    ];
    let scalar = scalar.prop_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).boxed();
    if depth == 0 {
        return scalar;
    }
    let key = prop::sample::select(vec![
        "kind",
        "spec",
        "metadata",
        "name",
        "match",
        "actions",
        "handler",
        "instances",
        "zeta",
        "alpha",
    ]);
    let comment =
        prop::sample::select(vec!["", "# one", "   # two", "\n# after a blank", "  ", "   \n\n # three\n "]);
    let entry = (key, comment, block(depth - 1), 1_usize..5);
    let mapping = prop::collection::vec(entry.clone(), 1..5).prop_map(|entries| {
        let mut lines = Vec::new();
        let mut known = std::collections::BTreeSet::new();
        for (key, comment, value, indent) in entries.into_iter().filter(|(key, ..)| known.insert(*key)) {
            lines.extend(comment.lines().map(str::to_owned));
            let is_nested = value.first().is_some_and(|line| line.starts_with('\u{1}'));
            let mut value = value.into_iter();
            if is_nested {
                lines.push(format!("{key}:"));
                let inner = value.map(|line| format!("{:indent$}{}", "", line.trim_start_matches('\u{1}')));
                lines.extend(inner);
            } else {
                lines.push(format!("{key}: {}", value.next().unwrap_or_default()));
                lines.extend(value);
            }
        }
        if let Some(first) = lines.first_mut() {
            first.insert(0, '\u{1}');
        }
        lines
    });
    let list = prop::collection::vec((comment_lines(), block(depth - 1)), 1..4).prop_map(|items| {
        let mut lines: Vec<String> = Vec::new();
        for (comment, value) in items {
            lines.extend(comment);
            let value: Vec<String> =
                value.iter().map(|line| line.trim_start_matches('\u{1}').to_owned()).collect();
            let first =
                value.iter().position(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
            for (at, line) in value.into_iter().enumerate() {
                let is_first = Some(at) == first;
                lines.push(format!("{}{line}", if is_first { "- " } else { "  " }));
            }
        }
        if let Some(first) = lines.first_mut() {
            first.insert(0, '\u{1}');
        }
        lines
    });
    prop_oneof![2 => scalar, 3 => mapping, 2 => list].boxed()
}

fn comment_lines() -> impl Strategy<Value = Vec<String>> {
    prop::sample::select(vec![vec![], vec!["# item"], vec!["", " # item"], vec!["    ", ""]])
        .prop_map(|lines| lines.into_iter().map(str::to_owned).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever is written: the layout says the same, with the same comments, and is its own layout; or it is refused.
    #[test]
    fn a_layout_says_the_same(
        documents in prop::collection::vec((block(3), document_end()), 1..4),
        end in document_end(),
        carriage_return in prop::option::weighted(0.05, any::<prop::sample::Index>()),
    ) {
        let texts: Vec<String> = documents
            .iter()
            .map(|(lines, end)| lines.join("\n").replace('\u{1}', "") + end)
            .collect();
        let text = texts.join("\n---\n") + end;
        if let Some(at) = carriage_return {
            let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
            let at = at.index(lines.len());
            lines[at].push('\r');
            let refusal = formatted(&lines.join("\n")).expect_err("it has a carriage return");
            prop_assert_eq!(refusal.line, at + 1);
            return Ok(());
        }
        let Ok(after) = formatted(&text) else { return Ok(()) };
        prop_assert_eq!(served(&after), served(&text), "{:?}\nbecame\n{:?}", text, after);
        prop_assert_eq!(standard(&after), standard(&text), "{:?}\nbecame\n{:?}", text, after);
        prop_assert_eq!(text.matches('#').count(), after.matches('#').count());
        prop_assert_eq!(formatted(&after), Ok(after.clone()), "{:?}", text);
    }
}

/// What may follow the last line of a document.
fn document_end() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "", "\n", "\n\n", "\n   ", "\n \t\n", "\n     \n\n"])
}

fn chunks(text: &str) -> Vec<String> {
    format!("\n{text}").split("\n---\n").map(str::to_owned).collect()
}

fn said(text: &str) -> String {
    let parsed = yaml::parse(text).unwrap_or_else(|error| panic!("{error}: {text:?}"));
    format!("{:?}", sorted(&parsed.root))
}

/// What servers read: each document without the blanks around it.
fn served(text: &str) -> Vec<String> {
    chunks(text).iter().map(|chunk| said(chunk.trim())).collect()
}

/// What other programs read: each document with the line feed at its end.
fn standard(text: &str) -> Vec<String> {
    let chunks = chunks(text);
    let last = chunks.len() - 1;
    let ends = (0..chunks.len()).map(|at| if at == last { "" } else { "\n" });
    chunks.iter().zip(ends).map(|(chunk, end)| said(&format!("{chunk}{end}"))).collect()
}
