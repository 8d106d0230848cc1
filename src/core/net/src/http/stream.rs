//! Responses that are made while they are sent.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use tokio::sync::mpsc;

use mixer_base::task::Group;

use super::{accepts_gzip, answer};

/// Compressed bytes that are gathered before they are sent.
const MIN_PART: usize = 16 << 10;
/// Longest time for which a client may read nothing.
const PART_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time for the whole response.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A response whose body is the concatenation of `chunks`, compressed if the client accepts gzip. A chunk is made once the client has read
/// the ones before, so that a response holds about two chunks. A client that reads nothing for 10 s, or not everything within 60 s, is
/// disconnected; `chunks` is dropped then.
pub fn streamed(
    request: &HeaderMap,
    content_type: &'static str,
    chunks: impl Iterator<Item = Vec<u8>> + Send + 'static,
) -> Response {
    let (sender, receiver) = mpsc::channel(1);
    let is_packed = accepts_gzip(request);
    let is_cut = Arc::new(AtomicBool::new(false));
    let cut = Arc::clone(&is_cut);
    static RESPONSES: OnceLock<Group> = OnceLock::new();
    RESPONSES.get_or_init(|| Group::new("streamed response")).spawn(async move {
        let sent = tokio::time::timeout(TIMEOUT, send(chunks, is_packed, &sender)).await;
        cut.store(!matches!(sent, Ok(Ok(()))), Ordering::Release);
        drop(sender);
    });
    let body = futures_util::stream::unfold((receiver, is_cut), async |(mut receiver, is_cut)| {
        match receiver.recv().await {
            Some(part) => Some((Ok(part), (receiver, is_cut))),
            // An error closes the connection: what was sent must not pass for the whole.
            None if is_cut.swap(false, Ordering::Acquire) => {
                Some((Err(io::Error::from(io::ErrorKind::TimedOut)), (receiver, is_cut)))
            }
            None => None,
        }
    });
    let mut response = answer(StatusCode::OK, content_type, Body::from_stream(body));
    if is_packed {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

async fn send(
    chunks: impl Iterator<Item = Vec<u8>>,
    is_packed: bool,
    sender: &mpsc::Sender<Vec<u8>>,
) -> io::Result<()> {
    let mut encoder = is_packed.then(|| GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for chunk in chunks {
        mixer_base::scheduling::let_others_run();
        let part = match &mut encoder {
            None => chunk,
            Some(encoder) => {
                encoder.write_all(&chunk)?;
                if encoder.get_ref().len() < MIN_PART {
                    continue;
                }
                std::mem::take(encoder.get_mut())
            }
        };
        send_part(part, sender).await?;
    }
    match encoder {
        Some(encoder) => send_part(encoder.finish()?, sender).await,
        None => Ok(()),
    }
}

async fn send_part(part: Vec<u8>, sender: &mpsc::Sender<Vec<u8>>) -> io::Result<()> {
    let sent = sender.send_timeout(part, PART_TIMEOUT).await;
    sent.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::sync::atomic::AtomicUsize;

    use http_body_util::BodyExt as _;

    use super::*;

    fn gzip() -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"))])
    }

    #[tokio::test]
    async fn chunks_are_sent_in_order() {
        let chunks = || (0..200_u8).map(|n| vec![n; 1000]);
        let expected: Vec<u8> = chunks().flatten().collect();
        let plain = streamed(&HeaderMap::new(), "text/plain", chunks());
        assert_eq!(plain.into_body().collect().await.unwrap().to_bytes(), expected);
        let packed = streamed(&gzip(), "text/plain", chunks());
        assert_eq!(packed.headers()[header::CONTENT_ENCODING], "gzip");
        let packed = packed.into_body().collect().await.unwrap().to_bytes();
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_cut_off() {
        let made = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&made);
        let chunks = std::iter::repeat_with(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            vec![0; 1000]
        });
        let mut body = streamed(&HeaderMap::new(), "text/plain", chunks).into_body();
        tokio::time::sleep(TIMEOUT * 2).await;
        assert_eq!((made.load(Ordering::Relaxed), Arc::strong_count(&made)), (2, 1), "the source is dropped");
        assert!(body.frame().await.unwrap().is_ok());
        assert!(body.frame().await.unwrap().is_err(), "the response is not complete");
    }
}
