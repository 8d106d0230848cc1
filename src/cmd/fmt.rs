//! `fmt`: brings configuration files into their layout.

mod layout;
mod replace;

use std::collections::HashSet;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use similar::TextDiff;

use super::exit::{Exit, Failure, Outcome, Stop};
use super::io::Io;
use super::output::{counted, escaped};
use layout::{Refusal, formatted};
use mixer_base::regular_file;
use mixer_config::store::configuration_files;
use replace::Original;

/// Maximum size of a file, in bytes.
const MAX_FILE: u64 = 16 << 20;

/// Flags of `fmt`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct FmtArgs {
    /// Files, directories (the files that a server reads there), or `-` for standard input, which is written to standard output.
    #[arg(required = true, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
    /// Write nothing: list the files that would change, and exit with status 1 if there is one.
    #[arg(long)]
    check: bool,
    /// Write nothing: show what would change. With --check, the status says whether anything would.
    #[arg(long)]
    diff: bool,
}

/// Formats file by file. A file that cannot be read, formatted or replaced stays as it is, and is an error; the others are formatted all the
/// same.
///
/// Exit status: 0, or 1 if `--check` finds a change, or 2 if a file cannot be formatted, or 3 if one cannot be read or written.
pub(crate) fn run(args: &FmtArgs, io: &mut Io) -> Outcome {
    let standard = Path::new("-");
    if args.paths.iter().any(|path| path == standard) {
        return match args.paths.as_slice() {
            [_] => from_standard_input(args, io),
            _ => Err(Failure::usage("`-` stands alone").hint("give either `-` or paths").into()),
        };
    }
    let mut batch = Batch { args, io, known: HashSet::new(), changes: 0, failed: None };
    for path in &args.paths {
        if !path.is_dir() {
            batch.format(path)?;
            continue;
        }
        // What servers do not read is none of the configuration.
        let (files, unknown) = configuration_files(path);
        for (path, error) in unknown {
            batch.fail(&unreadable(&path, &error))?;
        }
        for file in files {
            batch.format(&file)?;
        }
    }
    let Batch { changes, failed, .. } = batch;
    if let Some(exit) = failed {
        return Ok(exit);
    }
    if args.check && changes > 0 {
        let what = counted(changes, "file");
        io.note(&format!("{what} to format; `mixer fmt` without --check writes them"))?;
        return Ok(Exit::Negative);
    }
    Ok(Exit::Success)
}

/// The files of one command.
struct Batch<'b> {
    args: &'b FmtArgs,
    io: &'b mut Io,
    /// Files that were read, by their paths without links: one that several links lead to is formatted once.
    known: HashSet<PathBuf>,
    /// Number of files that are not in their layout.
    changes: usize,
    /// The status after the failures so far.
    failed: Option<Exit>,
}

impl Batch<'_> {
    /// Formats a file, or the one that a link leads to.
    fn format(&mut self, path: &Path) -> Result<(), Stop> {
        let original = match path.canonicalize() {
            Ok(real) if !self.known.insert(real.clone()) => return Ok(()),
            Ok(real) => Original::read(real, MAX_FILE),
            Err(error) => Err(error),
        };
        let original = match original {
            Ok(original) => original,
            Err(error) => return self.fail(&unreadable(path, &error)),
        };
        let name = path.display().to_string();
        let after = match formatted(&original.text) {
            Ok(after) if after == original.text => return Ok(()),
            Ok(after) => after,
            Err(refusal) => return self.fail(&failure(&name, &refusal)),
        };
        self.changes += 1;
        if self.args.diff {
            self.io.out.write_all(difference(&name, &original.text, &after).as_bytes())?;
            return Ok(());
        }
        if !self.args.check
            && let Err(refused) = original.replace(&after)
        {
            let failure = Failure::local(format!("cannot write `{name}`"));
            return self.fail(&failure.cause(refused.why).hint(refused.hint));
        }
        writeln!(self.io.out, "{}", escaped(&name))?;
        Ok(())
    }

    /// Tells of a failure, while others follow.
    fn fail(&mut self, failure: &Failure) -> Result<(), Stop> {
        let text = super::usage::failure_text(failure, self.io.error_format);
        self.io.err.write_all(text.as_bytes())?;
        if self.failed != Some(Exit::Local) {
            self.failed = Some(failure.exit);
        }
        Ok(())
    }
}

fn from_standard_input(args: &FmtArgs, io: &mut Io) -> Outcome {
    let mut before = String::new();
    let most = MAX_FILE + 1;
    let read = io.input.by_ref().take(most).read_to_string(&mut before);
    read.map_err(|error| Failure::local("cannot read standard input").cause(error))?;
    if before.len() as u64 >= most {
        return Err(Failure::local("cannot read standard input")
            .cause(regular_file::too_large(MAX_FILE))
            .into());
    }
    let after = formatted(&before).map_err(|refusal| failure("standard input", &refusal))?;
    match (args.diff, args.check) {
        (true, _) => io.out.write_all(difference("standard input", &before, &after).as_bytes())?,
        (false, true) => {}
        (false, false) => io.out.write_all(after.as_bytes())?,
    }
    Ok(if args.check && before != after { Exit::Negative } else { Exit::Success })
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    let failure = Failure::local(format!("cannot read `{}`", path.display())).cause(error);
    match error.kind() {
        std::io::ErrorKind::InvalidData => failure.hint("`mixer validate` shows how to convert it"),
        _ => failure,
    }
}

fn difference(name: &str, before: &str, after: &str) -> String {
    TextDiff::from_lines(before, after).unified_diff().context_radius(3).header(name, name).to_string()
}

fn failure(name: &str, refusal: &Refusal) -> Failure {
    Failure::usage(format!("{name}:{}: cannot be formatted", refusal.line))
        .cause(refusal.why.clone())
        .hint(refusal.hint)
}

#[cfg(test)]
mod tests;
