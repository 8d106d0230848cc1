//! Access control of ControlZ: Host, origin, token and read-only mode.
//!
//! Against DNS rebinding, `Host` must be an IP address, `localhost` or a configured name. Against cross-site requests, a request that
//! changes state must come from a page of this server or from a client that is not a browser.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use mixer_net::http::{has_known_host, is_cross_site};

use super::{SharedConsole, page};

/// Name of the cookie with the token.
const COOKIE: &str = "ctrlz_token";

/// The Content-Security-Policy: only files of this server.
const CONTENT_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The access rules of an endpoint.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    /// Allowed names in `Host` besides IP addresses and `localhost`, lower case.
    pub hosts: Vec<String>,
    /// The token that requests must carry, if any.
    pub token: Option<String>,
    /// Refuses requests that change state.
    pub read_only: bool,
    /// Whether secrets of the environment may be revealed.
    pub may_reveal: bool,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The name in `Host` is not allowed.
    Host,
    /// Cross-site request.
    CrossSite,
    /// The endpoint is read-only.
    ReadOnly,
    /// The token is missing or wrong.
    Token,
}

impl Refusal {
    fn answer(self) -> (StatusCode, &'static str) {
        match self {
            Refusal::Host => (
                StatusCode::MISDIRECTED_REQUEST,
                "this server is not known under that name; add it with --ctrlz-allowed-hosts\n",
            ),
            Refusal::CrossSite => {
                (StatusCode::FORBIDDEN, "changes are taken from pages of this server only\n")
            }
            Refusal::ReadOnly => (
                StatusCode::FORBIDDEN,
                "this server was started with --ctrlz-readonly: nothing can be changed\n",
            ),
            Refusal::Token => (StatusCode::UNAUTHORIZED, "a token is needed: Authorization: Bearer TOKEN\n"),
        }
    }
}

impl Guard {
    /// Checks a request.
    pub(super) fn check(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<(), Refusal> {
        if !has_known_host(headers, &self.hosts) {
            return Err(Refusal::Host);
        }
        let changes = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        if changes && is_cross_site(headers) {
            return Err(Refusal::CrossSite);
        }
        // Style sheet, script and sign-in form are public.
        let open = path.starts_with("/assets/") || path == "/login";
        if !open && !self.knows_token(headers) {
            return Err(Refusal::Token);
        }
        // Explain calls handlers but changes no state.
        let harmless = matches!(path, "/login" | "/explainz/");
        if changes && self.read_only && !harmless {
            return Err(Refusal::ReadOnly);
        }
        Ok(())
    }

    fn knows_token(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let text = |name| headers.get(name).and_then(|v: &HeaderValue| v.to_str().ok());
        // The scheme is case-insensitive. Spec: RFC 9110 section 11.1.
        let bearer = text(header::AUTHORIZATION)
            .and_then(|v| v.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token);
        let mut cookies = headers.get_all(header::COOKIE).iter().filter_map(|v| v.to_str().ok());
        bearer.is_some_and(|given| same(given.trim(), token))
            || cookies
                .by_ref()
                .flat_map(|list| list.split(';'))
                .filter_map(|pair| pair.trim().split_once('='))
                .any(|(name, given)| name == COOKIE && same(given, &cookie_value(token)))
    }

    /// The Set-Cookie value if the token is right.
    pub(super) fn log_in(&self, given: &str) -> Option<HeaderValue> {
        let token = self.token.as_ref().filter(|token| same(given, token))?;
        let cookie = format!("{COOKIE}={}; Path=/; HttpOnly; SameSite=Strict", cookie_value(token));
        HeaderValue::from_str(&cookie).ok()
    }
}

/// Encodes bytes that a cookie cannot hold.
fn cookie_value(token: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(token)
}

/// Constant-time comparison.
fn same(given: &str, wanted: &str) -> bool {
    let (given, wanted) = (given.as_bytes(), wanted.as_bytes());
    given.len() == wanted.len() && given.iter().zip(wanted).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

/// What answers of ControlZ have, by which its pages tell them from those of a proxy or of another program on its port.
const OWN_ANSWER: HeaderName = HeaderName::from_static("x-controlz");

/// Applies the guard and adds security headers.
pub(super) async fn guard(State(shared): State<SharedConsole>, request: Request, next: Next) -> Response {
    let wants_page = request
        .headers()
        .get(header::ACCEPT)
        .and_then(|v| v.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"));
    let verdict = shared.guard.check(request.method(), request.uri().path(), request.headers());
    let mut response = match verdict {
        Ok(()) => next.run(request).await,
        Err(Refusal::Token) if wants_page => page::login(false),
        Err(refusal) => {
            let (status, text) = refusal.answer();
            tracing::warn!(
                method = %request.method(),
                path = request.uri().path(),
                "ControlZ refused a request: {}",
                text.trim_end()
            );
            (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
        }
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_POLICY));
    headers.insert(OWN_ANSWER, HeaderValue::from_static("mixer"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn unknown_host_names_are_refused() {
        let guard = Guard { hosts: vec!["ops.example.com".to_owned()], ..Guard::default() };
        let get = |host: &str| guard.check(&Method::GET, "/", &headers(&[("host", host)]));
        for ours in [
            "127.0.0.1:9876",
            "10.1.2.3",
            "[::1]:9876",
            "[::1]",
            "localhost:9876",
            "LOCALHOST",
            "ops.example.com",
            "Ops.Example.com:443",
        ] {
            assert_eq!(get(ours), Ok(()), "{ours}");
        }
        for foreign in [
            "evil.example",
            "evil.localhost",
            "mixer.localhost:1",
            "evil.example:9876",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "localhost:1.evil.example",
            "127.0.0.1:80.evil.example",
            "localhost:",
            "localhost:+1",
            "localhost:65536",
            "[::1]:1.evil.example",
            "[::1].evil.example",
            "",
        ] {
            assert_eq!(get(foreign), Err(Refusal::Host), "{foreign}");
        }
    }

    #[test]
    fn cross_site_changes_are_refused() {
        let guard = Guard::default();
        let put = |more: &[(&'static str, &str)]| {
            let mut all = vec![("host", "localhost:9876")];
            all.extend_from_slice(more);
            guard.check(&Method::PUT, "/scopej/api", &headers(&all))
        };
        assert_eq!(put(&[]), Ok(()), "a program");
        assert_eq!(put(&[("origin", "http://localhost:9876"), ("sec-fetch-site", "same-origin")]), Ok(()));
        assert_eq!(put(&[("origin", "http://evil.example")]), Err(Refusal::CrossSite));
        assert_eq!(put(&[("origin", "null")]), Err(Refusal::CrossSite), "a page in a sandbox");
        assert_eq!(put(&[("origin", "http://localhost:9877")]), Err(Refusal::CrossSite), "another port");
        assert_eq!(put(&[("referer", "http://localhost:9876/scopez/")]), Ok(()), "a form without an origin");
        for foreign in
            ["http://evil.example/a", "http://localhost:98765/", "http://localhost:9876.evil.example/"]
        {
            assert_eq!(put(&[("referer", foreign)]), Err(Refusal::CrossSite), "{foreign}");
        }
        let ours = ("origin", "http://localhost:9876");
        for second in [ours, ("origin", "http://evil.example")] {
            assert_eq!(put(&[ours, second]), Err(Refusal::CrossSite), "two origins");
        }
        let referer = ("referer", "http://localhost:9876/");
        assert_eq!(put(&[referer, referer]), Err(Refusal::CrossSite), "two pages");
        assert_eq!(put(&[("sec-fetch-site", "cross-site")]), Err(Refusal::CrossSite));
        assert_eq!(put(&[("sec-fetch-site", "same-site")]), Err(Refusal::CrossSite));
        let read = headers(&[("host", "localhost"), ("origin", "http://evil.example")]);
        assert_eq!(
            guard.check(&Method::GET, "/scopej/", &read),
            Ok(()),
            "the browser keeps the answer from it"
        );
    }

    #[test]
    fn read_only_mode_refuses_all_changes() {
        let guard = Guard { read_only: true, ..Guard::default() };
        let host = headers(&[("host", "localhost")]);
        assert_eq!(guard.check(&Method::GET, "/scopej/", &host), Ok(()));
        for method in [Method::PUT, Method::POST, Method::DELETE, Method::PATCH] {
            assert_eq!(guard.check(&method, "/scopej/api", &host), Err(Refusal::ReadOnly));
        }
    }

    #[test]
    fn a_configured_token_is_required() {
        let guard = Guard { token: Some("let me=in".to_owned()), ..Guard::default() };
        let get = |name: &'static str, value: &str| {
            guard.check(&Method::GET, "/memj/", &headers(&[("host", "localhost"), (name, value)]))
        };
        assert_eq!(get("accept", "*/*"), Err(Refusal::Token));
        assert_eq!(get("authorization", "Bearer let me=in"), Ok(()));
        assert_eq!(get("authorization", "bearer let me=in"), Ok(()));
        assert_eq!(get("authorization", "BEARER  let me=in"), Ok(()));
        assert_eq!(get("authorization", "Basic let me=in"), Err(Refusal::Token));
        assert_eq!(get("authorization", "Bearer let me=iN"), Err(Refusal::Token));
        assert_eq!(get("authorization", "Bearer "), Err(Refusal::Token));
        let cookie = guard.log_in("let me=in").unwrap().to_str().unwrap().to_owned();
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"));
        assert_eq!(get("cookie", &format!("a=b; {}", cookie.split(';').next().unwrap())), Ok(()));
        assert!(guard.log_in("else").is_none());
        assert_eq!(
            guard.check(&Method::GET, "/assets/ctrlz.css", &headers(&[("host", "localhost")])),
            Ok(())
        );
    }
}
