//! The small HTTP servers that show things: answers as the originals give them, and serving until told to stop.

use std::io::{self, Write as _};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Texts smaller than this are not worth compressing.
const GZIP_FROM: usize = 1024;

/// An answer with this body.
pub fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// What every unknown path gets.
pub fn not_found() -> Response {
    let mut response = answer(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "404 page not found\n");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// An answer that is compressed if the caller asked for it.
pub fn compressible(request: &HeaderMap, content_type: &'static str, body: Vec<u8>) -> Response {
    if body.len() < GZIP_FROM || !accepts_gzip(request) {
        return answer(StatusCode::OK, content_type, body);
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    match encoder.write_all(&body).and_then(|()| encoder.finish()) {
        Ok(packed) => {
            let mut response = answer(StatusCode::OK, content_type, packed);
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            response
        }
        // Writing to memory does not fail; if it did, plain text is as good.
        Err(_) => answer(StatusCode::OK, content_type, body),
    }
}

/// Whether an `Accept-Encoding` names gzip, other than to refuse it.
fn accepts_gzip(request: &HeaderMap) -> bool {
    let values = request.get_all(header::ACCEPT_ENCODING).iter().filter_map(|v| v.to_str().ok());
    values.flat_map(|v| v.split(',')).any(|part| {
        let mut words = part.split(';').map(str::trim);
        let named = words.next().is_some_and(|w| w.eq_ignore_ascii_case("gzip"));
        let refused =
            words.any(|w| w.strip_prefix("q=").and_then(|q| q.parse::<f64>().ok()).is_some_and(|q| q <= 0.0));
        named && !refused
    })
}

/// Serves `routes` until `stop`, then lets requests in flight end for `grace`. Unknown paths get [`not_found`].
pub async fn serve(
    listener: TcpListener,
    routes: Router,
    stop: CancellationToken,
    grace: Duration,
) -> io::Result<()> {
    let routes = routes.fallback(async || not_found());
    let serving = axum::serve(listener, routes).with_graceful_shutdown(stop.clone().cancelled_owned());
    tokio::select! {
        result = serving => result,
        () = async {
            stop.cancelled().await;
            tokio::time::sleep(grace).await;
        } => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_used_when_asked_for() {
        let response = |accept: &'static str, size: usize| {
            let mut request = HeaderMap::new();
            request.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(accept));
            compressible(&request, "text/plain", vec![b'a'; size])
                .headers()
                .contains_key(header::CONTENT_ENCODING)
        };
        assert!(response("gzip", 5000));
        assert!(response("deflate, GZIP;q=0.5", 5000));
        assert!(!response("gzip", 10));
        for refused in ["", "identity", "gzip;q=0", "gzip; q=0.0", "xgzip"] {
            assert!(!response(refused, 5000), "{refused}");
        }
    }
}
