//! The head of a request: method, target and headers. Spec: RFC 9113 section 8.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header, request};

use super::hpack::{Field, Name};

/// Method, target and headers of a request.
#[derive(Debug)]
pub struct RequestHead {
    parts: request::Parts,
    content_length: Option<u64>,
}

impl RequestHead {
    /// The method.
    pub fn method(&self) -> &Method {
        &self.parts.method
    }

    /// The path of the target.
    pub fn path(&self) -> &str {
        self.parts.uri.path()
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// Bytes of the body, if they were announced.
    pub(super) fn content_length(&self) -> Option<u64> {
        self.content_length
    }

    /// A request of its own with this head.
    pub fn to_request<B>(&self, body: B) -> Request<B> {
        Request::from_parts(self.parts.clone(), body)
    }
}

/// A header block that decodes, but is no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadHead {
    /// It breaks a rule.
    Malformed,
    /// It is larger than this side wants to know.
    TooLarge,
}

/// Gathers the fields of a block.
#[derive(Debug)]
pub(super) struct HeadBuilder {
    /// Bytes of fields that may still come.
    room: usize,
    method: Option<HeaderValue>,
    scheme: Option<HeaderValue>,
    authority: Option<HeaderValue>,
    path: Option<HeaderValue>,
    headers: HeaderMap,
    seen_header: bool,
    problem: Option<BadHead>,
}

impl HeadBuilder {
    pub(super) fn new(max_size: usize) -> Self {
        Self {
            room: max_size,
            method: None,
            scheme: None,
            authority: None,
            path: None,
            headers: HeaderMap::new(),
            seen_header: false,
            problem: None,
        }
    }

    /// Takes one field; what is too much is not kept.
    pub(super) fn add(&mut self, field: &Field) {
        match self.room.checked_sub(field.size) {
            Some(room) => self.room = room,
            None => {
                self.room = 0;
                self.problem = self.problem.or(Some(BadHead::TooLarge));
            }
        }
        if self.problem.is_some() {
            return;
        }
        let Some(value) = &field.value else {
            self.problem = Some(BadHead::Malformed);
            return;
        };
        let place = match &field.name {
            Name::Header(name) => {
                self.seen_header = true;
                if is_of_one_hop(name, value) || self.headers.try_append(name, value.clone()).is_err() {
                    self.problem = Some(BadHead::Malformed);
                }
                return;
            }
            Name::Method => &mut self.method,
            Name::Scheme => &mut self.scheme,
            Name::Authority => &mut self.authority,
            Name::Path => &mut self.path,
            Name::Forbidden => {
                self.problem = Some(BadHead::Malformed);
                return;
            }
        };
        // Pseudo headers come first, each once.
        if self.seen_header || place.replace(value.clone()).is_some() {
            self.problem = Some(BadHead::Malformed);
        }
    }

    /// The head of a request.
    pub(super) fn request(self) -> Result<RequestHead, BadHead> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        self.into_head().ok_or(BadHead::Malformed)
    }

    /// The trailers of a request, which have no pseudo headers.
    pub(super) fn trailers(self) -> Result<HeaderMap, BadHead> {
        let pseudo = [&self.method, &self.scheme, &self.authority, &self.path];
        match self.problem {
            Some(problem) => Err(problem),
            None if pseudo.iter().any(|value| value.is_some()) => Err(BadHead::Malformed),
            None => Ok(self.headers),
        }
    }

    fn into_head(self) -> Option<RequestHead> {
        let method = Method::from_bytes(self.method?.as_bytes()).ok()?;
        let (scheme, path) = (self.scheme?, self.path?);
        // Tunnels have no path; nothing here is one.
        if method == Method::CONNECT || path.is_empty() {
            return None;
        }
        let mut uri = Uri::builder().path_and_query(path.as_bytes());
        if let Some(authority) = self.authority.as_ref().filter(|authority| !authority.is_empty()) {
            uri = uri.scheme(scheme.as_bytes()).authority(authority.as_bytes());
        }
        let content_length = match self.headers.get(header::CONTENT_LENGTH) {
            Some(text) => Some(text.to_str().ok()?.parse().ok()?),
            None => None,
        };
        let mut request = Request::new(());
        *request.method_mut() = method;
        *request.uri_mut() = uri.build().ok()?;
        *request.version_mut() = http::Version::HTTP_2;
        *request.headers_mut() = self.headers;
        Some(RequestHead { parts: request.into_parts().0, content_length })
    }
}

/// Fields that speak of one hop have no place in HTTP/2.
fn is_of_one_hop(name: &HeaderName, value: &HeaderValue) -> bool {
    match *name {
        header::CONNECTION | header::TRANSFER_ENCODING | header::UPGRADE => true,
        header::TE => value != "trailers",
        _ => name == "keep-alive" || name == "proxy-connection",
    }
}

#[cfg(test)]
mod tests {
    use super::super::hpack::Decoder;
    use super::*;

    /// A block of literal fields.
    fn block(fields: &[(&str, &str)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, value) in fields {
            out.extend([0, name.len() as u8]);
            out.extend(name.as_bytes());
            out.push(value.len() as u8);
            out.extend(value.as_bytes());
        }
        out
    }

    fn built(fields: &[(&str, &str)], max_size: usize) -> HeadBuilder {
        let mut builder = HeadBuilder::new(max_size);
        Decoder::new().decode(&block(fields), |field| builder.add(field)).unwrap();
        builder
    }

    const GOOD: [(&str, &str); 4] =
        [(":method", "POST"), (":scheme", "http"), (":path", "/a/b?c"), ("te", "trailers")];

    #[test]
    fn a_request_has_its_pseudo_headers_first_and_once() {
        let head = built(&GOOD, 1000).request().unwrap();
        assert_eq!((head.method(), head.path(), head.headers().len()), (&Method::POST, "/a/b", 1));
        assert_eq!(head.to_request(()).uri(), "/a/b?c");
        let with = |more: &[(&'static str, &'static str)]| {
            let mut fields = GOOD.to_vec();
            fields.splice(3..3, more.iter().copied());
            built(&fields, 1000).request().map(|head| head.to_request(()).uri().to_string())
        };
        assert_eq!(with(&[(":authority", "h:1")]), Ok("http://h:1/a/b?c".to_owned()));
        assert_eq!(with(&[("x", "1"), ("x", "2")]), Ok("/a/b?c".to_owned()));
        for bad in [
            &[("x", "1"), (":authority", "h")][..],
            &[(":method", "GET")],
            &[(":status", "200")],
            &[(":other", "")],
            &[("Upper", "")],
            &[("bad name", "")],
            &[("x", "a\nb")],
            &[("connection", "close")],
            &[("transfer-encoding", "chunked")],
            &[("keep-alive", "1")],
            &[("te", "gzip")],
            &[(":authority", "a b")],
            &[("content-length", "x")],
        ] {
            assert_eq!(with(bad), Err(BadHead::Malformed), "{bad:?}");
        }
        for missing in 0..3 {
            let mut fields = GOOD.to_vec();
            fields.remove(missing);
            assert_eq!(built(&fields, 1000).request().unwrap_err(), BadHead::Malformed);
        }
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        let many: Vec<(&str, &str)> = GOOD.into_iter().chain([("x", "y"); 100]).collect();
        let builder = built(&many, 500);
        assert!(builder.headers.len() < 12);
        assert_eq!(builder.request().unwrap_err(), BadHead::TooLarge);
    }

    #[test]
    fn trailers_have_no_pseudo_headers() {
        assert_eq!(built(&[("grpc-status", "0")], 100).trailers().unwrap().len(), 1);
        assert_eq!(built(&[(":path", "/")], 100).trailers().unwrap_err(), BadHead::Malformed);
    }
}
