//! Reads the body of a request within bounds.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body::Body;
use http_body_util::BodyExt as _;

use mixer_api::grpc::Code;
use mixer_base::budget::{Reservation, Share};

/// Bounds of request bodies.
pub(super) struct BodyLimits {
    /// Memory of the requests of all connections of the server.
    pub(super) memory: Arc<Share>,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The body is too large.
    TooLarge,
    /// The body is broken, or did not arrive in time.
    Incomplete,
    /// There is no memory for it.
    Busy,
}

impl Refusal {
    /// The status of the call, and its answer.
    pub(super) fn answer(self) -> (Code, StatusCode, &'static str) {
        match self {
            Refusal::TooLarge => {
                (Code::InvalidArgument, StatusCode::PAYLOAD_TOO_LARGE, "the body is too large\n")
            }
            Refusal::Incomplete => {
                (Code::InvalidArgument, StatusCode::BAD_REQUEST, "the body is broken or incomplete\n")
            }
            Refusal::Busy => (
                Code::ResourceExhausted,
                StatusCode::SERVICE_UNAVAILABLE,
                "too many requests are being received\n",
            ),
        }
    }
}

impl Refusal {
    /// Why a check is refused, and what to do about it.
    pub(super) fn why(self) -> &'static str {
        match self {
            Refusal::TooLarge => {
                "the body of a check over HTTP has more than 4 MiB; lower with_request_body.max_request_bytes of ext_authz"
            }
            Refusal::Incomplete => "the body of a check over HTTP is broken, or did not arrive in time",
            Refusal::Busy => "no memory is left for another request over HTTP; see --memory-limit",
        }
    }
}

impl BodyLimits {
    /// A body of at most `limit` bytes, and the memory that is reserved for it. `head`: bytes of the request besides.
    pub(super) async fn read<B>(
        &self,
        body: B,
        limit: usize,
        head: usize,
    ) -> Result<(Bytes, Reservation), Refusal>
    where
        B: Body<Data = Bytes>,
    {
        let mut body = std::pin::pin!(body);
        let mut memory = self.memory.reserve(head).ok_or(Refusal::Busy)?;
        let mut whole = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Refusal::Incomplete)?;
            let Ok(data) = frame.into_data() else { continue };
            if whole.len() + data.len() > limit {
                return Err(Refusal::TooLarge);
            }
            if !memory.grow(data.len()) {
                return Err(Refusal::Busy);
            }
            whole.extend_from_slice(&data);
        }
        Ok((whole.freeze(), memory))
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    #[tokio::test]
    async fn bodies_are_bounded_in_bytes_and_memory() {
        let limits = BodyLimits { memory: Arc::new(Share::new(150)) };
        let read = |size: usize| limits.read(Full::new(Bytes::from(vec![b'x'; size])), 100, 0);
        assert_eq!(read(101).await.err(), Some(Refusal::TooLarge));
        let (body, first) = read(100).await.unwrap();
        assert_eq!((body.len(), limits.memory.used()), (100, 100));
        assert_eq!(read(51).await.err(), Some(Refusal::Busy));
        drop(first);
        let head = limits.read(Full::new(Bytes::new()), 100, 151).await;
        assert_eq!(head.err(), Some(Refusal::Busy));
        assert!(read(51).await.is_ok());
        assert_eq!(limits.memory.used(), 0);
    }
}
