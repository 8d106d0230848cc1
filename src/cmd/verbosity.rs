//! How much a command says: `--verbose` and `--quiet`.

/// How much a command says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Verbosity {
    /// Errors only.
    Quiet,
    /// Results and warnings.
    #[default]
    Normal,
    /// The log at level debug as well.
    Verbose,
}

impl Verbosity {
    /// The level of the log; `None` for that of the other flags.
    pub(crate) fn log_level(self) -> Option<&'static str> {
        match self {
            Verbosity::Quiet => Some("default:warn"),
            Verbosity::Normal => None,
            Verbosity::Verbose => Some("default:debug"),
        }
    }
}
