use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use super::*;

/// Answers one request, and returns it.
fn answering(listener: TcpListener, answer: String) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut request, mut piece) = (Vec::new(), [0; 4096]);
        while !request.ends_with(b"\r\n\r\n") {
            let length = stream.read(&mut piece).unwrap();
            assert!(length > 0, "the request is whole");
            request.extend_from_slice(&piece[..length]);
        }
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(request).unwrap()
    })
}

#[tokio::test]
async fn a_host_that_is_redirected_to_is_not_told_the_url() {
    let [first, second] = ["127.0.0.1:0", "127.0.0.2:0"].map(|at| TcpListener::bind(at).unwrap());
    let [from, to] = [&first, &second].map(|listener| listener.local_addr().unwrap());
    let moved = format!("HTTP/1.1 302 Found\r\nlocation: http://{to}/list\r\ncontent-length: 0\r\n\r\n");
    let list = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\neve\n".to_owned();
    let (first, second) = (answering(first, moved), answering(second, list));
    let source = ListSource::Url(format!("http://ann:hunter2@{from}/list?token=secret"));
    let fetched = Fetcher::default().fetch(&source, MAX_FETCH_TIME).await;
    assert_eq!(fetched.map(|body| body.bytes).map_err(|error| error.text), Ok(b"eve\n".to_vec()));
    assert!(first.join().unwrap().starts_with("GET /list?token=secret HTTP/1.1\r\n"));
    let told = second.join().unwrap();
    assert!(!["secret", "hunter2", "ann"].iter().any(|text| told.contains(text)), "{told}");
}

/// Of presigned URLs, whose parameters have no names of secrets.
#[tokio::test]
async fn a_signature_in_a_url_is_in_no_text() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let broken = "HTTP/1.1 200 OK\r\ncontent-length: 40\r\n\r\neve\n".to_owned();
    let answer = answering(listener, broken);
    let query = "sv=2&sig=PRIVATE&X-Amz-Signature=PRIVATE";
    let urls = [
        format!("http://{at}/list?{query}"),
        // Nobody listens there any more.
        format!("http://{at}/list?{query}"),
        format!("http://[::1/list?{query}"),
        format!("http://u b/list?{query}"),
        format!("ftp://h/list?{query}"),
        format!("http://h:x/\"?{query}"),
    ];
    for url in urls {
        let source = ListSource::Url(url);
        let fetched = Fetcher::default().fetch(&source, MAX_FETCH_TIME).await;
        let text = fetched.map(|_| String::new()).unwrap_or_else(|error| error.text);
        assert!(text.contains("?sv=***&sig=***&X-Amz-Signature=***"), "{text}");
        assert!(!text.contains("PRIVATE") && !source.name().contains("PRIVATE"), "{text}");
    }
    assert!(answer.join().unwrap().contains("sig=PRIVATE"), "the provider gets it");
}
