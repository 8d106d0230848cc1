//! Heads of requests and responses: read strictly, edited in place, written without allocation.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::ops::Range;

/// The most header fields that can be read: what a configuration may allow.
const MAX_FIELDS: usize = 1000;

/// Heads that a worker keeps for the next request, and the largest of them, in bytes.
const MAX_SPARE: usize = 64;
const MAX_SPARE_SIZE: usize = 16 << 10;

thread_local! {
    static SPARE: RefCell<Vec<Head>> = const { RefCell::new(Vec::new()) };
}

/// Why a head is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadError {
    /// Not HTTP, or not read the same by every parser.
    Malformed,
    /// HTTP/1.0.
    OldVersion,
    /// Larger than allowed.
    TooLarge,
    /// More fields than allowed.
    TooManyFields,
    /// Contradictory or ambiguous framing of the body.
    Framing,
    /// A transfer coding other than chunked.
    UnknownCoding,
}

/// A header field as ranges of the text.
#[derive(Debug, Clone)]
struct Field {
    name: Range<usize>,
    value: Range<usize>,
    is_removed: bool,
}

/// The start line and the header fields of a message. Reused from message to message: its buffers grow to the largest head.
#[derive(Debug, Clone, Default)]
pub(crate) struct Head {
    text: Vec<u8>,
    fields: Vec<Field>,
    method: Range<usize>,
    path: Range<usize>,
    authority: Range<usize>,
    scheme: Range<usize>,
    /// Of a response; 0 for requests.
    pub(crate) status: u16,
}

/// The methods that Envoy reads; it refuses others.
const METHODS: [&str; 34] = [
    "GET",
    "POST",
    "HEAD",
    "PUT",
    "DELETE",
    "OPTIONS",
    "PATCH",
    "CONNECT",
    "TRACE",
    "ACL",
    "BIND",
    "CHECKOUT",
    "COPY",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MOVE",
    "MSEARCH",
    "NOTIFY",
    "PROPFIND",
    "PROPPATCH",
    "PURGE",
    "REBIND",
    "REPORT",
    "SEARCH",
    "SOURCE",
    "SUBSCRIBE",
    "UNBIND",
    "UNLINK",
    "UNLOCK",
    "UNSUBSCRIBE",
];

/// Finds the end of a head in `input`, of which `scanned` bytes were looked at before.
///
/// Errors: a line ends in a bare LF, or the head has more than `max` bytes without an end.
pub(crate) fn end_of_head(input: &[u8], scanned: &mut usize, max: usize) -> Result<Option<usize>, HeadError> {
    // `scanned` is the start of a line.
    while let Some(length) = memchr::memchr(b'\n', input.get(*scanned..).unwrap_or_default()) {
        let line = input.get(*scanned..*scanned + length).unwrap_or_default();
        let Some((b'\r', content)) = line.split_last() else { return Err(HeadError::Malformed) };
        *scanned += length + 1;
        if *scanned > max {
            return Err(HeadError::TooLarge);
        }
        if content.is_empty() {
            return Ok(Some(*scanned));
        }
        if memchr::memchr(b'\r', content).is_some() {
            return Err(HeadError::Malformed);
        }
    }
    if input.len() > max { Err(HeadError::TooLarge) } else { Ok(None) }
}

/// Characters of tokens: names of methods and header fields.
#[inline]
pub(crate) fn is_token_byte(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'.'
        | b'^' | b'_' | b'`' | b'|' | b'~')
}

/// Whether a text is a host that is not empty, with a port or without.
pub(crate) fn is_authority(text: &[u8]) -> bool {
    let (is_host, port) = match text.strip_prefix(b"[") {
        Some(rest) => {
            let end = memchr::memchr(b']', rest).unwrap_or(0);
            let address = rest.get(..end).unwrap_or_default();
            let is_address = address.iter().all(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.'));
            (is_address && end > 0, rest.get(end + 1..).unwrap_or_default())
        }
        None => {
            let end = memchr::memchr(b':', text).unwrap_or(text.len());
            let (name, port) = text.split_at_checked(end).unwrap_or_default();
            let is_name = name.iter().all(|b| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(b));
            (is_name && end > 0, port)
        }
    };
    is_host
        && match port.split_first() {
            None => true,
            Some((first, digits)) => *first == b':' && digits.iter().all(u8::is_ascii_digit),
        }
}

/// Whether responses with this status have no body, whatever their head says.
pub(crate) fn is_bodiless(status: u16) -> bool {
    matches!(status, 100..=199 | 204 | 304)
}

/// What stands between the values of fields of one name, in lower case, when they are joined.
pub(crate) fn separator(name: &[u8]) -> &'static [u8] {
    if name == b"cookie" { b"; " } else { b"," }
}

impl Head {
    fn clear(&mut self) {
        self.text.clear();
        self.fields.clear();
        self.status = 0;
        for range in [&mut self.method, &mut self.path, &mut self.authority, &mut self.scheme] {
            *range = 0..0;
        }
    }

    /// The memory that it takes.
    pub(crate) fn allocated(&self) -> usize {
        self.text.capacity() + self.fields.capacity() * size_of::<Field>()
    }

    /// Gives the buffers to the worker, for the next request. The head is empty afterwards.
    pub(crate) fn release(&mut self) {
        let mut released = std::mem::take(self);
        let size = released.allocated();
        if size == 0 || size > MAX_SPARE_SIZE {
            return;
        }
        released.clear();
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < MAX_SPARE {
                spare.push(released);
            }
        });
    }

    /// Takes buffers of the worker.
    pub(crate) fn acquire(&mut self) {
        if self.text.capacity() == 0
            && let Some(spare) = SPARE.with_borrow_mut(Vec::pop)
        {
            *self = spare;
        }
    }

    /// Reads the head of a request, which `input` ends with.
    pub(crate) fn read_request(&mut self, input: &[u8], max_fields: usize) -> Result<(), HeadError> {
        self.clear();
        let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
        let mut request = httparse::Request::new(&mut []);
        match request.parse_with_uninit_headers(input, &mut fields) {
            Ok(httparse::Status::Complete(length)) if length == input.len() => {}
            Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooManyFields),
            _ => return Err(HeadError::Malformed),
        }
        let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version)
        else {
            return Err(HeadError::Malformed);
        };
        // Blanks between the parts of the request line, and lines before it, are the only bytes that httparse passes over here.
        let line = method.len() + target.len() + b"  HTTP/1.1\r\n".len();
        if input.get(line - 2..line) != Some(b"\r\n") {
            return Err(HeadError::Malformed);
        }
        if version == 0 {
            return Err(HeadError::OldVersion);
        }
        if !METHODS.contains(&method) {
            return Err(HeadError::Malformed);
        }
        if request.headers.len() > max_fields {
            return Err(HeadError::TooManyFields);
        }
        self.method = self.push(method.as_bytes());
        self.read_target(method, target)?;
        self.read_fields(request.headers)
    }

    /// Reads the head of a response, which `input` ends with. Returns whether it is of HTTP/1.1.
    pub(crate) fn read_response(&mut self, input: &[u8], max_fields: usize) -> Result<bool, HeadError> {
        self.clear();
        let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
        let mut response = httparse::Response::new(&mut []);
        let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut response,
            input,
            &mut fields,
        );
        match parsed {
            Ok(httparse::Status::Complete(length)) if length == input.len() => {}
            Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooManyFields),
            _ => return Err(HeadError::Malformed),
        }
        if !input.starts_with(b"HTTP/1.") || response.headers.len() > max_fields {
            return Err(HeadError::Malformed);
        }
        self.status = response.code.filter(|code| (100..1000).contains(code)).ok_or(HeadError::Malformed)?;
        self.read_fields(response.headers)?;
        Ok(response.version == Some(1))
    }

    fn push(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.text.len();
        self.text.extend_from_slice(bytes);
        start..self.text.len()
    }

    /// Adds a field whose text is a line: neighbours are written at once.
    fn push_line(&mut self, name: &[u8], value: &[u8]) {
        self.text.reserve(name.len() + value.len() + 4);
        let name = self.push(name);
        self.text.extend_from_slice(b": ");
        let value = self.push(value);
        self.text.extend_from_slice(b"\r\n");
        self.fields.push(Field { name, value, is_removed: false });
    }

    /// The request target: a path, `*` of OPTIONS, an authority of CONNECT, or an absolute URL of HTTP.
    fn read_target(&mut self, method: &str, target: &str) -> Result<(), HeadError> {
        if target.bytes().any(|byte| byte <= b' ' || byte >= 0x7f || byte == b'#') {
            return Err(HeadError::Malformed);
        }
        if method == "CONNECT" {
            if !is_authority(target.as_bytes()) {
                return Err(HeadError::Malformed);
            }
            self.authority = self.push(target.as_bytes());
            return Ok(());
        }
        if target.starts_with('/') || (target == "*" && method == "OPTIONS") {
            self.path = self.push(target.as_bytes());
            return Ok(());
        }
        let (scheme, rest) = target.split_once("://").ok_or(HeadError::Malformed)?;
        if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
            return Err(HeadError::Malformed);
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if !is_authority(authority.as_bytes()) {
            return Err(HeadError::Malformed);
        }
        self.scheme = self.push(scheme.to_ascii_lowercase().as_bytes());
        self.authority = self.push(authority.as_bytes());
        let start = self.text.len();
        if !path.starts_with('/') {
            self.text.push(b'/');
        }
        self.text.extend_from_slice(path.as_bytes());
        self.path = start..self.text.len();
        Ok(())
    }

    fn read_fields(&mut self, headers: &[httparse::Header<'_>]) -> Result<(), HeadError> {
        for header in headers {
            if header.name.is_empty() || !header.name.bytes().all(is_token_byte) {
                return Err(HeadError::Malformed);
            }
            self.push_line(header.name.as_bytes(), header.value);
            let name = self.fields.last().map_or(0..0, |field| field.name.clone());
            self.text.get_mut(name).unwrap_or_default().make_ascii_lowercase();
        }
        Ok(())
    }

    fn at(&self, range: &Range<usize>) -> &[u8] {
        self.text.get(range.clone()).unwrap_or_default()
    }

    /// The method of a request.
    pub(crate) fn method(&self) -> &[u8] {
        self.at(&self.method)
    }

    /// The path of a request, with its query.
    pub(crate) fn path(&self) -> &[u8] {
        self.at(&self.path)
    }

    /// The path without its query.
    pub(crate) fn path_without_query(&self) -> &[u8] {
        let path = self.path();
        path.get(..memchr::memchr(b'?', path).unwrap_or(path.len())).unwrap_or(path)
    }

    /// The host that a request names.
    pub(crate) fn authority(&self) -> &[u8] {
        self.at(&self.authority)
    }

    /// The scheme that a request names or was given, in lower case; empty if there is none.
    pub(crate) fn scheme(&self) -> &[u8] {
        self.at(&self.scheme)
    }

    /// Whether the request target named an authority.
    pub(crate) fn has_authority(&self) -> bool {
        !self.authority.is_empty()
    }

    /// Replaces the path.
    pub(crate) fn set_path(&mut self, path: &[u8]) {
        self.path = self.push(path);
    }

    /// Replaces the authority.
    pub(crate) fn set_authority(&mut self, authority: &[u8]) {
        self.authority = self.push(authority);
    }

    /// All fields, in order.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let live = self.fields.iter().filter(|field| !field.is_removed);
        live.map(|field| (self.at(&field.name), self.at(&field.value)))
    }

    /// Bytes of names and values of all fields, those with colons included.
    pub(crate) fn size(&self) -> u64 {
        let pseudo = [":method", ":path", ":authority", ":scheme"];
        let pseudo =
            pseudo.into_iter().filter_map(|name| Some(name.len() + self.pseudo_or_field(name)?.len()));
        let fields = self.fields().map(|(name, value)| name.len() + value.len());
        u64::try_from(pseudo.chain(fields).sum::<usize>()).unwrap_or(u64::MAX)
    }

    /// The number of fields of this name, in lower case.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.fields().filter(|(known, _)| *known == name.as_bytes()).count()
    }

    /// The first field of this name, in lower case.
    pub(crate) fn get(&self, name: &str) -> Option<&[u8]> {
        self.fields().find(|(known, _)| *known == name.as_bytes()).map(|(_, value)| value)
    }

    /// The values of all fields of this name, in lower case, as one.
    pub(crate) fn joined(&self, name: &str) -> Option<Vec<u8>> {
        let fields = self.fields().filter(|(known, _)| *known == name.as_bytes());
        let values: Vec<&[u8]> = fields.map(|(_, value)| value).collect();
        (!values.is_empty()).then(|| values.join(separator(name.as_bytes())))
    }

    /// The elements, without blanks around them, of the lists in all fields of this name. The name is in lower case.
    pub(crate) fn elements(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let values = self.fields().filter(move |(known, _)| *known == name.as_bytes());
        values.flat_map(|(_, value)| value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii))
    }

    /// Whether a list has an element, in any case.
    pub(crate) fn has_element(&self, name: &str, element: &[u8]) -> bool {
        self.elements(name).any(|known| known.eq_ignore_ascii_case(element))
    }

    /// The part of a request that a name stands for, which is empty if there is none; `None` if the name is that of a field. `host` is
    /// another name of `:authority`, as with Envoy.
    fn part(&self, name: &str) -> Option<&[u8]> {
        Some(match name {
            ":method" => self.method(),
            ":path" => self.path(),
            ":authority" => self.authority(),
            "host" if self.status == 0 => self.authority(),
            ":scheme" => match self.at(&self.scheme) {
                b"" if !self.method().is_empty() => b"http",
                scheme => scheme,
            },
            _ => return None,
        })
    }

    /// As [`get`](Self::get); `:method`, `:path`, `:authority` and `:scheme` as well, and `host` for `:authority`.
    pub(crate) fn pseudo_or_field(&self, name: &str) -> Option<&[u8]> {
        match self.part(name) {
            Some(part) => (!part.is_empty()).then_some(part),
            None => self.get(name),
        }
    }

    /// The values of all fields of this name, each by itself; of what is no field as [`pseudo_or_field`](Self::pseudo_or_field).
    pub(crate) fn values<'h>(&'h self, name: &'h str) -> impl Iterator<Item = &'h [u8]> {
        let part = self.part(name);
        let fields = match part {
            Some(_) => &[],
            None => &self.fields[..],
        };
        let fields =
            fields.iter().filter(move |field| !field.is_removed && self.at(&field.name) == name.as_bytes());
        part.filter(|part| !part.is_empty()).into_iter().chain(fields.map(|field| self.at(&field.value)))
    }

    /// Makes one field of those whose name is repeated, with commas between the values. `joins` gives the name if that is wanted.
    pub(crate) fn join_repeated(&mut self, joins: impl Fn(&[u8]) -> Option<&'static str>) {
        // Of names that were seen, by a hash: most names of a head are not repeated.
        let mut seen = 0_u64;
        for index in 0..self.fields.len() {
            let Some(field) = self.fields.get(index).filter(|field| !field.is_removed) else { continue };
            let name = self.at(&field.name);
            let byte = |byte: Option<&u8>| usize::from(byte.copied().unwrap_or(0));
            let hash = byte(name.first()) * 5 + byte(name.last()) * 11 + name.len();
            let bit = 1_u64 << (hash % 64);
            let may_be_repeated = seen & bit != 0;
            seen |= bit;
            if may_be_repeated
                && let Some(name) = joins(name)
                && self.count(name) > 1
                && let Some(joined) = self.joined(name)
            {
                self.set(name, &joined);
            }
        }
    }

    /// Replaces the scheme.
    pub(crate) fn set_scheme(&mut self, scheme: &[u8]) {
        self.scheme = self.push(scheme);
    }

    /// Removes all fields of this name. Returns whether there was one.
    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        let mut found = false;
        for field in &mut self.fields {
            if !field.is_removed && self.text.get(field.name.clone()) == Some(name) {
                field.is_removed = true;
                found = true;
            }
        }
        found
    }

    /// Removes all fields of which `wants` says so by name and value.
    pub(crate) fn remove_where(&mut self, wants: impl Fn(&[u8], &[u8]) -> bool) {
        for field in &mut self.fields {
            let name = self.text.get(field.name.clone()).unwrap_or_default();
            let value = self.text.get(field.value.clone()).unwrap_or_default();
            field.is_removed |= !field.is_removed && wants(name, value);
        }
    }

    /// Adds a field; the name is in lower case.
    pub(crate) fn add(&mut self, name: &str, value: &[u8]) {
        self.push_line(name.as_bytes(), value);
    }

    /// Replaces the first field of this name and removes others; adds it if there is none.
    pub(crate) fn set(&mut self, name: &str, value: &[u8]) {
        let mut is_set = false;
        for field in &mut self.fields {
            if !field.is_removed && self.text.get(field.name.clone()) == Some(name.as_bytes()) {
                if is_set {
                    field.is_removed = true;
                } else {
                    let start = self.text.len();
                    self.text.extend_from_slice(value);
                    field.value = start..self.text.len();
                    is_set = true;
                }
            }
        }
        if !is_set {
            self.push_line(name.as_bytes(), value);
        }
    }

    /// Appends to the fields of this name, which become one, after a comma or what stands for it; adds it if there is none.
    pub(crate) fn append(&mut self, name: &str, value: &[u8]) {
        let Some(before) = self.joined(name) else { return self.add(name, value) };
        let joined = [&before, separator(name.as_bytes()), value].concat();
        self.set(name, &joined);
    }

    /// Makes this a request without fields. The parts were checked.
    pub(crate) fn start_request(&mut self, method: &[u8], path: &[u8], authority: &[u8], scheme: &[u8]) {
        self.clear();
        self.method = self.push(method);
        self.path = self.push(path);
        self.authority = self.push(authority);
        self.scheme = self.push(scheme);
    }

    /// Makes this a response without fields.
    pub(crate) fn start_response(&mut self, status: u16) {
        self.clear();
        self.status = status;
    }

    /// Appends the head of a request to `out`, without the empty line.
    pub(crate) fn write_request(&self, out: &mut impl bytes::BufMut) {
        out.put_slice(self.method());
        out.put_slice(b" ");
        out.put_slice(self.path());
        out.put_slice(b" HTTP/1.1\r\nhost: ");
        out.put_slice(self.authority());
        out.put_slice(b"\r\n");
        self.write_fields(out);
    }

    /// Appends all fields.
    pub(crate) fn write_fields(&self, out: &mut impl bytes::BufMut) {
        // Lines that follow each other in the text are written at once.
        let mut run = 0..0;
        for field in self.fields.iter().filter(|field| !field.is_removed) {
            let is_line = field.value.start == field.name.end + 2;
            if is_line && field.name.start == run.end {
                run.end = field.value.end + 2;
                continue;
            }
            out.put_slice(self.at(&run));
            run = 0..0;
            if is_line {
                run = field.name.start..field.value.end + 2;
                continue;
            }
            out.put_slice(self.at(&field.name));
            out.put_slice(b": ");
            out.put_slice(self.at(&field.value));
            out.put_slice(b"\r\n");
        }
        out.put_slice(self.at(&run));
    }
}
