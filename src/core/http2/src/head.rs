//! Request header sections. Spec: RFC 9113 section 8.

use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header, request};

use super::hpack::{Field, Name};

/// Method, target and headers of a request.
#[derive(Debug)]
pub struct RequestHead {
    parts: request::Parts,
    content_length: Option<u64>,
    memory: usize,
}

/// Most fields of a head, as in Envoy. A field costs more memory than SETTINGS_MAX_HEADER_LIST_SIZE counts for it.
const MAX_FIELDS: usize = 100;
/// Memory of a field in a header map besides name and value, in bytes.
const FIELD_MEMORY: usize = 104;

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

    /// Bytes of memory, about.
    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    /// The value of content-length.
    pub(super) fn content_length(&self) -> Option<u64> {
        self.content_length
    }

    /// An owned request with a copy of this head.
    pub fn to_request<B>(&self, body: B) -> Request<B> {
        Request::from_parts(self.parts.clone(), body)
    }
}

/// A header section that decodes but is not a valid request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InvalidHead {
    /// Malformed. Spec: RFC 9113 section 8.1.1.
    Malformed,
    /// Larger than SETTINGS_MAX_HEADER_LIST_SIZE, or with too many fields.
    TooLarge,
}

/// Collects the field lines of a header block.
#[derive(Debug)]
pub(super) struct HeadBuilder {
    /// Remaining bytes of SETTINGS_MAX_HEADER_LIST_SIZE.
    room: usize,
    max_size: usize,
    fields: usize,
    method: Option<HeaderValue>,
    scheme: Option<HeaderValue>,
    authority: Option<HeaderValue>,
    path: Option<HeaderValue>,
    headers: HeaderMap,
    has_regular_field: bool,
    problem: Option<InvalidHead>,
}

impl HeadBuilder {
    pub(super) fn new(max_size: usize) -> Self {
        Self {
            room: max_size,
            max_size,
            fields: 0,
            method: None,
            scheme: None,
            authority: None,
            path: None,
            headers: HeaderMap::new(),
            has_regular_field: false,
            problem: None,
        }
    }

    /// Adds a field line. Lines beyond the limit are not stored.
    pub(super) fn add(&mut self, field: &Field) {
        self.fields += 1;
        match self.room.checked_sub(field.size) {
            Some(room) if self.fields <= MAX_FIELDS => self.room = room,
            _ => {
                self.room = 0;
                self.problem = self.problem.or(Some(InvalidHead::TooLarge));
            }
        }
        if self.problem.is_some() {
            return;
        }
        let Some(value) = &field.value else {
            self.problem = Some(InvalidHead::Malformed);
            return;
        };
        let pseudo = match &field.name {
            Name::Header(name) => {
                self.has_regular_field = true;
                if is_connection_specific(name, value)
                    || self.headers.try_append(name, value.clone()).is_err()
                {
                    self.problem = Some(InvalidHead::Malformed);
                }
                return;
            }
            Name::Method => &mut self.method,
            Name::Scheme => &mut self.scheme,
            Name::Authority => &mut self.authority,
            Name::Path => &mut self.path,
            Name::Forbidden => {
                self.problem = Some(InvalidHead::Malformed);
                return;
            }
        };
        // Pseudo-header fields come first, each once.
        if self.has_regular_field || pseudo.replace(value.clone()).is_some() {
            self.problem = Some(InvalidHead::Malformed);
        }
    }

    /// The head of a request. Errors: malformed or too large.
    pub(super) fn request(self) -> Result<RequestHead, InvalidHead> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        self.into_head().ok_or(InvalidHead::Malformed)
    }

    /// The trailer section of a request. Errors: as for requests; pseudo-header fields are malformed here.
    pub(super) fn trailers(self) -> Result<HeaderMap, InvalidHead> {
        let pseudo = [&self.method, &self.scheme, &self.authority, &self.path];
        match self.problem {
            Some(problem) => Err(problem),
            None if pseudo.iter().any(|value| value.is_some()) => Err(InvalidHead::Malformed),
            None => Ok(self.headers),
        }
    }

    fn into_head(self) -> Option<RequestHead> {
        let method = Method::from_bytes(self.method?.as_bytes()).ok()?;
        let (scheme, path) = (self.scheme?, self.path?);
        // CONNECT is not supported.
        if method == Method::CONNECT || path.is_empty() {
            return None;
        }
        let mut uri = Uri::builder().path_and_query(path.as_bytes());
        if let Some(authority) = self.authority.as_ref().filter(|authority| !authority.is_empty()) {
            match Authority::try_from(authority.as_bytes()) {
                Ok(authority) => uri = uri.scheme(scheme.as_bytes()).authority(authority),
                // A name that the crate does not take, such as the path of a Unix socket from clients of gRPC's C core. Nobody asks for it.
                Err(_) if is_authority(authority.as_bytes()) => {}
                Err(_) => return None,
            }
        }
        let memory = self.max_size - self.room + self.fields * FIELD_MEMORY;
        let content_length = content_length(&self.headers)?;
        let mut request = Request::new(());
        *request.method_mut() = method;
        *request.uri_mut() = uri.build().ok()?;
        *request.version_mut() = http::Version::HTTP_2;
        *request.headers_mut() = self.headers;
        Some(RequestHead { parts: request.into_parts().0, content_length, memory })
    }
}

/// Whether these are characters of an authority, escapes among them. Spec: RFC 3986 section 3.2.
fn is_authority(bytes: &[u8]) -> bool {
    let mut parts = bytes.split(|byte| *byte == b'%');
    let is_plain = |part: &[u8]| {
        part.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@[]".contains(byte))
    };
    parts.next().is_some_and(is_plain)
        && parts.all(|part| {
            part.split_at_checked(2)
                .is_some_and(|(digits, rest)| digits.iter().all(u8::is_ascii_hexdigit) && is_plain(rest))
        })
}

/// The value of content-length, if there is one; `None` if it is no number, or if two lengths differ. Spec: RFC 9110 section 8.6.
fn content_length(headers: &HeaderMap) -> Option<Option<u64>> {
    let mut found = None;
    for value in headers.get_all(header::CONTENT_LENGTH) {
        let text = value.to_str().ok()?;
        // `parse` accepts a sign.
        let length: u64 = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())??;
        if found.replace(length).is_some_and(|other| other != length) {
            return None;
        }
    }
    Some(found)
}

/// Connection-specific fields are malformed. Spec: RFC 9113 section 8.2.2.
fn is_connection_specific(name: &HeaderName, value: &HeaderValue) -> bool {
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

    /// A block of literal field lines.
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
    fn pseudo_headers_come_first_and_once() {
        let head = built(&GOOD, 1000).request().unwrap();
        assert_eq!((head.method(), head.path(), head.headers().len()), (&Method::POST, "/a/b", 1));
        assert_eq!(head.to_request(()).uri(), "/a/b?c");
        let with = |more: &[(&'static str, &'static str)]| {
            let mut fields = GOOD.to_vec();
            fields.splice(3..3, more.iter().copied());
            built(&fields, 1000).request().map(|head| head.to_request(()).uri().to_string())
        };
        assert_eq!(with(&[(":authority", "h:1")]), Ok("http://h:1/a/b?c".to_owned()));
        // The path of a Unix socket, as clients of gRPC's C core send it.
        assert_eq!(with(&[(":authority", "run%2Fapi.sock")]), Ok("/a/b?c".to_owned()));
        assert_eq!(with(&[("x", "1"), ("x", "2")]), Ok("/a/b?c".to_owned()));
        assert_eq!(with(&[("content-length", "5"), ("content-length", "05")]), Ok("/a/b?c".to_owned()));
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
            &[(":authority", "a%2")],
            &[(":authority", "a%zz")],
            &[(":authority", "a%2Fb/c")],
            &[(":authority", "a%2Fb\\")],
            &[("content-length", "x")],
            &[("content-length", "")],
            &[("content-length", "+5")],
            &[("content-length", "-5")],
            &[("content-length", "5, 5")],
            &[("content-length", "5"), ("content-length", "6")],
        ] {
            assert_eq!(with(bad), Err(InvalidHead::Malformed), "{bad:?}");
        }
        for missing in 0..3 {
            let mut fields = GOOD.to_vec();
            fields.remove(missing);
            assert_eq!(built(&fields, 1000).request().unwrap_err(), InvalidHead::Malformed);
        }
    }

    #[test]
    fn oversized_header_lists_are_not_stored() {
        let many: Vec<(&str, &str)> = GOOD.into_iter().chain([("x", "y"); 100]).collect();
        let builder = built(&many, 500);
        assert!(builder.headers.len() < 12);
        assert_eq!(builder.request().unwrap_err(), InvalidHead::TooLarge);
    }

    #[test]
    fn the_number_of_fields_is_bounded() {
        let with = |count: usize| {
            let many: Vec<(&str, &str)> =
                GOOD.into_iter().chain(std::iter::repeat_n(("x", ""), count)).collect();
            built(&many, 64 << 10).request()
        };
        let head = with(MAX_FIELDS - GOOD.len()).unwrap();
        assert_eq!(head.headers().len(), MAX_FIELDS - 3, "pseudo-header fields are no header fields");
        assert!(head.memory() > MAX_FIELDS * FIELD_MEMORY);
        assert_eq!(with(MAX_FIELDS - GOOD.len() + 1).unwrap_err(), InvalidHead::TooLarge);
    }

    #[test]
    fn trailers_have_no_pseudo_headers() {
        assert_eq!(built(&[("grpc-status", "0")], 100).trailers().unwrap().len(), 1);
        assert_eq!(built(&[(":path", "/")], 100).trailers().unwrap_err(), InvalidHead::Malformed);
    }
}
