use super::*;

fn read(text: &str) -> FileContents {
    read_file(&Arc::from("conf/a.yaml"), text.as_bytes(), None)
}

fn keys(contents: &FileContents) -> Vec<String> {
    contents.resources.iter().map(|r| format!("{}:{}", r.key, r.origin.first_line)).collect()
}

fn problems(contents: &FileContents) -> Vec<String> {
    contents
        .diagnostics
        .iter()
        .map(|d| {
            let start = d.span.unwrap().start;
            format!("{}:{} {}[{}] {}", start.line, start.column, d.severity.name(), d.code, d.message)
        })
        .collect()
}

const A: &str = "kind: rule\nmetadata: {name: a, namespace: x}";
const B: &str = "kind: rule\nmetadata: {name: b, namespace: x}";

#[test]
fn splits_only_at_exact_separators() {
    let cases = [
        (format!("{A}\n---\n{B}\n"), vec!["a.rule.x:1", "b.rule.x:4"], 0),
        (format!("---\n{A}\n---\n---\n{B}\n"), vec!["a.rule.x:1", "b.rule.x:5"], 0),
        (format!("# c\n\n---\n\n\n{A}\n---\n\n{B}"), vec!["a.rule.x:6", "b.rule.x:10"], 0),
        (format!("{A}\n--- \n{B}\n"), vec!["a.rule.x:1"], 1),
        (format!("{A}\r\n---\r\n{B}\r\n").replace("metadata", "\r\nmetadata"), vec!["a.rule.x:1"], 1),
        ("\n---\n\n---\n# c\n---\nnull\n".to_owned(), vec![], 0),
    ];
    for (text, expected, problems) in cases {
        let contents = read(&text);
        assert_eq!(keys(&contents), expected, "{text:?}");
        assert_eq!(contents.diagnostics.len(), problems, "{text:?}: {:?}", contents.diagnostics);
    }
}

#[test]
fn invalid_chunks_are_diagnosed_with_their_position() {
    let contents =
        read(&format!("{A}\n---\na: b: c\n---\nkind: rule\nmetadata: {{name: q}}\n---\n- x\n---\na: b\n"));
    assert_eq!(
        problems(&contents),
        [
            "4:5 error[yaml-syntax] yaml: mapping values are not allowed in this context",
            "6:1 error[document-identity] key elements are empty: metadata.namespace missing",
            "9:1 error[document-identity] json: cannot unmarshal array into Go value of type store.BackEndResource",
            "11:1 warning[document-identity] the document has neither kind nor metadata and is ignored",
        ]
    );
    assert_eq!(
        contents.diagnostics[1].log_text(),
        "Error processing conf/a.yaml[2]: key elements are empty. Extracted as q.rule. from\n <<kind: rule\nmetadata: {name: q}>>"
    );
    assert_eq!(
        contents.diagnostics[0].log_text(),
        "Error processing conf/a.yaml[1]: error converting YAML to JSON: yaml: mapping values are not allowed in this context"
    );
}

#[test]
fn identity_is_lenient_with_scalars() {
    let cases = [
        ("kind: rule\nmetadata: {name: 1, namespace: 1.5}", "1.rule.1.5"),
        ("kind: yes\nmetadata: {name: a, namespace: no}", "a.true.false"),
        ("KIND: rule\nMetadata: {Name: a, nameSpace: b}", "a.rule.b"),
        ("kind: 2001-01-01\nmetadata: {name: 012, namespace: 1_0}", "10.2001-01-01.10"),
    ];
    for (text, expected) in cases {
        assert_eq!(read(text).resources[0].key.to_string(), expected);
    }
}

#[test]
fn unchanged_chunks_are_reused() {
    let first = read(&format!("{A}\n---\n{B}\n"));
    let second =
        read_file(&Arc::from("conf/a.yaml"), format!("{A}\n---\n# new\n---\n{B}\n").as_bytes(), Some(&first));
    assert_eq!(keys(&second), ["a.rule.x:1", "b.rule.x:6"]);
    assert!(Arc::ptr_eq(&first.resources[0], &second.resources[0]));
    assert!(Arc::ptr_eq(&first.resources[1].origin.text, &second.resources[1].origin.text));
}

#[test]
fn a_file_that_is_cut_off_has_a_broken_chunk() {
    let c = B.replace("name: b", "name: c");
    for (name, text, defined, chunk) in [
        ("whole", format!("{A}\n---\n{B}\n---\n{c}\n"), vec!["a", "b", "c"], None),
        ("with a comment at the end", format!("{A}\n---\n# the rest is\n"), vec!["a"], None),
        ("within the second", format!("{A}\n---\n{}", &B[..B.len() - 1]), vec!["a"], Some((1, 4))),
        (
            "before the namespace",
            format!("{A}\n---\nkind: rule\nmetadata:\n  name: b"),
            vec!["a"],
            Some((1, 4)),
        ),
        ("before the kind", format!("{A}\n---\napiVersion: v1\n"), vec!["a"], Some((1, 4))),
        ("within a character", format!("{A}\n---\n# \u{fffd}"), vec!["a"], Some((1, 4))),
        ("a separator with a blank", format!("{A}\n--- \n{B}\n---\n{c}\n"), vec!["a", "c"], Some((0, 1))),
        ("the first", format!("{{{A}\n---\n{B}\n"), vec!["b"], Some((0, 1))),
    ] {
        let mut bytes = text.into_bytes();
        if name == "within a character" {
            bytes.pop();
        }
        let file: Arc<str> = Arc::from("conf/a.yaml");
        let contents = read_file(&file, &bytes, None);
        let names: Vec<&str> = contents.resources.iter().map(|r| &*r.key.name).collect();
        assert_eq!(names, defined, "{name}");
        let broken: Vec<_> =
            contents.broken.iter().map(|b| b.document.map(|c| (c.index, c.line)).unwrap()).collect();
        assert_eq!(broken, Vec::from_iter(chunk), "{name}");
        assert!(contents.broken.iter().all(|b| b.file == file && contents.diagnostics.contains(&b.problem)));
    }
}
