//! `fmt`: brings configuration files into their layout.

mod layout;

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use similar::TextDiff;

use super::exit::{Exit, Failure, Outcome, Stop};
use super::io::Io;
use super::output::{counted, escaped};
use layout::{Refusal, formatted};
use mixer_base::regular_file;

/// Maximum size of a file, in bytes.
const MAX_FILE: u64 = 16 << 20;
/// Directories below a directory are read so deep.
const MAX_DEPTH: usize = 32;

/// Flags of `fmt`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct FmtArgs {
    /// Files, directories with `.yaml` and `.yml` files, or `-` for standard input, which is written to standard output.
    #[arg(required = true, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
    /// Write nothing: list the files that would change, and exit with status 1 if there is one.
    #[arg(long)]
    check: bool,
    /// Write nothing: show what would change. With --check, the status says whether anything would.
    #[arg(long)]
    diff: bool,
}

/// A file that is not in its layout.
struct Change {
    path: PathBuf,
    before: String,
    after: String,
}

/// Formats. A file that cannot be formatted stays as it is, and is an error; the others are formatted all the same.
///
/// Exit status: 0, or 1 if `--check` finds a change, or 2 if a file cannot be read or formatted.
pub(crate) fn run(args: &FmtArgs, io: &mut Io) -> Outcome {
    let standard = Path::new("-");
    if args.paths.iter().any(|path| path == standard) {
        return match args.paths.as_slice() {
            [_] => from_standard_input(args, io),
            _ => Err(Failure::usage("`-` stands alone").into()),
        };
    }
    let mut files = Vec::new();
    for path in &args.paths {
        collect(path, 0, &mut files)?;
    }
    let (mut changes, mut refused) = (Vec::new(), None);
    for path in files {
        let before = read(&path)?;
        match formatted(&before) {
            Ok(after) if after == before => {}
            Ok(after) => changes.push(Change { path, before, after }),
            Err(refusal) => {
                let failure = failure(&path.display().to_string(), &refusal);
                if let Some(earlier) = refused.replace(failure) {
                    tell(&earlier, io)?;
                }
            }
        }
    }
    for change in &changes {
        let name = change.path.display().to_string();
        match (args.diff, args.check) {
            (true, _) => io.out.write_all(difference(&name, &change.before, &change.after).as_bytes())?,
            (false, true) => writeln!(io.out, "{}", escaped(&name))?,
            (false, false) => {
                write(&change.path, &change.after)?;
                writeln!(io.out, "{}", escaped(&name))?;
            }
        }
    }
    if let Some(failure) = refused {
        return Err(failure.into());
    }
    if args.check && !changes.is_empty() {
        let what = counted(changes.len(), "file");
        writeln!(io.err, "{what} to format; `mixer fmt` without --check writes them")?;
        return Ok(Exit::Negative);
    }
    Ok(Exit::Success)
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

/// The files of a path, in the order of their names. Directories and files with a name that begins with a dot are left out, as by servers.
fn collect(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), Stop> {
    let unreadable = |error| Failure::local(format!("cannot read `{}`", path.display())).cause(error);
    if depth > MAX_DEPTH || !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        names.push(entry.map_err(unreadable)?.file_name());
    }
    names.sort();
    for name in names {
        let inner = path.join(&name);
        let is_yaml = inner.extension().is_some_and(|end| end == "yaml" || end == "yml");
        let is_hidden = name.to_string_lossy().starts_with('.');
        if !is_hidden && depth < MAX_DEPTH && (is_yaml || inner.is_dir()) {
            collect(&inner, depth + 1, files)?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, Stop> {
    let read = regular_file::read_text(path, MAX_FILE);
    Ok(read.map_err(|error| Failure::local(format!("cannot read `{}`", path.display())).cause(error))?)
}

/// Replaces a file in one step, with the permissions that it had: servers read either the one or the other.
fn write(path: &Path, text: &str) -> Result<(), Stop> {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let replace = || {
        let directory = path.parent().unwrap_or(Path::new("."));
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let beside = directory.join(format!(".{name}.{}", std::process::id()));
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(&beside)?;
        let written = file
            .write_all(text.as_bytes())
            .and_then(|()| file.set_permissions(std::fs::metadata(&path)?.permissions()))
            .and_then(|()| std::fs::rename(&beside, &path));
        if written.is_err() {
            // It is of no use.
            let _ = std::fs::remove_file(&beside);
        }
        written
    };
    replace().map_err(|error: std::io::Error| {
        Failure::local(format!("cannot write `{}`", path.display())).cause(error).into()
    })
}

fn difference(name: &str, before: &str, after: &str) -> String {
    TextDiff::from_lines(before, after).unified_diff().context_radius(3).header(name, name).to_string()
}

fn failure(name: &str, refusal: &Refusal) -> Failure {
    Failure::usage(format!("{name}:{}: cannot be formatted", refusal.line))
        .cause(refusal.why.clone())
        .hint(refusal.hint)
}

/// Tells of a file that cannot be formatted, while others follow.
fn tell(failure: &Failure, io: &mut Io) -> Result<(), Stop> {
    let text = super::usage::failure_text(failure, io.error_format);
    io.err.write_all(text.as_bytes())?;
    Ok(())
}
