//! Lists that a provider compresses.

use std::io::Write as _;
use std::time::Duration;

use super::*;

#[tokio::test]
async fn a_compressed_list_is_decoded_or_refused() {
    let pack = |text: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    };
    let answer = |headers: &str, body: &[u8]| {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n",
            body.len()
        );
        [head.as_bytes(), body].concat()
    };
    let server = Server::start(&answer("Content-Encoding: GZip\r\n", &pack(b"a\nb\n")));
    let source = fetch::ListSource::Url(server.url());
    let mut fetcher = fetch::Fetcher::default();
    let mut fetch = async || {
        let fetched = fetcher.fetch(&source, Duration::from_secs(30)).await;
        fetched.map(|body| body.bytes).map_err(|error| error.text)
    };
    assert_eq!(fetch().await, Ok(b"a\nb\n".to_vec()));
    let serve = |bytes: Vec<u8>| *server.answer.lock().unwrap() = bytes;
    serve(answer("Content-Encoding: identity\r\n", b"a\n"));
    assert_eq!(fetch().await, Ok(b"a\n".to_vec()));
    let url = server.url();
    for (headers, body, error) in [
        ("Content-Encoding: gzip\r\n", b"a\n".to_vec(), format!("Could not read from {url}: gzip: ")),
        (
            "Content-Encoding: gzip\r\n",
            pack(b"a\nb\n")[..12].to_vec(),
            format!("Could not read from {url}: gzip: "),
        ),
        (
            "Content-Encoding: gzip\r\n",
            pack(&vec![b'a'; fetch::MAX_BODY + 1]),
            format!("Could not read from {url}: the list is larger than 16777216 bytes"),
        ),
        (
            "Content-Encoding: br\r\n",
            b"a\n".to_vec(),
            format!("could not fetch list from {url}: the content encoding \"br\" is not supported"),
        ),
        (
            "Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n",
            pack(&pack(b"a\n")),
            format!("could not fetch list from {url}: more than one content encoding is not supported"),
        ),
    ] {
        serve(answer(headers, &body));
        let found = fetch().await.unwrap_err();
        assert!(found.starts_with(&error), "{found}");
    }
}
