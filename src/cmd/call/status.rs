//! Failed calls and the names of status codes.

use std::time::Duration;

use super::summary::seconds_text;
use crate::cmd::exit::{Exit, Failure};
use mixer_base::rpc_code;

/// The gRPC status of a failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RpcError {
    /// gRPC status code.
    pub(crate) code: i32,
    /// Message; that of gRPC's implementation in Go if no server was reached.
    pub(crate) message: String,
    /// Why no server was reached, or what was reached instead, and what helps.
    pub(crate) unreachable: Option<(String, String)>,
    /// Whether something was reached that does not speak gRPC, or not with TLS or without as this client.
    pub(crate) is_garbled: bool,
}

/// What helps if no server answers.
pub(super) const START_ONE: &str = "start one with `mixer server`, name another one with --server HOST:PORT, or give a configuration with --config to do without";

impl RpcError {
    /// A status of gRPC.
    pub(crate) fn new(code: impl Into<i32>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), unreachable: None, is_garbled: false }
    }

    /// No server was reached, or another one.
    #[must_use]
    pub(crate) fn unreachable(self, why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { unreachable: Some((why.into(), hint.into())), ..self }
    }

    /// Something was reached that does not speak gRPC.
    #[must_use]
    pub(crate) fn garbled(self, is_garbled: bool) -> Self {
        Self { is_garbled, ..self }
    }

    /// What is wrong, in plain words where there are any.
    pub(crate) fn why(&self) -> &str {
        self.unreachable.as_ref().map_or(&self.message, |(why, _)| why)
    }

    /// What helps.
    pub(crate) fn hint(&self) -> Option<&str> {
        self.unreachable.as_ref().map(|(_, hint)| hint.as_str())
    }

    /// `Unavailable (…)`, in the words of Istio mixc or, with what helps in a second line, in plain ones.
    pub(crate) fn text(&self, as_mixc: bool) -> String {
        let code = rpc_code_name(self.code);
        match &self.unreachable {
            Some((why, hint)) if !as_mixc => format!("{code} ({why})\n  {hint}"),
            _ if self.message.is_empty() => code,
            _ => format!("{code} ({})", self.message),
        }
    }

    /// A failed call as a document.
    pub(crate) fn document(&self, latency: Duration) -> serde_json::Value {
        let mut document = serde_json::json!({
            "code": self.code,
            "name": rpc_code_name(self.code),
            "message": self.why(),
            "latency": seconds_text(latency),
        });
        if let (Some(hint), Some(members)) = (self.hint(), document.as_object_mut()) {
            members.insert("hint".to_owned(), hint.into());
        }
        document
    }

    /// A failed call as the failure of a command. `call` is `Check` or `Report`.
    pub(crate) fn failure(&self, call: &str) -> Failure {
        let is_late = self.code == i32::from(tonic::Code::DeadlineExceeded);
        let exit = if is_late { Exit::Deadline } else { Exit::Rpc };
        let failure = Failure::new(exit, format!("{call} RPC failed with {}", rpc_code_name(self.code)));
        match &self.unreachable {
            Some((why, hint)) => failure.cause(why).hint(hint),
            None if self.message.is_empty() => failure,
            None => failure.cause(&self.message),
        }
    }
}

/// `PERMISSION_DENIED`, else `Code 99`.
pub(crate) fn status_code_name(code: i32) -> String {
    rpc_code::name(code).map_or_else(|| format!("Code {code}"), str::to_owned)
}

/// `PermissionDenied`, else `Code(99)`.
pub(crate) fn rpc_code_name(code: i32) -> String {
    rpc_code::camel_name(code).map_or_else(|| format!("Code({code})"), str::to_owned)
}
