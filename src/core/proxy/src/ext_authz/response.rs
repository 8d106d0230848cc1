//! What the answer of an authorization server means.

use mixer_wire::envoy::config::core::v3::HeaderValueOption;
use mixer_wire::envoy::service::auth::v3::check_response::HttpResponse;
use mixer_wire::envoy::service::auth::v3::{CheckResponse, DeniedHttpResponse, OkHttpResponse};

use crate::head::Head;
use crate::header_changes::{Change, Manner, Unwritable, edit_request};

/// Who asks for changes of headers, in the log.
const BY: &str = "ext_authz";

/// What the server decided.
#[derive(Debug)]
pub(crate) enum Decision {
    Allowed(Box<Grant>),
    Denied(Denial),
    /// It did not decide.
    Failed(Denial),
    /// It was not asked: there is no memory for the call.
    NoMemory,
}

/// What is changed of a request that passes, and of its response.
#[derive(Debug, Default)]
pub(crate) struct Grant {
    request: Vec<Change>,
    remove: Vec<Change>,
    response: Vec<Change>,
    query_set: Vec<(String, String)>,
    query_remove: Vec<String>,
}

/// The answer to a request that does not pass.
#[derive(Debug, Default)]
pub(crate) struct Denial {
    /// `None` for the default.
    pub(crate) status: Option<u16>,
    pub(crate) body: String,
    headers: Vec<Change>,
}

impl Decision {
    /// The decision of an answer. Without a status it is allowed, as with Envoy: that is how the message says OK.
    pub(super) fn of(answer: CheckResponse) -> Self {
        let is_ok = answer.status.as_ref().is_none_or(|status| status.code == 0);
        match (is_ok, answer.http_response) {
            (true, Some(HttpResponse::OkResponse(ok))) => Decision::Allowed(Box::new(Grant::of(ok))),
            (true, _) => Decision::Allowed(Box::default()),
            (false, Some(HttpResponse::ErrorResponse(denied))) => Decision::Failed(Denial::of(denied)),
            (false, Some(HttpResponse::DeniedResponse(denied))) => Decision::Denied(Denial::of(denied)),
            (false, _) => Decision::Denied(Denial::default()),
        }
    }
}

impl Grant {
    fn of(ok: OkHttpResponse) -> Self {
        let removed = |name: String| {
            let name = name.to_ascii_lowercase();
            // Without them there is no request: Envoy leaves them, too.
            let is_needed = name.starts_with(':') || name == "host";
            (!is_needed).then(|| Change { name, value: Vec::new(), manner: Manner::Remove })
        };
        Self {
            request: ok.headers.into_iter().filter_map(of_request).collect(),
            remove: ok.headers_to_remove.into_iter().filter_map(removed).collect(),
            response: ok.response_headers_to_add.into_iter().filter_map(of_response).collect(),
            query_set: ok.query_parameters_to_set.into_iter().map(|set| (set.key, set.value)).collect(),
            query_remove: ok.query_parameters_to_remove,
        }
    }

    /// Whether the request is changed.
    pub(super) fn changes_request(&self) -> bool {
        !self.request.is_empty()
            || !self.remove.is_empty()
            || !self.query_set.is_empty()
            || !self.query_remove.is_empty()
    }

    /// Whether the response is changed.
    pub(crate) fn changes_response(&self) -> bool {
        !self.response.is_empty()
    }

    /// Tells the host that nobody decided.
    pub(super) fn say_failed(&mut self) {
        let name = "x-envoy-auth-failure-mode-allowed".to_owned();
        self.request.push(Change { name, value: b"true".to_vec(), manner: Manner::Add });
    }

    /// Changes the head of the request.
    ///
    /// Errors: a change cannot be written.
    pub(crate) fn edit_request(&self, head: &mut Head) -> Result<(), Unwritable> {
        edit_request(self.request.iter().chain(&self.remove), head, BY)?;
        if self.query_set.is_empty() && self.query_remove.is_empty() {
            return Ok(());
        }
        let value = self.path(head.path());
        edit_request([&Change { name: ":path".to_owned(), value, manner: Manner::Set }], head, BY)
    }

    /// Changes the head of a response.
    pub(crate) fn edit_response(&self, head: &mut Head) {
        apply_all(&self.response, head);
    }

    /// The path with other query parameters. As with Envoy they are sorted by name then.
    fn path(&self, path: &[u8]) -> Vec<u8> {
        // Escaped, so that the change can always be written.
        let escaped = |text: &String| -> Vec<u8> { text.bytes().flat_map(escaped).collect() };
        let set: Vec<(Vec<u8>, Vec<u8>)> =
            self.query_set.iter().map(|(name, value)| (escaped(name), escaped(value))).collect();
        let removed: Vec<Vec<u8>> = self.query_remove.iter().map(escaped).collect();
        let split = |text: &'_ [u8], at: u8| -> Option<(Vec<u8>, Vec<u8>)> {
            let place = memchr::memchr(at, text)?;
            Some((text.get(..place)?.to_vec(), text.get(place + 1..)?.to_vec()))
        };
        let (plain, query) = split(path, b'?').unwrap_or((path.to_vec(), Vec::new()));
        let mut parameters: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for pair in query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
            parameters.push(split(pair, b'=').unwrap_or((pair.to_vec(), Vec::new())));
        }
        for (name, value) in set {
            parameters.retain(|(known, _)| *known != name);
            parameters.push((name, value));
        }
        parameters.retain(|(known, _)| !removed.contains(known));
        parameters.sort_by(|(one, _), (other, _)| one.cmp(other));
        let pairs: Vec<Vec<u8>> =
            parameters.into_iter().map(|(name, value)| [name, value].join(&b'=')).collect();
        match pairs.is_empty() {
            true => plain,
            false => [plain, pairs.join(&b'&')].join(&b'?'),
        }
    }
}

/// A byte of a name or a value of a query, escaped if no query has it. What the server has escaped stays as it is.
fn escaped(byte: u8) -> Vec<u8> {
    match byte {
        b'!'..=b'~' if byte != b'#' => vec![byte],
        _ => format!("%{byte:02X}").into_bytes(),
    }
}

impl Denial {
    fn of(denied: DeniedHttpResponse) -> Self {
        let code = denied.status.map_or(0, |status| status.code);
        Self {
            // What is no status of a response is left to the default.
            status: u16::try_from(code).ok().filter(|code| (200..600).contains(code)),
            body: denied.body,
            headers: denied.headers.into_iter().filter_map(of_denial).collect(),
        }
    }

    /// Changes the head of the response.
    pub(crate) fn edit(&self, head: &mut Head) {
        // They override what is there, and may be several of a name.
        for change in &self.headers {
            let removal = Change { value: Vec::new(), manner: Manner::Remove, ..change.clone() };
            removal.apply(head);
        }
        apply_all(&self.headers, head);
    }
}

fn apply_all(changes: &[Change], head: &mut Head) {
    for change in changes {
        if !change.apply(head) {
            change.report_invalid(BY);
        }
    }
}

/// A change of a header of the request, as Envoy makes it: it is replaced, unless the deprecated `append` says otherwise.
fn of_request(option: HeaderValueOption) -> Option<Change> {
    let manner = if option.append == Some(true) { Manner::Join } else { Manner::Set };
    change(option, manner)
}

/// A change of a header of the response, as Envoy makes it; the deprecated `append` counts first.
fn of_response(option: HeaderValueOption) -> Option<Change> {
    let manner = match (option.append, option.append_action) {
        (Some(true), _) | (None, 0) => Manner::Add,
        (None, 1) => Manner::AddIfAbsent,
        (None, 3) => Manner::SetIfPresent,
        (Some(false) | None, _) => Manner::Set,
    };
    change(option, manner)
}

/// A header of a refusal, as Envoy makes it: all are added but those that are to be appended.
fn of_denial(option: HeaderValueOption) -> Option<Change> {
    if option.append == Some(true) { None } else { change(option, Manner::Add) }
}

fn change(option: HeaderValueOption, manner: Manner) -> Option<Change> {
    let header = option.header?;
    let value = if header.value.is_empty() { header.raw_value.to_vec() } else { header.value.into() };
    Some(Change { name: header.key.to_ascii_lowercase(), value, manner })
}
