//! Log settings, their syntax and their errors.

use std::path::PathBuf;

/// An invalid setting. The text is Istio Mixer's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OptionsError(pub String);

/// Severity of log records, from most to least silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LogLevel {
    /// Nothing.
    None,
    /// The process ends.
    Fatal,
    /// Someone must act.
    Error,
    /// Unexpected, recovered.
    Warn,
    /// Life-cycle.
    Info,
    /// Everything.
    Debug,
}

impl LogLevel {
    /// Every level and its name, by increasing verbosity.
    pub const ALL: [(LogLevel, &'static str); 6] = [
        (LogLevel::None, "none"),
        (LogLevel::Fatal, "fatal"),
        (LogLevel::Error, "error"),
        (LogLevel::Warn, "warn"),
        (LogLevel::Info, "info"),
        (LogLevel::Debug, "debug"),
    ];

    /// The level with this name.
    pub fn from_name(name: &str) -> Option<LogLevel> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(level, _)| *level)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(level, _)| *level == self).map_or("none", |(_, name)| name)
    }
}

/// The log scopes of the server and what they are about, in name order.
pub const SCOPES: [(&str, &str); 9] = [
    ("adapters", "Messages from adapters"),
    ("api", "API dispatcher messages."),
    ("attributes", "Attribute messages"),
    ("default", "Unscoped logging messages."),
    ("grpcAdapter", "Out-of-process adapter messages"),
    ("kube-converter", "Kubernetes conversion messages"),
    ("loadshedding", "Information related to loadshedding"),
    ("mcp", "mcp debugging"),
    ("meshconfig", "Mesh configuration messages"),
];

/// Log settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// Paths of files, `stdout` or `stderr`.
    pub targets: Vec<String>,
    /// An additional, rotated file; empty: none.
    pub rotate: PathBuf,
    /// Whether the directory of the rotated file is created, as by Istio Mixer. Otherwise a missing one is an error.
    pub create_rotate_directory: bool,
    /// Size before rotation in MiB.
    pub rotate_max_size: i64,
    /// Days for which rotated files are kept; 0: forever.
    pub rotate_max_age: i64,
    /// Number of rotated files to keep; 0: all.
    pub rotate_max_backups: i64,
    /// Whether records are JSON objects.
    pub as_json: bool,
    /// `[scope:]level,…`.
    pub output_level: String,
    /// `[scope:]level,…`.
    pub stack_trace_level: String,
    /// `scope,…`.
    pub caller: String,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            targets: vec!["stdout".to_owned()],
            rotate: PathBuf::new(),
            create_rotate_directory: false,
            rotate_max_size: 100,
            rotate_max_age: 30,
            rotate_max_backups: 1000,
            as_json: false,
            output_level: "default:info".to_owned(),
            stack_trace_level: "default:none".to_owned(),
            caller: String::new(),
        }
    }
}

/// Levels by scope; scopes without an entry keep their default.
pub type LogLevels = Vec<(String, LogLevel)>;

/// Names of scopes.
pub type LogScopes = Vec<String>;

impl LogOptions {
    /// Output levels by scope; `all` means every scope and ends the list.
    ///
    /// Errors: `invalid output level 'X'`, `invalid output level format 'X'`, `unknown scope 'X' specified`.
    pub(super) fn output_levels(&self) -> Result<LogLevels, OptionsError> {
        parse_levels(&self.output_level)
    }

    /// Stack trace levels; otherwise as [`output_levels`](Self::output_levels), texts included.
    pub(super) fn stack_trace_levels(&self) -> Result<LogLevels, OptionsError> {
        parse_levels(&self.stack_trace_level)
    }

    /// Scopes whose records carry the caller. Empty elements are skipped. Errors: `unknown scope 'X' specified`.
    pub fn callers(&self) -> Result<LogScopes, OptionsError> {
        let mut scopes = Vec::new();
        for element in self.caller.split(',').filter(|e| !e.is_empty()) {
            if element == "all" {
                scopes = SCOPES.iter().map(|(name, _)| (*name).to_owned()).collect();
                break;
            }
            scopes.push(known_scope(element)?);
        }
        Ok(scopes)
    }

    /// Validates the settings without opening files. Errors: those of the three lists, in the order of the fields.
    pub fn check(&self) -> Result<(), OptionsError> {
        self.output_levels()?;
        self.stack_trace_levels()?;
        self.callers()?;
        Ok(())
    }
}

fn known_scope(name: &str) -> Result<String, OptionsError> {
    if SCOPES.iter().any(|(scope, _)| *scope == name) {
        return Ok(name.to_owned());
    }
    Err(OptionsError(format!("unknown scope '{name}' specified")))
}

fn parse_levels(list: &str) -> Result<LogLevels, OptionsError> {
    let mut levels = LogLevels::new();
    for element in list.split(',') {
        let (scope, word) = match element.split_once(':') {
            None => ("default", element),
            Some((_, rest)) if rest.contains(':') => {
                return Err(OptionsError(format!("invalid output level format '{element}'")));
            }
            Some(pair) => pair,
        };
        let level = LogLevel::from_name(word)
            .ok_or_else(|| OptionsError(format!("invalid output level '{element}'")))?;
        if scope == "all" {
            return Ok(SCOPES.iter().map(|(name, _)| ((*name).to_owned(), level)).collect());
        }
        levels.push((known_scope(scope)?, level));
    }
    Ok(levels)
}

/// `key=value …`.
impl std::fmt::Display for LogOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "target={} rotate={} rotateMaxSize={} rotateMaxAge={} rotateMaxBackups={} asJson={} outputLevel={} \
             stackTraceLevel={} caller={}",
            self.targets.join(","),
            self.rotate.display(),
            self.rotate_max_size,
            self.rotate_max_age,
            self.rotate_max_backups,
            self.as_json,
            self.output_level,
            self.stack_trace_level,
            self.caller
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_log_lists_are_those_of_istio_mixer() {
        let levels =
            |list: &str| LogOptions { output_level: list.to_owned(), ..LogOptions::default() }.check();
        for good in ["info", "api:debug,default:none", "all:debug,nosuch:loud", "default:fatal"] {
            assert_eq!(levels(good), Ok(()), "{good}");
        }
        for (bad, text) in [
            ("loud", "invalid output level 'loud'"),
            ("nosuch:loud", "invalid output level 'nosuch:loud'"),
            ("nosuch:info,loud", "unknown scope 'nosuch' specified"),
            ("", "invalid output level ''"),
            ("info,", "invalid output level ''"),
            (":info", "unknown scope '' specified"),
            ("a:b:c", "invalid output level format 'a:b:c'"),
        ] {
            assert_eq!(levels(bad), Err(OptionsError(text.to_owned())), "{bad}");
        }
        let callers = |list: &str| LogOptions { caller: list.to_owned(), ..LogOptions::default() }.check();
        assert_eq!(callers("api,"), Ok(()));
        assert_eq!(callers("all,nosuch"), Ok(()));
        assert_eq!(callers("nosuch,all"), Err(OptionsError("unknown scope 'nosuch' specified".to_owned())));
    }
}
