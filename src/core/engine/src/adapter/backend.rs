//! What the handlers of an adapter talk to, for `doctor`.

use std::path::PathBuf;

use mixer_base::output_file::OutputUse;

/// The backends of a handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backends {
    /// There are none.
    None,
    /// A built handler tells whether they can be reached: [`Handler::probe`](super::Handler::probe). To build and to close one has no effect on
    /// other handlers.
    AskHandler,
    /// Handlers send to these addresses in the background.
    Addresses(Vec<BackendAddress>),
    /// Handlers append lines to this file.
    File(PathBuf, OutputUse),
}

/// Where a handler sends something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackendAddress {
    /// `HOST:PORT`.
    Tcp(String),
    /// `HOST:PORT`.
    Udp(String),
    /// The path of a socket of this machine.
    Unix(String),
    /// A URL; connections to it may go through the proxy of the environment.
    Url(String),
}
