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
            "9:1 error[document-identity] expected a mapping, found a list",
            "11:1 error[document-identity] the document has neither kind nor metadata",
        ]
    );
    assert_eq!(
        contents.diagnostics[1].log_text(),
        "Error processing conf/a.yaml[2]: key elements are empty. Extracted as q.rule. from\n <<kind: rule\nmetadata: {name: q}>>"
    );
    assert_eq!(
        contents.diagnostics[2].log_text(),
        "Error processing conf/a.yaml[3]: error unmarshaling JSON: json: cannot unmarshal array into Go value of type store.BackEndResource"
    );
    assert_eq!(
        contents.diagnostics[0].log_text(),
        "Error processing conf/a.yaml[1]: error converting YAML to JSON: yaml: mapping values are not allowed in this context"
    );
}

/// That of the library is a line of the document, and of the mapping in which the problem is.
#[test]
fn the_only_line_of_a_syntax_error_is_that_of_the_file() {
    let contents = read(&format!("{A}\n---\na: 1\nb:\n\tc: 2\n---\nx: !y.z(\"/p\")\n"));
    assert_eq!(
        problems(&contents),
        [
            "6:1 error[yaml-syntax] yaml: found character that cannot start any token",
            "8:9 error[yaml-syntax] yaml: did not find expected whitespace or line break",
        ]
    );
    // That of Istio Mixer is its own.
    assert!(contents.diagnostics[0].log_text().contains("yaml: line 3: found"), "{:?}", contents.diagnostics);
}

/// Istio Mixer repeats the document.
#[test]
fn a_document_without_a_name_shows_no_secret() {
    let contents = read(
        "kind: handler\nmetadata: {name: h}\nspec: {compiledAdapter: redisquota, params: {redisServerUrl: \"redis://bob:hunter3@localhost\"}}\n\
         ---\nkind: Secret\nmetadata: {name: s}\nstringData:\n  password: |\n    hunter3\n",
    );
    assert_eq!(contents.diagnostics.len(), 2);
    for diagnostic in &contents.diagnostics {
        let text = diagnostic.log_text();
        assert!(text.contains("***") && !text.contains("hunter3"), "{text}");
    }
}

/// `mixer init` writes them beside the directory of the resources, where `mixer validate DIR` finds them.
#[test]
fn files_of_other_programs_have_a_hint_of_their_own() {
    for (text, begin) in [
        ("apiVersion: mixer/v1\nkind: PolicyTest\ntests: []\n", "these are policy tests, for `mixer test`: "),
        ("node: {id: a}\nstatic_resources:\n  listeners: []\n", "this is the bootstrap of an Envoy: "),
        ("kind: rule\nmetadata: {name: q}\n", "every resource has kind, "),
        ("a: b\n", "every resource has kind, "),
    ] {
        let contents = read(text);
        let hint = contents.diagnostics[0].hint.clone().unwrap_or_default();
        assert!(
            contents.diagnostics[0].code == DOCUMENT_IDENTITY && hint.starts_with(begin),
            "{text}: {hint}"
        );
    }
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

#[test]
fn what_follows_a_document_is_an_error() {
    let ignored = "error[document-ignored]";
    for (text, expected) in [
        (format!("{A}\n...\n"), None),
        (format!("{A}\n...\n# c\n...\n"), None),
        (format!("{A}\n...\n{B}\n"), Some("4:1")),
        (format!("{A}\n...\n\n\n{B}\n"), Some("6:1")),
        (format!("{A}\n...\n@ {B}\n"), Some("3:1")),
        (format!("{A}\n--- \n{B}\n"), Some("3:1")),
        (format!("{A}\n--- # c\n{B}\n"), Some("3:1")),
        (format!("{A}\n---\n{B}\n").replace('\n', "\r\n"), Some("3:1")),
    ] {
        let contents = read(&text);
        let found: Vec<String> =
            problems(&contents).iter().map(|p| p.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(found, Vec::from_iter(expected.map(|at| format!("{at} {ignored}"))), "{text:?}");
        assert_eq!(keys(&contents), ["a.rule.x:1"], "{text:?}");
        assert_eq!(contents.broken.len(), found.len());
        // The first document is what it was: the problem is not its own.
        assert!(contents.diagnostics.iter().all(|problem| problem.resource.is_empty()));
    }
}

#[test]
fn a_key_that_is_there_twice_loses_one_value() {
    let code = |text: &str| {
        let contents = read(text);
        let problem = contents.diagnostics.first().cloned().unwrap();
        assert_eq!((problem.code, &*problem.resource), ("key-duplicate", "b.rule.x"), "{text}");
        (problem.severity, contents.broken.len())
    };
    assert_eq!(code(&format!("{B}\nspec: {{match: a, match: b}}")), (Severity::Error, 0));
    assert_eq!(
        code(&format!("{B}\nspec: {{match: [a, {{b: c}}], match: [a, {{b: c}}]}}")),
        (Severity::Warning, 0)
    );
    assert_eq!(code(&format!("{B}\nkind: rule")), (Severity::Warning, 0));
    assert_eq!(code(&format!("kind: handler\n{B}")), (Severity::Error, 1), "of two documents one is lost");
}

#[test]
fn a_merge_key_that_replaces_a_key_is_an_error() {
    let found = |text: &str| {
        let contents = read(text);
        let codes: Vec<_> = contents.diagnostics.iter().map(|d| (d.code, d.severity)).collect();
        assert!(contents.diagnostics.iter().all(|d| &*d.resource == "b.rule.x"), "{text}");
        (codes, contents.broken.len())
    };
    let error = vec![("key-duplicate", Severity::Error)];
    for (spec, expected) in [
        ("match: a\n  <<: {match: b}", true),
        ("match: a\n  <<: [{other: c}, {match: b}]", true),
        ("match: a\n  <<: {match: a}", false),
        ("<<: {match: b}\n  match: a", false),
        ("<<: [{match: b}, {match: c}]\n  <<: {match: d}\n  match: a", false),
        ("match: a\n  <<: {match: b}\n  match: c", true),
    ] {
        let expected = if expected { error.clone() } else { vec![] };
        assert_eq!(found(&format!("{B}\nspec:\n  {spec}")), (expected, 0), "{spec}");
    }
    let many: String = (0..40).map(|i| format!("  k{i}: a\n")).collect();
    assert_eq!(found(&format!("{B}\nspec:\n{many}  <<: {{k39: b}}")), (error.clone(), 0));
    assert_eq!(found(&format!("kind: handler\n<<: {{{}}}", B.replace('\n', ", "))), (error, 1));
}

#[test]
fn fields_beside_the_spec_are_noted() {
    let envelope = |text: &str| read(text).resources[0].envelope.clone();
    let shown = |text: &str| -> Vec<String> {
        let fields = envelope(text).unknown;
        fields.iter().map(|f| format!("{} {:?} {}", f.name, f.place, f.span.start.line)).collect()
    };
    assert_eq!(&*envelope(&format!("apiVersion: v1\n{A}")).api_version, "v1");
    let annotated = A.replace(
        "namespace: x",
        "namespace: x, annotations: {mixer.dev/a: on, mixer.dev/b: \"on\", mixer.dev/c: 1, mixer.dev/d: , other/e: true}",
    );
    let untyped: Vec<_> = envelope(&annotated).untyped_annotations.to_vec();
    assert_eq!(untyped, ["mixer.dev/a", "mixer.dev/c", "mixer.dev/d"].map(Box::from));
    assert_eq!(&*envelope(&format!("apiVersion: [1]\n{A}")).api_version, "");
    assert_eq!(shown(&format!("apiVersion: v1\n{A}\nSpec: {{}}\nstatus: {{}}")), [] as [&str; 0]);
    assert_eq!(
        shown(&format!("{A}\nspec:\nmatch: a\nactions: []")),
        ["match Document 4", "actions Document 5"]
    );
    let metadata = "kind: rule\nmetadata:\n  name: a\n  namespace: x\n  uid: u\n";
    assert_eq!(shown(&format!("{metadata}  annotations: {{a/b: c}}\n")), [] as [&str; 0]);
    assert_eq!(shown(&format!("{metadata}  anotations: {{a/b: c}}\n")), ["anotations Metadata 6"]);
    // Common names are fields of their kind only.
    assert_eq!(shown(&format!("{metadata}  paths: [a]\n  annotations: {{mode: a}}\n")), [] as [&str; 0]);
    for (kind, name) in [
        ("ServiceRole", "paths"),
        ("ServiceRoleBinding", "role_ref"),
        ("ServiceRoleBinding", "group"),
        ("envoybridge", "errorMode"),
        ("attributemapping", "default"),
        ("ratelimit", "shadow_mode"),
    ] {
        let metadata = metadata.replace("rule", kind);
        assert_eq!(shown(&format!("{metadata}  {name}: a\n")), [format!("{name} Metadata 6")], "{kind}");
        let annotated = format!("{metadata}  annotations: {{{name}: a}}\n");
        assert_eq!(shown(&annotated), [format!("{name} Annotations 6")], "{kind}");
    }
    assert_eq!(shown(&format!("{metadata}  mixer.dev/default: deny\n")), ["mixer.dev/default Metadata 6"]);
    assert_eq!(shown(&format!("{metadata}  mixer.dev.default: deny\n")), ["mixer.dev.default Metadata 6"]);
    assert_eq!(
        shown(&format!("{metadata}  labels: {{app: a, mixer.dev/default: deny}}\n")),
        ["mixer.dev/default Labels 6"]
    );
    assert_eq!(shown(&format!("{metadata}  labels: {{mixer.dev/part-of: shop}}\n")), [] as [&str; 0]);
    assert_eq!(shown("domain: a\ndescriptors: []"), [] as [&str; 0]);
}

#[test]
fn rate_limits_with_a_misspelt_field_are_errors() {
    for (text, expected) in [
        (
            "domian: a\ndescriptors: []",
            "1:1 error[document-identity] unknown field `domian` of a file of rate limits",
        ),
        (
            "domain: a\ndescriptor: []",
            "2:1 error[document-identity] unknown field `descriptor` of a file of rate limits",
        ),
        ("descriptors: []", "1:14 error[document-identity] a file of rate limits has no domain"),
        (
            "domain: 1\ndescriptors: []",
            "1:9 error[document-identity] the domain of a file of rate limits is no text",
        ),
        (
            "domain: a\ndescription: b",
            "1:1 error[document-identity] the document has neither kind nor metadata",
        ),
        ("domain: a", "1:1 error[document-identity] the document has neither kind nor metadata"),
    ] {
        let contents = read(text);
        assert_eq!(problems(&contents), [expected]);
        assert_eq!((contents.resources.len(), contents.broken.len()), (0, 1));
    }
    assert_eq!(keys(&read("domain: a\ndescriptors: []")), ["a.ratelimit.ratelimit:1"]);
}

#[test]
fn a_document_is_read_again_from_a_cache_with_what_follows_it() {
    for text in [format!("{A}\n--- \n{B}"), format!("{A}\nspec: {{match: a, match: b}}")] {
        let origin = read(&text).resources[0].origin.clone();
        assert_eq!(&*origin.text, text);
        assert_eq!(
            read_document(origin).map(|resource| resource.key.to_string()).as_deref(),
            Some("a.rule.x")
        );
    }
}

/// What a document is: a resource, unidentified, or nothing.
#[test]
fn a_document_without_a_kind_is_an_error_unless_there_is_nothing() {
    let nothing = [
        "",
        "\n\n",
        "# c",
        "# c\n---\n# d",
        "null",
        "~",
        "--- # c\n",
        "---",
        "---\n",
        "---\n---\n",
        "---\n~\n",
    ];
    for text in nothing {
        let contents = read(text);
        let problems: Vec<_> =
            contents.diagnostics.iter().map(|d| d.code).filter(|code| *code != FILE_EMPTY).collect();
        assert!(problems.is_empty() && contents.broken.is_empty(), "{text:?}: {problems:?}");
    }
    for text in [
        "{}",
        "apiVersion: config.istio.io/v1alpha2",
        "apiVersion: config.istio.io/v1alpha2\nkind:",
        "apiVersion: config.istio.io/v1alpha2\nkind: rule",
        "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy",
        "apiVersion: config.istio.io/v1alpha2\nkind: ''\nmetadata: {}",
        "metadata: {}",
        "spec: {}",
        "a: b",
        "[]",
        "''",
        "text",
        "17",
        "true",
        "kind: rule\nmetadata: {name: a, namespace: ''}",
        "kind: rule\nmetadata: null",
    ] {
        let contents = read(text);
        let problems: Vec<_> = contents.diagnostics.iter().map(|d| (d.code, d.severity)).collect();
        assert_eq!(problems, [("document-identity", Severity::Error)], "{text:?}");
        assert_eq!((contents.broken.len(), contents.resources.len()), (1, 0), "{text:?}");
        assert!(contents.diagnostics[0].hint.is_some(), "{text:?}");
    }
}

#[test]
fn a_list_of_kubectl_is_not_read_and_says_so() {
    let items = format!("items:\n- {}\n", A.replace('\n', "\n  "));
    for (text, legacy) in [
        (format!("apiVersion: v1\nkind: List\n{items}"), true),
        (format!("apiVersion: v1\nkind: List\nmetadata: {{name: a, namespace: b}}\n{items}"), false),
        (format!("apiVersion: config.istio.io/v1alpha2\nkind: ruleList\n{items}"), true),
    ] {
        let contents = read(&text);
        let problem = contents.diagnostics[0].clone();
        assert!(problem.message.starts_with("a list of resources, kind `"), "{problem:?}");
        assert!(problem.hint.as_ref().is_some_and(|hint| hint.contains("a document of its own")));
        assert_eq!(
            (problem.legacy.is_some(), contents.broken.len(), contents.resources.len()),
            (legacy, 1, 0)
        );
    }
}

#[test]
fn a_text_that_is_not_utf8_says_how_to_convert_it() {
    let utf16 =
        |order: fn(u16) -> [u8; 2], text: &str| text.encode_utf16().flat_map(order).collect::<Vec<u8>>();
    let mark = |text: &str| format!("\u{feff}{text}");
    let latin1 = A.replace("name: a", "name: caf\u{e9}").chars().map(|c| c as u8).collect::<Vec<u8>>();
    for (bytes, encoding) in [
        (utf16(u16::to_le_bytes, &mark(A)), "-f utf-16 "),
        (utf16(u16::to_be_bytes, &mark(A)), "-f utf-16 "),
        (utf16(u16::to_le_bytes, A), "-f utf-16le "),
        (utf16(u16::to_be_bytes, A), "-f utf-16be "),
        (mark(A).chars().flat_map(|c| u32::from(c).to_le_bytes()).collect(), "-f utf-32 "),
        (latin1, "-f latin1 "),
        (A.replace("name: a", "name: \0a").into_bytes(), "NUL bytes"),
        ([b"#\0\n", A.as_bytes()].concat(), "NUL bytes"),
        ([A.as_bytes(), b"\n# \xc3"].concat(), "cut off"),
    ] {
        let contents = read_file(&Arc::from("conf/a.yaml"), &bytes, None);
        let [problem] = contents.diagnostics.as_slice() else {
            panic!("{encoding}: {:?}", contents.diagnostics)
        };
        assert_eq!((problem.code, problem.severity), ("yaml-syntax", Severity::Error), "{encoding}");
        assert!(problem.hint.as_ref().is_some_and(|hint| hint.contains(encoding)), "{encoding}: {problem:?}");
        assert_eq!((contents.broken.len(), contents.resources.len()), (1, 0), "{encoding}");
    }
}

#[test]
fn a_resource_is_known_by_its_fields_whatever_its_kind() {
    let is_like_ours = |text: &str| read(&format!("kind: x\n{text}")).resources[0].envelope.is_like_ours;
    let plain = "metadata: {name: a, namespace: b}";
    for (text, expected) in [
        (plain.to_owned(), false),
        (format!("{plain}\nspec: {{actions: [{{handler: a, instances: [b]}}]}}"), true),
        (format!("{plain}\nspec:\nactions: [{{handler: a, instances: [b]}}]"), true),
        (format!("{plain}\nspec: {{actions: [{{instances: [b]}}]}}"), false),
        (format!("{plain}\nspec: {{actions: [{{handler: a}}]}}"), false),
        (format!("{plain}\nspec: {{actions: {{handler: a, instances: [b]}}}}"), true),
        (format!("{plain}\nspec: {{actions: [notify]}}"), false),
        (format!("{plain}\nspec: {{compiledAdapter: denier}}"), true),
        (format!("{plain}\nspec: {{compiledTemplate: metric}}"), true),
        (format!("{plain}\nspec: {{attributes: {{source.user: {{valueType: STRING}}}}}}"), true),
        (format!("{plain}\nspec: {{attributes: {{width: {{valueType: number}}}}}}"), false),
        (format!("{plain}\nspec: {{attributes: {{a: b}}, template: {{}}}}"), false),
        ("metadata: {name: a, namespace: b, annotations: {mixer.dev/default: deny}}".to_owned(), true),
        ("metadata: {name: a, namespace: b, annotations: {mixer.dev/on_eror: deny}}".to_owned(), true),
        ("metadata: {name: a, namespace: b, annotations: {mixer.dev/team: a}}".to_owned(), false),
        ("metadata: {name: a, namespace: b, annotations: {helm.sh/hook: pre-install}}".to_owned(), false),
    ] {
        assert_eq!(is_like_ours(&text), expected, "{text}");
    }
}

/// As Go's JSON reads the names of a document's own fields.
#[test]
fn capitals_in_the_fields_of_a_document_do_not_count() {
    let text = "Kind: rule\nMetadata: {Name: r, Namespace: x}\nSpec: {match: 'true'}\n";
    let contents = read(text);
    assert_eq!((keys(&contents), problems(&contents)), (vec!["r.rule.x:1".to_owned()], Vec::new()));
}

/// A file with this number of documents that are no resources.
fn nonsense(number: usize) -> String {
    "---\na\n".repeat(number)
}

#[test]
fn a_file_with_too_many_errors_is_broken_as_a_whole() {
    let few = read(&format!("{A}\n{}", nonsense(MAX_PROBLEMS)));
    assert_eq!(
        (few.resources.len(), few.broken.len(), few.diagnostics.len()),
        (1, MAX_PROBLEMS, MAX_PROBLEMS)
    );
    assert!(few.diagnostics.iter().zip(&few.broken).all(|(listed, broken)| {
        // Stored once.
        Arc::ptr_eq(&listed.details, &broken.problem.details)
    }));
    for number in [MAX_PROBLEMS + 1, 100_000] {
        let many = read(&format!("{A}\n{}", nonsense(number)));
        assert_eq!((many.resources.len(), many.broken.len(), many.diagnostics.len()), (0, 1, 1), "{number}");
        let whole = &many.broken[0];
        assert_eq!((whole.document, whole.keeps_last, &*whole.text), (None, false, ""));
        assert_eq!(
            problems(&many),
            [format!(
                "4:1 error[file-errors] nothing of the file is read: its documents have {number} errors, more than 1000; the first: \
                 expected a mapping, found text"
            )]
        );
        assert_eq!(whole.unread().why, format!("conf/a.yaml:4: {}", whole.problem.message));
    }
}

#[test]
fn a_file_with_too_many_documents_is_not_read() {
    let most = read(&format!("{A}{}", "\n---\n#".repeat(MAX_DOCUMENTS - 1)));
    assert_eq!((most.resources.len(), most.diagnostics.len()), (1, 0));
    let more = read(&format!("{A}{}", "\n---\n#".repeat(MAX_DOCUMENTS)));
    assert_eq!((more.resources.len(), more.broken.len(), more.diagnostics.len()), (0, 1, 1));
    let problem = &more.diagnostics[0];
    assert_eq!(problem.code, "file-too-large");
    assert_eq!(problem.message, "nothing of the file is read: it has 200001 documents, more than 200000");
}

#[test]
fn a_file_that_is_refused_keeps_its_last_resources_until_it_is_mended() {
    let file: Arc<str> = Arc::from("conf/a.yaml");
    let first = read(&format!("{A}\n---\n{B}\n"));
    let refused = read_file(&file, nonsense(2_000).as_bytes(), Some(&first)).or_last(&first);
    assert_eq!((keys(&refused), refused.broken.len()), (keys(&first), 1));
    assert!(refused.broken[0].keeps_last && !refused.is_empty());
    let again = read_file(&file, nonsense(3_000).as_bytes(), Some(&refused)).or_last(&refused);
    assert_eq!((keys(&again), again.broken.len()), (keys(&first), 1));
    let mended = read_file(&file, A.as_bytes(), Some(&again)).or_last(&again);
    assert_eq!(
        (keys(&mended), mended.broken.len(), mended.diagnostics.len()),
        (vec!["a.rule.x:1".into()], 0, 0)
    );
}

#[test]
fn of_very_many_warnings_the_first_are_listed() {
    let document =
        |number: usize| format!("kind: rule\nmetadata: {{name: r{number}, namespace: x}}\nspec: {{no: x}}\n");
    let text = |number: usize| (0..number).map(document).collect::<Vec<_>>().join("---\n");
    let all = read(&text(MAX_PROBLEMS));
    assert_eq!((all.resources.len(), all.diagnostics.len()), (MAX_PROBLEMS, MAX_PROBLEMS));
    let file: Arc<str> = Arc::from("conf/a.yaml");
    let mut before = None;
    for _ in 0..3 {
        let more = read_file(&file, text(MAX_PROBLEMS + 200).as_bytes(), before.as_ref());
        assert_eq!((more.resources.len(), more.broken.len()), (MAX_PROBLEMS + 200, 0));
        assert_eq!(more.diagnostics[..MAX_PROBLEMS], all.diagnostics[..]);
        let rest: Vec<_> = more.diagnostics[MAX_PROBLEMS..].iter().map(|d| (d.code, &*d.message)).collect();
        assert_eq!(
            rest,
            [("problems-unlisted", "200 more warnings about documents of this file are not listed")]
        );
        before = Some(more);
    }
}

#[test]
fn a_document_with_a_problem_is_read_again_and_no_other() {
    let warned = "kind: rule\nmetadata: {name: c, namespace: x}\nspec: {no: x}";
    let text = format!("{A}\n---\n{warned}\n---\n{B}\n");
    let first = read(&text);
    let second = read_file(&Arc::from("conf/a.yaml"), text.as_bytes(), Some(&first));
    let reused: Vec<bool> = first
        .resources
        .iter()
        .zip(&second.resources)
        .map(|(first, second)| Arc::ptr_eq(first, second))
        .collect();
    assert_eq!(reused, [true, false, true]);
    assert_eq!((first.diagnostics.len(), &second.diagnostics), (1, &first.diagnostics));
}
