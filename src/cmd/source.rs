//! Configuration sources of the commands that inspect configuration.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::controlz::{Controlz, ControlzFlags};
use super::endpoint::Program;
use super::exit::{Failure, Stop};
use super::flags::{GivenFlags, Lost, NamespaceFlags, tell_lost, validate_command};
use super::io::Io;
use super::language::selected_language;
use super::output::{counted, escaped};
use super::value;
use mixer_config::store::{EMBEDDED_SAMPLE, StoreContents, read_sources};
use mixer_config::{Diagnostic, Diagnostics, RawResource, Severity};
use mixer_engine::runtime::{OnConfigError, forecast};
use mixer_engine::snapshot::{Snapshot, SnapshotBuilder};

/// The flags that select the configuration to inspect.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ConfigSource {
    /// Those that are given. The first field of the first group: the others take their values out of the matches.
    #[command(flatten)]
    pub(crate) given: GivenFlags,
    /// Configuration to read: fs://DIR, a path, `-` for standard input, or embedded://sample.
    ///
    /// Nothing is started or changed. Default: the sample configuration of `mixer server`.
    #[arg(long, value_name = "URL")]
    pub(crate) config: Option<String>,
    /// Query a running server instead: its host, and the port of ControlZ, by default 9876. Example: localhost:9876.
    #[arg(long, value_parser = value::introspection_address, value_name = "ADDRESS", conflicts_with = "config")]
    server: Option<String>,
    #[command(flatten)]
    controlz: ControlzFlags,
    #[command(flatten)]
    pub(crate) namespace: NamespaceFlags,
}

/// What somebody may not expect who has a running server.
const SAMPLE: &str = "no --config and no --server is given: this is the sample configuration; `--server localhost:9876` asks a running server";

/// Flags that are for the other kind of source.
const IDLE: &[Lost<ConfigSource>] = &[
    Lost::idle(
        &["ctrlz-token-file"],
        |source| source.server.is_none(),
        "no running server is asked: --server names one",
    ),
    Lost::idle(
        &["default-namespace"],
        |source| source.server.is_some(),
        "the running server has its own; it is for --config",
    ),
];

impl ConfigSource {
    /// Tells the flags that have no effect.
    pub(crate) fn tell_lost(&self, io: &mut Io) -> Result<(), Stop> {
        tell_lost(IDLE, &self.given, self, io)
    }

    /// The running server to ask instead.
    pub(crate) fn running(&self) -> Option<Controlz<'_>> {
        self.server.as_deref().map(|address| self.controlz.at(Program::Mixer, address, "--server"))
    }

    /// Builds the snapshot without starting handlers.
    pub(crate) fn snapshot(&self, io: &mut Io) -> Result<Arc<Snapshot>, Stop> {
        if self.config.is_none() {
            io.warn(SAMPLE)?;
        }
        let source = self.config.clone().unwrap_or_else(|| EMBEDDED_SAMPLE.to_owned());
        let contents = read(std::slice::from_ref(&source), io)?;
        let contents = Arc::new(contents);
        let snapshot = build(&contents, &self.namespace);
        if let Some(note) = remark(&source, &self.namespace, (&contents, &snapshot), &snapshot.diagnostics) {
            io.warn(&note.text())?;
        }
        Ok(snapshot)
    }
}

/// Maximum resources that a note names.
const MAX_NAMED: usize = 10;

/// The problem of a configuration without resources, as a server reports it.
pub(crate) fn emptiness(
    contents: &Arc<StoreContents>,
    snapshot: &Snapshot,
    namespace: &NamespaceFlags,
    is_allowed: bool,
) -> Option<Diagnostic> {
    // An empty configuration has no rules: others need no second build.
    if !snapshot.rules.is_empty() {
        return None;
    }
    let mut builder = SnapshotBuilder::new(namespace.options());
    let forecast = forecast(contents, &mut builder, OnConfigError::KeepLast, is_allowed, None);
    forecast.withheld.filter(|_| forecast.is_empty)
}

/// Why a server does not answer with a configuration as offline commands do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unserved {
    /// It has errors, and something without.
    Errors,
    /// It has nothing, or nothing without errors.
    Empty,
}

/// What a server does instead of an offline command.
#[derive(Debug, Clone)]
pub(crate) struct Remark {
    /// What the configuration has, what the command makes of it, and what a server does.
    says: String,
    /// The command that tells more.
    validate: String,
    /// Why.
    pub(crate) why: Unserved,
}

impl Remark {
    /// For the user of a command that goes on with it.
    pub(crate) fn text(&self) -> String {
        format!("{}; see `{}`", self.says, self.validate)
    }

    /// The failure of a command whose result no server has.
    pub(crate) fn failure(&self, what: impl Into<String>) -> Failure {
        let served = match self.why {
            Unserved::Errors => "; --serve-valid is for a server with --config-on-error serve-valid",
            Unserved::Empty => "",
        };
        Failure::local(what).cause(&self.says).hint(format!("see `{}`{served}", self.validate))
    }
}

/// What a server does instead of an offline command: with a configuration that has errors, or that has nothing; `None` if it does the same.
pub(crate) fn remark(
    url: &str,
    namespace: &NamespaceFlags,
    (contents, snapshot): (&Arc<StoreContents>, &Snapshot),
    diagnostics: &Diagnostics,
) -> Option<Remark> {
    let validate = escaped(&validate_command(url, &namespace.default_namespace)).into_owned();
    if let Some(says) = left_out(url, diagnostics) {
        let faulty: BTreeSet<&str> = errors(diagnostics).map(|problem| problem.resource.as_str()).collect();
        let is_left = |resource: &&Arc<RawResource>| !faulty.contains(resource.key.to_string().as_str());
        let resources = contents.resources.iter().filter(is_left).cloned().collect();
        let left = Arc::new(StoreContents { resources, ..StoreContents::default() });
        let is_empty = emptiness(&left, snapshot, namespace, false).is_some();
        let why = if is_empty { Unserved::Empty } else { Unserved::Errors };
        return Some(Remark { says, validate, why });
    }
    emptiness(contents, snapshot, namespace, false)?;
    let says = format!(
        "`{url}` has no resources: a server answers UNAVAILABLE, unless --allow-empty-config says that every call is to be allowed"
    );
    Some(Remark { says: escaped(&says).into_owned(), validate, why: Unserved::Empty })
}

fn errors(diagnostics: &Diagnostics) -> impl Iterator<Item = &Diagnostic> {
    diagnostics.iter().filter(|problem| problem.severity == Severity::Error)
}

/// Names the resources with an error, which offline commands leave out, and says what a server does instead; `None` without any.
fn left_out(url: &str, diagnostics: &Diagnostics) -> Option<String> {
    let errors: Vec<_> = errors(diagnostics).collect();
    if errors.is_empty() {
        return None;
    }
    let count = counted(errors.iter().map(|problem| problem.count()).sum::<usize>(), "error");
    let named: BTreeSet<&str> = errors.iter().map(|problem| problem.resource.as_str()).collect();
    let named: Vec<&str> = named.into_iter().filter(|name| !name.is_empty()).collect();
    let mut names = named.iter().take(MAX_NAMED).copied().collect::<Vec<_>>().join(", ");
    if named.len() > MAX_NAMED {
        names.push_str(&format!(" and {} more", named.len() - MAX_NAMED));
    }
    let without = if names.is_empty() { String::new() } else { format!(" without {names}") };
    let note = format!(
        "`{url}` has {count} and is evaluated{without}; a server goes on with the last good version, or \
         does not serve, unless --config-on-error is serve-valid"
    );
    Some(escaped(&note).into_owned())
}

/// Reads configuration from paths and store URLs. Errors: also if the environment names no language for its expressions, as of a server.
pub(crate) fn read(sources: &[String], io: &mut Io) -> Result<StoreContents, Stop> {
    selected_language()?;
    read_sources(sources, &mut io.input).map_err(|error| {
        let failure = Failure::local("cannot read the configuration").cause(error);
        failure.hint(config_hint(sources.iter().map(String::as_str))).into()
    })
}

/// What to do about a configuration that cannot be read.
pub(crate) fn config_hint<'s>(mut sources: impl Iterator<Item = &'s str>) -> &'static str {
    match sources.any(names_a_server) {
        true => {
            "configuration is a path, fs://DIR, `-` or embedded://sample; a running server is named with --server HOST:PORT, if the \
             command has that flag"
        }
        false => {
            "name a file or directory that exists and is readable: a path, fs://DIR, `-` for standard input, or embedded://sample"
        }
    }
}

/// Whether a source of configuration is probably meant to be a server: `http://ops`, `localhost:9091`.
fn names_a_server(source: &str) -> bool {
    let is_url = ["http://", "https://", "tcp://", "grpc://"].iter().any(|scheme| source.starts_with(scheme));
    let port = source.rsplit_once(':').map(|(_, port)| port);
    let has_port = port.is_some_and(|port| port.parse::<u16>().is_ok());
    is_url || (has_port && !source.contains("://") && !std::path::Path::new(source).exists())
}

/// Builds a snapshot.
pub(crate) fn build(contents: &StoreContents, namespace: &NamespaceFlags) -> Arc<Snapshot> {
    SnapshotBuilder::new(namespace.options()).build(contents)
}

#[cfg(test)]
mod tests {
    use super::names_a_server;

    #[test]
    fn servers_are_no_configuration() {
        for server in ["http://ops", "https://ops:1/x", "localhost:9091", "tcp://[::1]:7"] {
            assert!(names_a_server(server), "{server}");
        }
        for other in ["conf", "fs:///etc/mixer", "embedded://sample", "conf/a.yaml", "-", "a:b"] {
            assert!(!names_a_server(other), "{other}");
        }
    }
}
