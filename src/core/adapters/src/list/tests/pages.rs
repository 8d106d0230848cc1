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
