//! A strict reading of RFC 9112, written from its grammar: none of the proxy's code, and no parser of a library.
//!
//! Where the standard lets a recipient choose, it refuses: a bare LF ends no line, a value is not unfolded, `Content-Length` beside
//! `Transfer-Encoding`, a repeated length and blanks around chunk extensions are errors. The limits are those of docs/proxy.md.

/// A request as a host receives it: without what concerns one connection, or what proxies add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) host: String,
    /// Sorted.
    pub(crate) fields: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

/// How a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// After a request.
    Clean,
    /// Within a request that is valid so far, or at least was not read far enough to refuse it.
    Incomplete,
    /// With what is no valid request, or one that a proxy answers itself and then closes the connection.
    Refused(&'static str),
    /// After a request that closes the connection; what follows has no meaning.
    Closed,
}

const MAX_HEAD: usize = 60 * 1024;
const MAX_FIELDS: usize = 100;
const MAX_CHUNK_LINE: usize = 256;
const MAX_TRAILERS: usize = 8 * 1024;

/// Methods that are forwarded.
const METHODS: &str = " GET HEAD POST PUT DELETE OPTIONS TRACE PATCH ACL BIND CHECKOUT COPY LINK LOCK MERGE MKACTIVITY MKCALENDAR \
     MKCOL MOVE MSEARCH NOTIFY PROPFIND PROPPATCH PURGE REBIND REPORT SEARCH SOURCE SUBSCRIBE UNBIND UNLINK UNLOCK UNSUBSCRIBE ";

/// Why a request is not complete.
enum Stop {
    More,
    Bad(&'static str),
}

type Read<T> = Result<T, Stop>;

struct Cursor<'s> {
    bytes: &'s [u8],
    at: usize,
}

impl<'s> Cursor<'s> {
    fn rest(&self) -> &'s [u8] {
        &self.bytes[self.at..]
    }

    /// A line that ends in CRLF; it counts against `budget` bytes.
    fn line(&mut self, budget: &mut usize) -> Read<&'s [u8]> {
        let rest = self.rest();
        for (index, byte) in rest.iter().enumerate() {
            if index >= *budget {
                return Err(Stop::Bad("too large"));
            }
            if *byte == b'\n' {
                if index == 0 || rest[index - 1] != b'\r' {
                    return Err(Stop::Bad("bare LF"));
                }
                let line = &rest[..index - 1];
                if line.contains(&b'\r') {
                    return Err(Stop::Bad("bare CR"));
                }
                self.at += index + 1;
                *budget -= index + 1;
                return Ok(line);
            }
        }
        Err(Stop::More)
    }

    fn take(&mut self, count: usize) -> Read<&'s [u8]> {
        let taken = self.rest().get(..count).ok_or(Stop::More)?;
        self.at += count;
        Ok(taken)
    }
}

fn is_tchar(byte: u8) -> bool {
    matches!(byte, b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`'
        | b'|' | b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z')
}

fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| is_tchar(*byte))
}

/// `uri-host [ ":" port ]` with a host that is not empty.
fn is_authority(text: &[u8]) -> bool {
    let (host, rest) = if text.first() == Some(&b'[') {
        let Some(end) = text.iter().position(|byte| *byte == b']') else { return false };
        let inside = &text[1..end];
        let is_literal =
            !inside.is_empty() && inside.iter().all(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.'));
        if !is_literal {
            return false;
        }
        (inside, &text[end + 1..])
    } else {
        text.split_at(text.iter().position(|byte| *byte == b':').unwrap_or(text.len()))
    };
    let is_name = host.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:".contains(byte));
    let is_port = match rest.split_first() {
        None => true,
        Some((b':', port)) => port.iter().all(u8::is_ascii_digit),
        Some(_) => false,
    };
    !host.is_empty() && is_name && is_port
}

fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// `field-name ":" OWS field-value OWS`.
fn field(line: &[u8]) -> Read<(String, Vec<u8>)> {
    let colon = line.iter().position(|byte| *byte == b':').ok_or(Stop::Bad("no colon"))?;
    let (name, value) = (&line[..colon], trim(&line[colon + 1..]));
    if !is_token(name) {
        return Err(Stop::Bad("field name"));
    }
    if value.iter().any(|byte| !matches!(byte, b'\t' | b' '..=b'~' | 0x80..)) {
        return Err(Stop::Bad("field value"));
    }
    Ok((String::from_utf8_lossy(name).to_ascii_lowercase(), value.to_vec()))
}

/// `*( ";" token [ "=" ( token / quoted-string ) ] )`, without blanks.
fn is_chunk_extension(mut text: &[u8]) -> bool {
    while let Some((first, rest)) = text.split_first() {
        if *first != b';' {
            return false;
        }
        let name = rest.iter().take_while(|byte| is_tchar(**byte)).count();
        if name == 0 {
            return false;
        }
        text = &rest[name..];
        let [b'=', value @ ..] = text else { continue };
        if let [b'"', quoted @ ..] = value {
            let mut index = 0;
            loop {
                match quoted.get(index..) {
                    Some([b'"', after @ ..]) => {
                        text = after;
                        break;
                    }
                    Some([b'\\', b'\t' | b' '..=b'~' | 0x80.., ..]) => index += 2,
                    Some([b'\\', ..]) => return false,
                    Some([b'\t' | b' '..=b'~' | 0x80.., ..]) => index += 1,
                    _ => return false,
                }
            }
        } else {
            let count = value.iter().take_while(|byte| is_tchar(**byte)).count();
            if count == 0 {
                return false;
            }
            text = &value[count..];
        }
    }
    true
}

fn chunked(cursor: &mut Cursor<'_>) -> Read<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        // The limit counts the line without its end.
        let line = cursor.line(&mut (MAX_CHUNK_LINE + 2))?;
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        if digits == 0 || digits > 15 || !is_chunk_extension(&line[digits..]) {
            return Err(Stop::Bad("chunk line"));
        }
        let mut size = 0_usize;
        for digit in &line[..digits] {
            size = size * 16 + usize::try_from(char::from(*digit).to_digit(16).unwrap()).unwrap();
        }
        if size == 0 {
            break;
        }
        body.extend_from_slice(cursor.take(size)?);
        match cursor.rest() {
            [b'\r', b'\n', ..] => cursor.at += 2,
            [] | [b'\r'] => return Err(Stop::More),
            _ => return Err(Stop::Bad("chunk end")),
        }
    }
    let mut budget = MAX_TRAILERS;
    let mut lines = Vec::new();
    loop {
        let line = cursor.line(&mut budget)?;
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    lines.into_iter().try_for_each(|line| field(line).map(drop))?;
    Ok(body)
}

/// The path and, of the absolute form, the authority.
fn target<'t>(method: &str, text: &'t str) -> Read<(String, Option<&'t str>)> {
    if !text.bytes().all(|byte| matches!(byte, b'!'..=b'~') && byte != b'#') {
        return Err(Stop::Bad("target"));
    }
    if text.starts_with('/') {
        return Ok((text.to_owned(), None));
    }
    if text == "*" && method == "OPTIONS" {
        return Err(Stop::Bad("answered by the proxy"));
    }
    let (scheme, rest) = text.split_once("://").ok_or(Stop::Bad("target form"))?;
    if !["http", "https"].contains(&scheme.to_ascii_lowercase().as_str()) {
        return Err(Stop::Bad("scheme"));
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if !is_authority(authority.as_bytes()) {
        return Err(Stop::Bad("authority"));
    }
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Ok((path, Some(authority)))
}

fn one(cursor: &mut Cursor<'_>) -> Read<(Request, bool)> {
    let mut budget = MAX_HEAD;
    let start = cursor.line(&mut budget)?;
    let mut lines = Vec::new();
    loop {
        let line = cursor.line(&mut budget)?;
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    let start = std::str::from_utf8(start).map_err(|_| Stop::Bad("request line"))?;
    let [method, target_text, version] = start.split(' ').collect::<Vec<_>>()[..] else {
        return Err(Stop::Bad("request line"));
    };
    if version != "HTTP/1.1" || !is_token(method.as_bytes()) || !METHODS.contains(&format!(" {method} ")) {
        return Err(Stop::Bad("version or method"));
    }
    let (path, authority) = target(method, target_text)?;
    if lines.len() > MAX_FIELDS {
        return Err(Stop::Bad("fields"));
    }
    let fields = lines.into_iter().map(field).collect::<Read<Vec<_>>>()?;
    let all = |name: &str| {
        fields.iter().filter(|(known, _)| known == name).map(|(_, v)| v.clone()).collect::<Vec<_>>()
    };
    let hosts = all("host");
    let [host] = &hosts[..] else { return Err(Stop::Bad("host")) };
    if !is_authority(host) {
        return Err(Stop::Bad("host"));
    }
    let connection: Vec<Vec<u8>> = all("connection")
        .iter()
        .flat_map(|value| {
            value
                .split(|byte| *byte == b',')
                .map(|token| trim(token).to_ascii_lowercase())
                .collect::<Vec<_>>()
        })
        .collect();
    if connection.iter().any(|token| is_end_to_end(token)) {
        return Err(Stop::Bad("connection option"));
    }
    let body = match (&all("content-length")[..], &all("transfer-encoding")[..]) {
        ([], []) => Vec::new(),
        ([length], []) => {
            let is_number = !length.is_empty() && length.len() <= 19 && length.iter().all(u8::is_ascii_digit);
            let text = std::str::from_utf8(length).ok().filter(|_| is_number).ok_or(Stop::Bad("length"))?;
            let length: u64 = text.parse().map_err(|_| Stop::Bad("length"))?;
            refuse_upgrade(&connection, &all("upgrade"))?;
            cursor.take(usize::try_from(length).unwrap_or(usize::MAX))?.to_vec()
        }
        ([], [coding]) if coding.eq_ignore_ascii_case(b"chunked") => {
            refuse_upgrade(&connection, &all("upgrade"))?;
            chunked(cursor)?
        }
        _ => return Err(Stop::Bad("framing")),
    };
    refuse_upgrade(&connection, &all("upgrade"))?;
    let own = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "transfer-encoding",
        "upgrade",
        "expect",
        "te",
        "host",
        "content-length",
        "http2-settings",
        "x-forwarded-proto",
        "x-forwarded-for",
        "x-request-id",
    ];
    let mut fields: Vec<_> = fields
        .into_iter()
        .filter(|(name, _)| !own.contains(&name.as_str()) && !name.starts_with("x-envoy-"))
        .filter(|(name, _)| !connection.iter().any(|token| token == name.as_bytes()))
        .collect();
    // Several fields of these are made one, in their order, which means the same.
    for name in ["accept", "user-agent"] {
        let values: Vec<_> =
            fields.iter().filter(|(known, _)| known == name).map(|(_, value)| value.clone()).collect();
        if values.len() > 1 {
            fields.retain(|(known, _)| known != name);
            fields.push((name.to_owned(), values.join(&b',')));
        }
    }
    fields.sort();
    let host = authority.map_or_else(|| String::from_utf8_lossy(host).into_owned(), str::to_owned);
    let closes = connection.iter().any(|token| token == b"close");
    Ok((Request { method: method.to_owned(), path, host, fields, body }, closes))
}

/// Names that do not concern one connection, and that a proxy relies on.
fn is_end_to_end(name: &[u8]) -> bool {
    ["host", "forwarded", "authorization", "cookie", "x-request-id"]
        .iter()
        .any(|known| known.as_bytes() == name)
        || [":", "x-forwarded-", "x-envoy-", "x-istio-"]
            .iter()
            .any(|prefix| name.starts_with(prefix.as_bytes()))
}

/// No upgrade is configured: the proxy answers one itself, but for that to HTTP/2, which is optional.
fn refuse_upgrade(connection: &[Vec<u8>], upgrade: &[Vec<u8>]) -> Read<()> {
    let is_upgrade = connection.iter().any(|token| token == b"upgrade");
    // Several fields are one.
    let protocol = upgrade.join(&b","[..]);
    match is_upgrade && !upgrade.is_empty() && !protocol.eq_ignore_ascii_case(b"h2c") {
        true => Err(Stop::Bad("upgrade")),
        false => Ok(()),
    }
}

/// All complete requests of a stream, and how it ends.
pub(crate) fn read(stream: &[u8]) -> (Vec<Request>, End) {
    let mut cursor = Cursor { bytes: stream, at: 0 };
    let mut requests = Vec::new();
    loop {
        while cursor.rest().starts_with(b"\r\n") {
            cursor.at += 2;
        }
        if cursor.rest().is_empty() {
            return (requests, End::Clean);
        }
        match one(&mut cursor) {
            Ok((request, closes)) => {
                requests.push(request);
                if closes {
                    return (requests, End::Closed);
                }
            }
            Err(Stop::More) => return (requests, End::Incomplete),
            Err(Stop::Bad(why)) => return (requests, End::Refused(why)),
        }
    }
}
