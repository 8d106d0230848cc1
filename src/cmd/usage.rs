//! Usage errors of `mixer`: one line with the offending argument, and a hint.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::exit::Failure;
use super::given::GivenAddresses;
pub(crate) use super::io::ErrorFormat;
use super::shown::Shown;

/// The value of `--error-format`, found without parsing the other arguments.
pub(crate) fn error_format(args: &[OsString]) -> ErrorFormat {
    let mut format = ErrorFormat::Text;
    let mut rest = args.iter().map(|a| a.to_string_lossy());
    while let Some(arg) = rest.next() {
        let value = match arg.strip_prefix("--error-format") {
            Some("") => rest.next().map(|value| value.into_owned()),
            Some(rest) => rest.strip_prefix('=').map(str::to_owned),
            None => None,
        };
        match value.as_deref() {
            Some("json") => format = ErrorFormat::Json,
            Some("text") => format = ErrorFormat::Text,
            _ => {}
        }
    }
    format
}

/// The text of a clap error, of help or of a version, without what is secret in the `given` addresses. `origin` names the file or the environment variable that holds the value of
/// a flag.
pub(crate) fn shown(
    error: &clap::Error,
    title: &str,
    root: &clap::Command,
    (format, given): (ErrorFormat, &GivenAddresses),
    origin: &dyn Fn(&str) -> Option<String>,
) -> Shown {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            use std::io::IsTerminal as _;
            let plain = std::env::var_os("NO_COLOR").is_some() || !std::io::stdout().is_terminal();
            let text = error.render();
            Shown::help(if plain { text.to_string() } else { text.ansi().to_string() })
        }
        _ => {
            let mut failure = failure(error, title);
            if let (ErrorKind::UnknownArgument, Some(unknown)) =
                (error.kind(), error.get(ContextKind::InvalidArg).map(text))
                && unknown.starts_with("--")
            {
                failure.hint = Some(
                    flag_hint(root, title, &flag_name(&unknown))
                        .unwrap_or_else(|| format!("see `{title} --help`")),
                );
            }
            if let (ErrorKind::UnknownArgument, Some(argument)) =
                (error.kind(), error.get(ContextKind::InvalidArg).map(text))
                && !argument.starts_with('-')
                && takes(root, title, "config")
            {
                let hint = "if it is the configuration, name it with the flag";
                failure.hint = Some(format!("{hint}: `--config {argument}`; see `{title} --help`"));
            }
            let flag = error.get(ContextKind::InvalidArg).map(text).map(|arg| flag_name(&arg));
            if matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation)
                && let Some(origin) = flag.and_then(|flag| origin(&flag))
            {
                failure.what = format!("{} in {origin}", failure.what);
            }
            shown_failure(failure.without(given), format)
        }
    }
}

/// The text and status of a failure before the command runs.
pub(crate) fn shown_failure(failure: Failure, format: ErrorFormat) -> Shown {
    let text = failure_text(&failure, format);
    Shown::failure(failure, text)
}

/// The text of a failure of `mixer`.
pub(crate) fn failure_text(failure: &Failure, format: ErrorFormat) -> String {
    match format {
        ErrorFormat::Text => failure.text(),
        ErrorFormat::Json => format!("{}\n", failure.json()),
    }
}

/// A clap error as a failure. Without a better hint, the hint is the help page of `title`.
pub(crate) fn failure(error: &clap::Error, title: &str) -> Failure {
    let get = |kind: ContextKind| error.get(kind).map(text).filter(|t| !t.is_empty());
    let arg = get(ContextKind::InvalidArg).map(|a| flag_name(&a));
    let value = get(ContextKind::InvalidValue).unwrap_or_default();
    let cause =
        std::error::Error::source(error).map(ToString::to_string).or_else(|| get(ContextKind::Custom));
    let (what, cause) = match error.kind() {
        ErrorKind::UnknownArgument => {
            let arg = arg.unwrap_or_default();
            let what = if arg.starts_with('-') { "unknown flag" } else { "unexpected argument" };
            (format!("{what} `{arg}`"), None)
        }
        ErrorKind::InvalidSubcommand => {
            let name = get(ContextKind::InvalidSubcommand).unwrap_or_default();
            (format!("unknown command `{name}`"), None)
        }
        ErrorKind::InvalidValue if value.is_empty() => {
            (format!("flag `{}` needs a value", arg.unwrap_or_default()), None)
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            (format!("invalid value `{value}` for `{}`", arg.unwrap_or_default()), cause)
        }
        ErrorKind::NoEquals => {
            (format!("flag `{}` requires its value after `=`", arg.unwrap_or_default()), None)
        }
        ErrorKind::MissingRequiredArgument => (format!("missing `{}`", arg.unwrap_or_default()), None),
        ErrorKind::MissingSubcommand => ("missing command".to_owned(), None),
        ErrorKind::ArgumentConflict => {
            let other = get(ContextKind::PriorArg).map(|a| flag_name(&a)).unwrap_or_default();
            (format!("`{}` cannot be combined with `{other}`", arg.unwrap_or_default()), None)
        }
        ErrorKind::TooManyValues | ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
            (format!("wrong number of values for `{}`", arg.unwrap_or_default()), None)
        }
        _ => (one_line(&error.to_string()), None),
    };
    let mut failure = Failure::usage(what);
    failure.cause = cause;
    failure.hint = hint(error).or_else(|| (!title.is_empty()).then(|| format!("see `{title} --help`")));
    failure
}

fn hint(error: &clap::Error) -> Option<String> {
    let suggested =
        [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue]
            .into_iter()
            .find_map(|kind| error.get(kind))
            .map(text)
            .filter(|t| !t.is_empty());
    let suggested = suggested.map(|name| format!("did you mean `{}`?", flag_name(&name)));
    let values = error.get(ContextKind::ValidValue).map(text).filter(|t| !t.is_empty());
    let values = values.map(|values| format!("one of {values}"));
    let parts: Vec<String> = suggested.into_iter().chain(values).collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// Words of other tools, or of other commands, for the flags of these.
const OTHER_WORDS: [(&str, &str); 20] = [
    ("addr", "server"),
    ("config-dir", "config"),
    ("config-path", "config"),
    ("config-store-url", "config"),
    ("debug", "verbose"),
    ("dir", "config"),
    ("endpoint", "server"),
    ("format", "output"),
    ("grpc", "server"),
    ("grpc-port", "port"),
    ("host", "server"),
    ("json", "output"),
    ("listen", "address"),
    ("live", "server"),
    ("log-level", "log-output-level"),
    ("mixer", "server"),
    ("namespace", "default-namespace"),
    ("silent", "quiet"),
    ("target", "server"),
    ("to", "config"),
];

/// The similarity from which on a flag is suggested: a letter in five may differ.
const NEAR: f64 = 0.75;

/// Whether the command of a title has a flag.
fn takes(root: &clap::Command, title: &str, flag: &str) -> bool {
    let command = title.split(' ').skip(1).try_fold(root, |command, part| command.find_subcommand(part));
    command.is_some_and(|command| {
        command.get_arguments().any(|arg| {
            let aliases = arg.get_visible_aliases().unwrap_or_default();
            arg.get_long() == Some(flag) || aliases.contains(&flag)
        })
    })
}

/// What a flag that the command does not have was probably meant to be: the nearest of its flags, or the flag of another command.
/// `title` is that of [`title`].
fn flag_hint(root: &clap::Command, title: &str, unknown: &str) -> Option<String> {
    let name = unknown.trim_start_matches('-').replace('_', "-").to_lowercase();
    let mut command = root;
    for part in title.split(' ').skip(1) {
        command = command.find_subcommand(part)?;
    }
    let names = |command: &clap::Command| -> Vec<String> {
        let visible = command.get_arguments().filter(|arg| !arg.is_hide_set());
        let each = visible.flat_map(|arg| {
            let aliases = arg.get_visible_aliases().unwrap_or_default();
            arg.get_long().into_iter().chain(aliases).map(str::to_owned).collect::<Vec<_>>()
        });
        each.collect()
    };
    let mut known = names(command);
    let global = root.get_arguments().filter(|arg| arg.is_global_set()).filter_map(clap::Arg::get_long);
    known.extend(global.map(str::to_owned).chain(["help".to_owned()]));
    let known_word = |word: &str| known.iter().any(|known| known == word);
    let meant = OTHER_WORDS.iter().find(|(word, flag)| *word == name && known_word(flag));
    if let Some((_, flag)) = meant {
        return Some(format!("did you mean `--{flag}`?"));
    }
    let near = |known: &&String| {
        // A part of a name counts like a name with few differences.
        let is_part = known.starts_with(&format!("{name}-")) || name.starts_with(&format!("{known}-"));
        strsim::normalized_damerau_levenshtein(&name, known).max(if is_part { NEAR } else { 0.0 })
    };
    if known.contains(&name) && unknown.strip_prefix("--") == Some(&name) {
        // It stands before the name of the command.
        return Some(format!("flags of a command follow its name: `{title} --{name} …`"));
    }
    let nearest = known.iter().max_by(|a, b| near(a).total_cmp(&near(b)));
    if let Some(flag) = nearest.filter(|flag| near(flag) >= NEAR) {
        return Some(format!("did you mean `--{flag}`?"));
    }
    let others = root.get_subcommands().filter(|other| !other.is_hide_set() && names(other).contains(&name));
    let others: Vec<String> = others.map(|other| format!("`mixer {}`", other.get_name())).collect();
    (!others.is_empty()).then(|| format!("it is a flag of {}; see `{title} --help`", others.join(", ")))
}

/// The command that the arguments select: `mixer crd all`.
pub(crate) fn title(root: &clap::Command, args: &[OsString]) -> String {
    let mut command = root;
    let mut names = vec![root.get_name()];
    for arg in args.iter().skip(1) {
        if let Some(next) = command.find_subcommand(arg) {
            names.push(next.get_name());
            command = next;
        }
    }
    names.join(" ")
}

/// The command line that prints the help page, if the arguments ask for one: `--help` and `-h` are never the value of the flag before
/// them. What follows the name of a command that takes any arguments is left alone.
pub(crate) fn help_request(root: &clap::Command, args: &[OsString]) -> Option<Vec<OsString>> {
    let mut command = root;
    let mut path = vec![OsString::from(root.get_name())];
    for arg in args.iter().skip(1).take_while(|arg| *arg != "--") {
        if arg == "--help" || arg == "-h" {
            path.push(arg.clone());
            return Some(path);
        }
        if command.get_positionals().any(clap::Arg::is_trailing_var_arg_set) {
            return None;
        }
        if let Some(next) = command.find_subcommand(arg) {
            path.push(next.get_name().into());
            command = next;
        }
    }
    None
}

fn text(value: &ContextValue) -> String {
    match value {
        ContextValue::String(text) => text.clone(),
        ContextValue::Strings(texts) => texts.join(", "),
        ContextValue::StyledStr(text) => text.to_string(),
        ContextValue::StyledStrs(texts) => {
            texts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        }
        _ => String::new(),
    }
}

/// `--repeat <COUNT>` without its value.
fn flag_name(arg: &str) -> String {
    if arg.starts_with('-') {
        return arg.split([' ', '=', '[']).next().unwrap_or(arg).to_owned();
    }
    arg.to_owned()
}

fn one_line(text: &str) -> String {
    let line = text.lines().find(|l| !l.trim().is_empty()).unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}
