//! `--config-file` and `--print-config`: settings from a file, and where each setting comes from.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::super::value::Kind;
use super::super::{Failure, Io, Stop, output, tree};
use mixer_base::rotate::os_text;

/// Arguments with the settings of a file mixed in.
pub(crate) struct Merged {
    /// For clap.
    pub(crate) args: Vec<OsString>,
    /// Canonical names of the settings that the file has a say in, with the lines where they stand.
    from_file: BTreeMap<String, usize>,
    /// The file; empty without one.
    file: PathBuf,
    /// The arguments of `server` as given.
    given: Vec<OsString>,
}

/// Adds the settings of `--config-file` to the arguments of `server`, but for those that are given. With `environment`,
/// settings that an environment variable holds are left out, because it wins as well.
///
/// Errors: a file that cannot be read or is no map of known names.
pub(crate) fn with_config_file(mut args: Vec<OsString>, environment: bool) -> Result<Merged, Failure> {
    let server = args.iter().position(|a| a == "server").unwrap_or(args.len());
    let given: Vec<OsString> = args.iter().skip(server + 1).cloned().collect();
    let Some(path) = config_file(&given) else {
        return Ok(Merged { args, from_file: BTreeMap::new(), file: PathBuf::new(), given });
    };
    let mut settings = read(&path)?;
    // A flag that is given replaces what the file says, lists included.
    let root = tree::native(false);
    for arg in root.find_subcommand("server").into_iter().flat_map(clap::Command::get_arguments) {
        if is_given(arg, &given) {
            arg.get_long().map(|long| settings.remove(long));
        }
    }
    if environment {
        settings.retain(|name, _| std::env::var_os(tree::variable(name)).is_none());
    }
    let from_file = settings.iter().map(|(name, setting)| (name.clone(), setting.line)).collect();
    let added: Vec<OsString> = settings
        .into_iter()
        .flat_map(|(name, setting)| {
            setting.values.into_iter().map(move |v| OsString::from(format!("--{name}={v}")))
        })
        .collect();
    args.splice(server + 1..server + 1, added);
    Ok(Merged { args, from_file, file: path, given })
}

impl Merged {
    /// Where the value of a flag of `server` stands that is not among the arguments; `None` if it is, or is the default.
    pub(crate) fn place_of(&self, flag: &str) -> Option<String> {
        let long = flag.strip_prefix("--")?;
        let root = tree::native(false);
        let server = root.find_subcommand("server")?;
        let arg = server.get_arguments().find(|arg| arg.get_long() == Some(long))?;
        if is_given(arg, &self.given) {
            return None;
        }
        if let Some(line) = self.from_file.get(long) {
            return Some(format!("`{}`, line {line}", self.file.display()));
        }
        let variable = tree::variable(long);
        std::env::var_os(&variable).map(|_| format!("the environment variable {variable}"))
    }
}

/// A setting of a file.
struct Entry {
    values: Vec<String>,
    /// From 1.
    line: usize,
}

/// The line where a key of the outermost map stands; 1 if it is written in a way that is not looked for.
fn line_of(text: &str, key: &str) -> usize {
    let is_key = |line: &str| {
        let line = line.trim_start().trim_start_matches(['"', '\'', '{']);
        let rest = line.strip_prefix(key).map(|rest| rest.trim_start_matches(['"', '\'']).trim_start());
        rest.is_some_and(|rest| rest.starts_with([':', '=']))
    };
    text.lines().position(is_key).map_or(1, |at| at + 1)
}

/// The file named by the last `--config-file`.
fn config_file(args: &[OsString]) -> Option<PathBuf> {
    let mut found = None;
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        match text.strip_prefix("--config-file") {
            Some("") => found = words.next().map(PathBuf::from),
            Some(rest) => found = rest.strip_prefix('=').map(PathBuf::from).or(found),
            None => {}
        }
    }
    found
}

/// Canonical names and values of a settings file.
fn read(path: &Path) -> Result<BTreeMap<String, Entry>, Failure> {
    let shown = path.display();
    let refuse =
        |cause: String| Failure::local(format!("cannot read the settings in `{shown}`")).cause(cause);
    let text = std::fs::read_to_string(path).map_err(|e| refuse(os_text(&e)))?;
    let is_toml = path.extension().is_some_and(|e| e == "toml");
    let document: Value = if is_toml {
        toml::from_str(&text).map_err(|e| {
            let before = e.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            refuse(format!("line {}: {}", before.matches('\n').count() + 1, e.message()))
        })?
    } else {
        serde_yaml::from_str(&text).map_err(|e| refuse(e.to_string()))?
    };
    let members = match document {
        Value::Object(members) => members,
        Value::Null => return Ok(BTreeMap::new()),
        _ => return Err(refuse("expected a map of flag names and values".to_owned())),
    };
    let names = names();
    let mut settings = BTreeMap::new();
    // A setting without a value is one that is not set, as `--print-config` shows it.
    for (key, value) in members.into_iter().filter(|(_, value)| !value.is_null()) {
        let Some(name) = names.get(&key) else {
            let failure = refuse(format!("line {}: unknown setting `{key}`", line_of(&text, &key)));
            return Err(match nearest(&key, &names) {
                Some(near) => failure.hint(format!("did you mean `{near}`?")),
                None => failure.hint("see `mixer server --help`; names are those of the flags"),
            });
        };
        let line = line_of(&text, &key);
        let wrong = || refuse(format!("line {line}: `{key}` is neither a scalar nor a list of scalars"));
        let values = scalars(&value).ok_or_else(wrong)?;
        settings.insert(name.clone(), Entry { values, line });
    }
    Ok(settings)
}

/// Every spelling of every setting, with its canonical name.
fn names() -> BTreeMap<String, String> {
    let root = tree::native(false);
    let mut names = BTreeMap::new();
    for arg in root.find_subcommand("server").into_iter().flat_map(clap::Command::get_arguments) {
        let Some(long) = arg.get_long().filter(|_| is_setting(arg.get_id().as_str())) else { continue };
        names.insert(long.to_owned(), long.to_owned());
        for alias in arg.get_all_aliases().unwrap_or_default() {
            names.insert(alias.to_owned(), long.to_owned());
        }
    }
    names
}

fn nearest<'n>(key: &str, names: &'n BTreeMap<String, String>) -> Option<&'n str> {
    let scored = names.keys().map(|name| (strsim::jaro_winkler(key, name), name));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.8).then_some(best.1.as_str())
}

fn scalars(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(vec![text.clone()]),
        Value::Bool(_) | Value::Number(_) => Some(vec![value.to_string()]),
        Value::Array(items) => {
            items.iter().map(scalars).collect::<Option<Vec<_>>>().map(|lists| lists.concat())
        }
        Value::Null | Value::Object(_) => None,
    }
}

/// A setting of the server and where it comes from.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    name: String,
    value: Value,
    origin: String,
}

/// Prints settings as YAML that `--config-file` takes, the origin as a comment.
pub(super) fn print(settings: &[Setting], io: &mut Io) -> Result<(), Stop> {
    for setting in settings {
        let line = output::yaml(&BTreeMap::from([(&setting.name, &setting.value)]));
        let mut lines = line.trim_end().lines();
        writeln!(io.out, "{:<48} # {}", lines.next().unwrap_or_default(), setting.origin)?;
        for item in lines {
            writeln!(io.out, "{item}")?;
        }
    }
    Ok(())
}

/// Value and origin of every setting, in the order of the help page.
pub(super) fn settings(root: &clap::Command, matches: &clap::ArgMatches, merged: &Merged) -> Vec<Setting> {
    use clap::parser::ValueSource;
    let mut settings = Vec::new();
    for arg in root.find_subcommand("server").into_iter().flat_map(clap::Command::get_arguments) {
        let id = arg.get_id().as_str();
        let Some(long) = arg.get_long().filter(|_| is_setting(id)) else { continue };
        let raw = matches.get_raw(id).into_iter().flatten();
        let value = typed(arg, raw.map(|v| v.to_string_lossy().into_owned()).collect());
        let origin = match matches.value_source(id) {
            Some(ValueSource::EnvVariable) => format!("environment {}", tree::variable(long)),
            Some(ValueSource::CommandLine) if is_given(arg, &merged.given) => "flag".to_owned(),
            Some(ValueSource::CommandLine) if merged.from_file.contains_key(long) => "file".to_owned(),
            Some(ValueSource::CommandLine) => "flag".to_owned(),
            _ => "default".to_owned(),
        };
        settings.push(Setting { name: long.to_owned(), value, origin });
    }
    settings
}

/// Whether an argument of `server` is a setting, and not about settings.
fn is_setting(id: &str) -> bool {
    !matches!(id, "config_file" | "print_config" | "dry_run" | "help" | "color" | "error_format")
}

/// Whether one of the spellings of a flag stands among the arguments.
fn is_given(arg: &clap::Arg, args: &[OsString]) -> bool {
    let aliases = arg.get_all_aliases().unwrap_or_default();
    let longs: Vec<String> =
        arg.get_long().into_iter().chain(aliases).map(|name| format!("--{name}")).collect();
    args.iter().map(|a| a.to_string_lossy()).any(|word| {
        let name = word.split('=').next().unwrap_or_default();
        longs.iter().any(|long| long == name)
            || arg.get_short().is_some_and(|c| word.starts_with(&format!("-{c}")))
    })
}

fn typed(arg: &clap::Arg, mut raw: Vec<String>) -> Value {
    if matches!(arg.get_action(), clap::ArgAction::Append) {
        return Value::from(raw);
    }
    let Some(text) = raw.pop() else { return Value::Null };
    match Kind::of(arg) {
        Kind::Int | Kind::Int32 | Kind::Uint | Kind::Uint16 | Kind::Uint32 => {
            text.parse::<i64>().map_or(Value::from(text), Value::from)
        }
        Kind::Bool | Kind::Switch => text.parse::<bool>().map_or(Value::from(text), Value::from),
        _ => Value::from(text),
    }
}
