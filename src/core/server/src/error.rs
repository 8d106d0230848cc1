//! Errors of the start.

use mixer_net::listener::ListenError;

/// A server did not start. The text is that of Istio Mixer after `Unable to initialize Mixer: `.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct StartError {
    /// What failed.
    pub text: String,
    /// The cause, where Istio Mixer omits it.
    pub detail: Option<String>,
}

impl StartError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), detail: None }
    }

    pub(crate) fn because(what: &str, cause: impl std::fmt::Display) -> Self {
        Self::new(format!("{what}: {cause}"))
    }
}

impl From<ListenError> for StartError {
    fn from(error: ListenError) -> Self {
        Self::new(error.0)
    }
}
