//! Lists in the form of another type of list.

use super::*;

/// Replaces a list by each body and tells why the last one stays; an empty text if it does not.
async fn replaced(entry_type: EntryType, first: &str, body: &str) -> String {
    let server = Server::start(&ok(first));
    let source = fetch::ListSource::Url(server.url());
    let (provider, mut refresher) = refresher(source, entry_type, false);
    assert!(refresher.fetch().await, "{first}");
    server.serve(body);
    assert_eq!(refresher.fetch().await, provider.state().error.is_none(), "{body}");
    assert!(length(&provider).is_some(), "{body}");
    let error = provider.state().error.clone().unwrap_or_default();
    error.replace(&server.url(), "URL")
}

/// The lines of a document are no entries: a denylist of them would refuse nobody.
#[tokio::test]
async fn a_document_with_a_list_is_no_list_of_lines() {
    let refused = "could not fetch list from URL: the answer is a YAML document, not a list";
    for body in [
        "whitelist:\n- mallory\n",
        "- mallory\n- eve\n",
        "# denied\n---\n- mallory\n\n- eve\n...\n",
        "-   mallory\n",
        "- *.evil.example\n- mallory\n",
        "blacklist:\n  - *.evil.example\n",
        "version: 3\nblacklist:\n- mallory\n",
        "blacklist: [mallory, eve]\n",
        "whitelist: [\n  mallory,\n  eve\n]\n",
        "- name: mallory\n  reason: spam\n- name: eve\n",
        "\u{feff}- mallory\r\n- eve\r\n",
    ] {
        for entry_type in [EntryType::Strings, EntryType::CaseInsensitiveStrings, EntryType::Regex] {
            assert_eq!(replaced(entry_type, "A\n", body).await, refused, "{entry_type:?} {body}");
        }
    }
    for body in [
        "mallory\n- eve\n",
        "mallory\n",
        "a: b\nc: d\n",
        "-mallory\n",
        "whitelist\n",
        "[mallory\n",
        "urn: example\n",
        "--\n",
    ] {
        for entry_type in [EntryType::Strings, EntryType::Regex] {
            if entry_type == EntryType::Strings || body != "[mallory\n" {
                assert_eq!(replaced(entry_type, "A\n", body).await, "", "{entry_type:?} {body}");
            }
        }
    }
    // A class of characters.
    for (entry_type, why) in [(EntryType::Regex, ""), (EntryType::Strings, refused)] {
        assert_eq!(replaced(entry_type, "A\n", "User: [a-z]\n").await, why);
    }
}

/// Of two lists one would be ignored, and with it its addresses.
#[tokio::test]
async fn a_document_of_addresses_has_one_list() {
    let refused = |why: &str| format!("Could not parse data from URL: {why}");
    let several = "it has several lists: of two documents, the second would be ignored";
    let twice = "it has several lists: `whitelist` occurs more than once";
    let beside =
        |key: &str| format!("it has several lists: `{key}` beside `whitelist`, which is the only one");
    for (body, why) in [
        ("whitelist: [10.0.0.1]\nwhitelist: [10.0.0.2]\n", twice.to_owned()),
        ("{\"whitelist\": [\"10.0.0.1\"], \"whitelist\": [\"10.0.0.2\"]}", twice.to_owned()),
        ("whitelist: [10.0.0.1]\nWhiteList: [10.0.0.2]\n", twice.to_owned()),
        ("WhiteList: [10.0.0.1]\nwhitelist: []\n", twice.to_owned()),
        ("whitelist: [10.0.0.1]\n---\nwhitelist: [10.0.0.2]\n", several.to_owned()),
        ("{\"whitelist\": [\"10.0.0.1\"]}\n{\"whitelist\": [\"10.0.0.2\"]}\n", String::new()),
        ("whitelist: [10.0.0.1]\nblacklist: [10.0.0.2]\n", beside("blacklist")),
        ("whitelist: [10.0.0.1]\nblacklist: 10.0.0.2\n", beside("blacklist")),
        ("whitelist: [10.0.0.1]\nmore:\n  v6: [\"::1\"]\n", beside("more")),
        ("base: &b\n  whitelist: [10.0.0.1]\n<<: *b\nwhitelist: [10.0.0.2]\n", beside("base")),
    ] {
        let error = replaced(EntryType::IpAddresses, "whitelist: [10.9.9.9]", body).await;
        match why.as_str() {
            "" => assert!(error.starts_with("Could not parse data from URL: "), "{body}: {error:?}"),
            _ => assert_eq!(error, refused(&why), "{body}"),
        }
    }
    for body in [
        "whitelist: [10.0.0.1]\nversion: 3\nof: monday\n",
        "---\nwhitelist: [10.0.0.1]\n...\n",
        "{\"WhiteList\": [\"10.0.0.1\"], \"other\": 5, \"last\": null, \"ok\": true}",
    ] {
        assert_eq!(replaced(EntryType::IpAddresses, "whitelist: [10.9.9.9]", body).await, "", "{body}");
    }
}

/// Istio Mixer takes each of them.
#[tokio::test]
async fn as_istio_mixer_documents_are_read_as_they_were() {
    for (entry_type, body, count) in [
        (EntryType::Strings, "whitelist:\n- mallory\n", 2),
        (EntryType::Regex, "- mallory\n", 1),
        (EntryType::IpAddresses, "whitelist: [10.0.0.1]\nwhitelist: [10.0.0.2]\n", 1),
        (EntryType::IpAddresses, "whitelist: [10.0.0.1]\nblacklist: [10.0.0.2]\n", 1),
        (EntryType::IpAddresses, "whitelist: [10.0.0.1]\n---\nwhitelist: [10.0.0.2]\n", 1),
    ] {
        let server = Server::start(&ok(body));
        let env = test_env("h.istio-system");
        env.commons.insert(Arc::new(AdapterOptions { as_istio_mixer: true }));
        let params = Params { entry_type, ..params(server.url()) };
        let handler = ListChecker::build(params, Vec::new(), env).await.unwrap();
        assert_eq!(handler.status().notes, [("entries", count.to_string())], "{body}");
    }
}

/// A handler that is built again with another type of entries.
#[tokio::test]
async fn a_document_of_addresses_is_not_inherited_as_lines() {
    let server = Server::start(&ok("whitelist:\n- 10.0.0.1\n"));
    let env = test_env("h.istio-system");
    let of = |entry_type| Params { entry_type, blacklist: true, ..params(server.url()) };
    let addresses = ListChecker::build(of(EntryType::IpAddresses), Vec::new(), env.clone()).await.unwrap();
    assert_eq!(addresses.degradation(), None);
    *server.answer.lock().unwrap() =
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_vec();
    let lines = ListChecker::build(of(EntryType::Strings), Vec::new(), env).await.unwrap();
    assert_eq!(lines.status().notes, [("entries", "none".to_owned())]);
}

/// Marks of another format, which are part of the entry.
#[test]
fn entries_in_the_form_of_another_format_are_suspicious() {
    let of = |entry: &str, entry_type| content::suspicion(entry.as_bytes(), entry_type);
    for entry_type in [EntryType::Strings, EntryType::CaseInsensitiveStrings] {
        for (entry, why) in [
            ("- mallory", "it begins with `- `, as an item in YAML"),
            ("-", "it begins with `- `, as an item in YAML"),
            ("\"mallory\"", "it is in quotes, which are part of the entry"),
            ("'mallory'", "it is in quotes, which are part of the entry"),
            ("\"mallory\",", "it is in quotes, which are part of the entry"),
            ("mallory # spam", "` #` begins no comment: what follows is part of the entry"),
            ("mallory\t#spam", "` #` begins no comment: what follows is part of the entry"),
            ("mallory,eve", "it has commas: every entry needs a line of its own"),
            ("mallory, eve@example.com", "it has commas: every entry needs a line of its own"),
        ] {
            assert_eq!(of(entry, entry_type).map(|why| why.to_string()).as_deref(), Some(why), "{entry}");
        }
        for entry in [
            "-mallory",
            "\"",
            "'",
            "\"a\" and \"b\"",
            "a#b",
            "# comment",
            "#",
            "CN=mallory,O=example",
            "Mozilla/5.0 (X11; Linux, en)",
            "a,",
            ",",
        ] {
            assert_eq!(of(entry, entry_type), None, "{entry}");
        }
    }
    for (entry, is_suspicious) in
        [("- x", true), ("\"x\"", true), ("x # y", true), ("x #y", false), ("a{1,2}", false), ("a,b", false)]
    {
        assert_eq!(of(entry, EntryType::Regex).is_some(), is_suspicious, "{entry}");
    }
}
