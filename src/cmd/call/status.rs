//! Failed calls and the names of status codes.

use crate::cmd::exit::{Exit, Failure};
use mixer_base::rpc_code;

/// The gRPC status of a failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RpcError {
    /// gRPC status code.
    pub(crate) code: i32,
    /// Message; that of gRPC's implementation in Go if no server was reached.
    pub(crate) message: String,
    /// Why no server was reached, and what helps.
    pub(crate) unreachable: Option<(String, &'static str)>,
}

/// What helps if no server answers.
pub(super) const START_ONE: &str = "start one with `mixer server`, name another one with --server HOST:PORT, or give a configuration with --config to do without";

impl RpcError {
    /// A status of gRPC.
    pub(crate) fn new(code: impl Into<i32>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), unreachable: None }
    }

    /// No server was reached.
    #[must_use]
    pub(crate) fn unreachable(self, why: String, hint: &'static str) -> Self {
        Self { unreachable: Some((why, hint)), ..self }
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

    /// A failed call as the failure of a command. `call` is `Check` or `Report`.
    pub(crate) fn failure(&self, call: &str) -> Failure {
        let is_late = self.code == i32::from(tonic::Code::DeadlineExceeded);
        let exit = if is_late { Exit::Deadline } else { Exit::Rpc };
        let failure = Failure::new(exit, format!("{call} RPC failed with {}", rpc_code_name(self.code)));
        match &self.unreachable {
            Some((why, hint)) => failure.cause(why).hint(*hint),
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
