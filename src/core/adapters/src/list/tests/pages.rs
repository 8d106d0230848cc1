//! A page in place of a list: what a proxy, or a login, answers.

use super::*;

fn answer(content_type: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n{content_type}\r\n");
    format!("{head}{body}").into_bytes()
}

#[tokio::test]
async fn a_page_keeps_the_last_list() {
    let page = "<!DOCTYPE html>\n<html>\nSign in\n</html>\n";
    let typed = ": its content type is \"text/html; charset=utf-8\", that of a list text/plain";
    for (content_type, body, how) in [
        ("Content-Type: text/html; charset=utf-8\r\n", page, typed),
        ("Content-Type: text/html; charset=utf-8\r\n", "Sign in\n", typed),
        (
            "content-type: application/XHTML+xml\r\n",
            "a\n",
            ": its content type is \"application/XHTML+xml\", that of a list text/plain",
        ),
        ("Content-Type: text/plain\r\n", page, ""),
        ("", page, ""),
        ("", "\u{feff}\n <HTML lang=en>Sign in", ""),
    ] {
        for entry_type in [EntryType::Strings, EntryType::CaseInsensitiveStrings, EntryType::Regex] {
            let server = Server::start(&answer("Content-Type: text/plain; charset=utf-8\r\n", "A\n"));
            let source = || fetch::ListSource::Url(server.url());
            let (provider, mut refresher) = refresher(source(), entry_type, false);
            assert!(refresher.fetch().await);
            *server.answer.lock().unwrap() = answer(content_type, body);
            assert!(!refresher.fetch().await, "{content_type} {body}");
            let text = format!(
                "could not fetch list from {}: the answer is an HTML page, not a list{how}",
                server.url()
            );
            assert_eq!(
                (length(&provider), &provider.state().error),
                (Some(1), &Some(text)),
                "{content_type} {body}"
            );
            // As Istio Mixer.
            let (provider, accepting) = self::refresher(source(), entry_type, true);
            assert!(accepting.like_istio_mixer().fetch().await);
            assert!(length(&provider).is_some_and(|length| length > 0));
        }
    }
    // What only has an angle bracket is an entry.
    let server = Server::start(&answer("", "<a\n<htm\n"));
    let (provider, mut refresher) =
        refresher(fetch::ListSource::Url(server.url()), EntryType::Strings, false);
    assert!(refresher.fetch().await);
    assert_eq!(length(&provider), Some(2));
}

/// Content that is no list of lines: documents by their type, and whatever they are by their text.
#[tokio::test]
async fn a_document_or_binary_data_keeps_the_last_list() {
    let json = "{\"error\": \"too many requests\"}";
    let xml = "<?xml version=\"1.0\"?>\n<Error/>";
    let refused = |what: &str, type_: &str| match type_ {
        "" => format!("the answer is {what}, not a list"),
        _ => format!(
            "the answer is {what}, not a list: its content type is \"{type_}\", that of a list text/plain"
        ),
    };
    for (content_type, body, why) in [
        ("application/json", "a\n", refused("a JSON document", "application/json")),
        ("application/problem+json", "a\n", refused("a JSON document", "application/problem+json")),
        ("application/xml", xml, refused("an XML document", "application/xml")),
        ("text/plain", json, refused("a JSON document", "")),
        ("text/plain", "[\"mallory\"]", refused("a JSON document", "")),
        ("text/plain", xml, refused("an XML document", "")),
        ("text/plain", "<Error><Code>AccessDenied</Code></Error>", refused("an XML document", "")),
        ("text/plain", "404 page not found\n", refused("an error message", "")),
        ("text/plain", "Not Found", refused("an error message", "")),
        ("text/plain", "Internal Server Error\r\n", refused("an error message", "")),
        ("application/octet-stream", "\u{1f}\0", refused("binary: it has NUL bytes", "")),
    ] {
        let server = Server::start(&answer("Content-Type: text/plain\r\n", "A\n"));
        let source = || fetch::ListSource::Url(server.url());
        let (provider, mut refresher) = refresher(source(), EntryType::Strings, false);
        assert!(refresher.fetch().await);
        *server.answer.lock().unwrap() = answer(&format!("Content-Type: {content_type}\r\n"), body);
        assert!(!refresher.fetch().await, "{content_type} {body}");
        let text = format!("could not fetch list from {}: {why}", server.url());
        assert_eq!((length(&provider), &provider.state().error), (Some(1), &Some(text)));
        let (provider, accepting) = self::refresher(source(), EntryType::Strings, true);
        assert!(accepting.like_istio_mixer().fetch().await);
        assert!(length(&provider).is_some_and(|length| length > 0));
    }
    // A list of addresses is a document.
    let body = "{\"whitelist\": [\"10.0.0.0/8\"]}";
    let server = Server::start(&answer("Content-Type: application/json\r\n", body));
    let source = fetch::ListSource::Url(server.url());
    let (provider, mut refresher) = refresher(source, EntryType::IpAddresses, false);
    assert!(refresher.fetch().await);
    assert_eq!(length(&provider), Some(1));
}

#[tokio::test]
async fn a_file_that_is_no_list_keeps_the_last_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("list");
    let written = path.display().to_string();
    let put = |bytes: &[u8]| {
        let beside = directory.path().join("new");
        std::fs::write(&beside, bytes).unwrap();
        std::fs::rename(&beside, &path).unwrap();
    };
    put(b"mallory\n");
    let source = fetch::ListSource::File(written.clone(), path.clone());
    let (provider, mut refresher) = refresher(source, EntryType::Strings, false);
    assert!(refresher.fetch().await);
    let utf16 = "\u{feff}mallory\n".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    for (bytes, what) in [
        (&[0; 40][..], "binary: it has NUL bytes"),
        (&utf16, "text in UTF-16"),
        (b"\x1f\x8b\x08", "compressed with gzip"),
        (b"[\"mallory\", \"eve\"]\n", "a JSON document"),
        (b"404 page not found\n", "an error message"),
    ] {
        put(bytes);
        assert!(!refresher.fetch().await, "{what}");
        let text = format!("could not fetch list from {written}: the file is {what}, not a list");
        assert_eq!((length(&provider), &provider.state().error), (Some(1), &Some(text)));
    }
    put(b"mallory\neve\n");
    assert!(refresher.fetch().await);
    assert_eq!((length(&provider), &provider.state().error), (Some(2), &None));
}

/// An answer that breaks off is no shorter list.
#[tokio::test]
async fn an_answer_that_breaks_off_keeps_the_last_list() {
    let gzip = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(b"mallory\neve\n").unwrap();
        let body = encoder.finish().unwrap();
        let (half, _) = body.split_at(body.len() / 2);
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            half.len()
        );
        [head.as_bytes(), half].concat()
    };
    let short = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nConnection: close\r\n\r\nmallory\n".to_vec();
    let chunked = |rest: &str| {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n8\r\nmallory\n";
        format!("{head}{rest}").into_bytes()
    };
    for (answer, what) in [
        (short, "a body shorter than its length"),
        (chunked("\r\n"), "a chunked body without its last chunk"),
        (chunked("\r\n4\r\nev"), "half a chunk"),
        (chunked(""), "a chunk without its end"),
        (gzip, "half of a gzip stream"),
    ] {
        for as_istio_mixer in [false, true] {
            let server = Server::start(&ok("mallory\neve\n"));
            let source = fetch::ListSource::Url(server.url());
            let (provider, mut refresher) = refresher(source, EntryType::Strings, false);
            if as_istio_mixer {
                refresher = refresher.like_istio_mixer();
            }
            assert!(refresher.fetch().await, "{what}");
            *server.answer.lock().unwrap() = answer.clone();
            assert!(!refresher.fetch().await, "{what}");
            assert_eq!(length(&provider), Some(2), "{what}");
            let error = provider.state().error.clone().unwrap_or_default();
            assert!(error.starts_with(&format!("Could not read from {}: ", server.url())), "{what}: {error}");
        }
    }
}

/// An entry with a carriage return would match nothing. Istio Mixer keeps it.
#[tokio::test]
async fn the_lines_of_an_answer_may_end_in_cr_lf() {
    let server = Server::start(&ok("\u{feff}a\r\n\r\nb\rc\r\nd\r\ne"));
    let f = Fixture::new(params(server.url())).await;
    let found = ["a", "b\rc", "d", "e", "b", "a\r", ""].map(|symbol| f.has(symbol));
    assert_eq!(found, [true, true, true, true, false, false, false]);
    for entry_type in [EntryType::Strings, EntryType::CaseInsensitiveStrings, EntryType::Regex] {
        let server = Server::start(&ok("a\r\n"));
        for (as_istio_mixer, expected) in [(false, entries::Lookup::Found), (true, entries::Lookup::Missing)]
        {
            let source = fetch::ListSource::Url(server.url());
            let (provider, mut refresher) = refresher(source, entry_type, false);
            if as_istio_mixer {
                refresher = refresher.like_istio_mixer();
            }
            assert!(refresher.fetch().await);
            let entries = provider.state().entries.clone().unwrap();
            assert_eq!(entries.look_up(b"a"), expected, "{entry_type:?}");
        }
    }
}

/// A text that may be a list replaces the one before: that nothing of it is left is told, until the list is fetched once more.
#[tokio::test]
async fn a_list_without_an_entry_of_the_one_before_serves_and_is_told_once() {
    let server = Server::start(&ok("mallory\neve\n"));
    let source = fetch::ListSource::Url(server.url());
    let (provider, mut refresher) = refresher(source, EntryType::Strings, false);
    assert!(refresher.fetch().await);
    assert_eq!(provider.state().trouble(), None);
    server.serve("mallory\nbob\n");
    assert!(refresher.fetch().await);
    assert_eq!(provider.state().trouble(), None);
    server.serve("rate limit exceeded\n");
    assert!(refresher.fetch().await);
    let told = format!(
        "the list from {} has no entry in common with the one before: 2 entries were replaced by 1",
        server.url()
    );
    assert_eq!((length(&provider), provider.state().trouble()), (Some(1), Some(told)));
    assert!(refresher.fetch().await);
    assert_eq!(provider.state().trouble(), None);
    // As Istio Mixer.
    let (provider, accepting) =
        self::refresher(fetch::ListSource::Url(server.url()), EntryType::Strings, false);
    let mut accepting = accepting.like_istio_mixer();
    assert!(accepting.fetch().await);
    server.serve("eve\n");
    assert!(accepting.fetch().await);
    assert_eq!(provider.state().trouble(), None);
}

/// Entries of a list of strings that are patterns, or several; patterns of a whitelist that admit more than they say.
#[test]
fn entries_that_are_patterns_or_rows_are_told() {
    for (entries, entry_type, blacklist, expected) in [
        (&["^eve$"][..], EntryType::Strings, true, 1),
        (&["eve.+", "(eve|mallory)"], EntryType::Strings, true, 2),
        (&["eve mallory", "bob"], EntryType::Strings, true, 1),
        (&["anna smith", "eve jones"], EntryType::Strings, true, 0),
        (&["eve"], EntryType::Regex, true, 0),
        (&["ann"], EntryType::Regex, false, 1),
        (&["^ann$", "example$"], EntryType::Regex, false, 0),
    ] {
        let params = Params { overrides: some(entries), entry_type, blacklist, ..Params::default() };
        let mut problems = Diagnostics::new();
        ListChecker::validate(&params, &[], &mut problems);
        assert_eq!(problems.iter().filter(|d| d.code == "list-entry").count(), expected, "{entries:?}");
    }
}
