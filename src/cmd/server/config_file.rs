//! `--config-file` and `--print-config`: settings from a file, and the origin of each setting.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::blank::needs_text;
use super::environment::{nearest, variable};
use crate::cmd::exit::{Failure, Stop};
use crate::cmd::flag_type::FlagType;
use crate::cmd::io::Io;
use crate::cmd::output;
use mixer_base::regular_file;
use mixer_base::rotate::os_text;
use mixer_base::secrets::{is_address, mask_address, mask_text};

/// Command-line arguments merged with the settings of a file.
pub(crate) struct MergedArgs {
    /// For clap.
    pub(crate) args: Vec<OsString>,
    /// Canonical names of the settings taken from the file, and the lines they are on.
    from_file: BTreeMap<String, usize>,
    /// The file; empty without one.
    file: PathBuf,
    /// The arguments of `server` on the command line.
    given: Vec<OsString>,
}

/// Adds the settings of `--config-file` to the arguments of `server`, except those given as flags. With `environment`, settings
/// given by environment variables are left out as well, because they take precedence. `root` is the command tree.
///
/// Errors: the file cannot be read, or is not a map of known settings. With `environment`, so is a file without text: its writer may not
/// have finished.
pub(crate) fn with_config_file(
    mut args: Vec<OsString>,
    root: &clap::Command,
    environment: bool,
) -> Result<MergedArgs, Failure> {
    let server = args.iter().position(|a| a == "server").unwrap_or(args.len());
    let given: Vec<OsString> = args.iter().skip(server + 1).cloned().collect();
    let Some(path) = config_file(&given) else {
        return Ok(MergedArgs { args, from_file: BTreeMap::new(), file: PathBuf::new(), given });
    };
    let mut settings = read(&path, root, environment)?;
    // A flag replaces the setting of the file, lists included.
    for arg in server_args(root) {
        if is_given(arg, &given) {
            arg.get_long().map(|long| settings.remove(long));
        }
    }
    if environment {
        settings.retain(|name, _| std::env::var_os(variable(name)).is_none());
    }
    let from_file = settings.iter().map(|(name, setting)| (name.clone(), setting.line)).collect();
    let added: Vec<OsString> = settings
        .into_iter()
        .flat_map(|(name, setting)| {
            setting.values.into_iter().map(move |v| OsString::from(format!("--{name}={v}")))
        })
        .collect();
    args.splice(server + 1..server + 1, added);
    Ok(MergedArgs { args, from_file, file: path, given })
}

impl MergedArgs {
    /// The origin of a `server` flag that is set in the file or the environment; `None` for a flag on the command line and for a
    /// default.
    pub(crate) fn origin_of(&self, root: &clap::Command, flag: &str) -> Option<String> {
        let long = flag.strip_prefix("--")?;
        let arg = server_args(root).find(|arg| arg.get_long() == Some(long))?;
        if is_given(arg, &self.given) {
            return None;
        }
        if let Some(line) = self.from_file.get(long) {
            return Some(format!("`{}`, line {line}", self.file.display()));
        }
        let variable = variable(long);
        std::env::var_os(&variable).map(|_| format!("the environment variable {variable}"))
    }
}

/// The arguments of `server`.
pub(super) fn server_args(root: &clap::Command) -> impl Iterator<Item = &clap::Arg> {
    root.find_subcommand("server").into_iter().flat_map(clap::Command::get_arguments)
}

/// A setting in the file.
struct FileSetting {
    values: Vec<String>,
    /// 1-based.
    line: usize,
}

/// The line of the first, or the last, top-level key of a name; 1 if the key is spelled in a way that is not recognized.
fn line_of(text: &str, key: &str, last: bool) -> usize {
    let is_key = |line: &str| {
        let line = line.trim_start().trim_start_matches(['"', '\'', '{']);
        let rest = line.strip_prefix(key).map(|rest| rest.trim_start_matches(['"', '\'']).trim_start());
        rest.is_some_and(|rest| rest.starts_with([':', '=']))
    };
    let mut all = text.lines().enumerate().filter(|(_, line)| is_key(line));
    let found = if last { all.last() } else { all.next() };
    found.map_or(1, |(at, _)| at + 1)
}

/// The value of the last `--config-file`.
fn config_file(args: &[OsString]) -> Option<PathBuf> {
    let mut found = None;
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let text = arg.to_string_lossy();
        match text.strip_prefix("--config-file") {
            Some("") => found = rest.next().map(PathBuf::from),
            Some(rest) => found = rest.strip_prefix('=').map(PathBuf::from).or(found),
            None => {}
        }
    }
    found
}

/// The setting of the configuration store.
const STORE_URL_SETTING: &str = "config-store-url";
/// The similarity from which on a name is suggested for an unknown setting.
const NEAR: f64 = 0.8;
/// Maximum size of a settings file, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Reads a settings file: values by canonical name. With `environment`, a file of white space is an error, and a text without a value
/// is an empty one, which the parser refuses.
fn read(
    path: &Path,
    root: &clap::Command,
    environment: bool,
) -> Result<BTreeMap<String, FileSetting>, Failure> {
    let shown = path.display();
    let refuse =
        |cause: String| Failure::local(format!("cannot read the settings in `{shown}`")).cause(cause);
    let text = regular_file::read_text(path, MAX_FILE).map_err(|e| refuse(os_text(&e)))?;
    if environment && text.trim().is_empty() {
        let hint = "a comment in it says that nothing is set; or leave --config-file out";
        return Err(refuse("the file is empty".to_owned()).hint(hint));
    }
    let is_toml = path.extension().is_some_and(|e| e == "toml");
    let document: Entries = if is_toml {
        toml::from_str(&text).map_err(|e| {
            let before = e.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            refuse(format!("line {}: {}", before.matches('\n').count() + 1, e.message()))
        })?
    } else {
        serde_yaml::from_str(&text).map_err(|e| refuse(e.to_string()))?
    };
    let names = names(root);
    let mut settings: BTreeMap<String, FileSetting> = BTreeMap::new();
    let mut keys: BTreeMap<String, String> = BTreeMap::new();
    for (key, value) in document.0 {
        let Some(name) = names.get(&key) else {
            let line = line_of(&text, &key, false);
            let failure = refuse(format!("line {line}: unknown setting `{key}`"));
            return Err(match nearest(&key, names.keys().map(String::as_str), NEAR) {
                Some(near) => failure.hint(format!("did you mean `{near}`?")),
                None => failure.hint("see `mixer server --help`; keys are flag names"),
            });
        };
        if let Some(earlier) = keys.insert(name.long.clone(), key.clone()) {
            let (line, first) = (line_of(&text, &key, true), line_of(&text, &earlier, false));
            let failure = refuse(format!("line {line}: `{key}` is set twice, first on line {first}"));
            return Err(failure.hint("remove one"));
        }
        // A text without a value is one whose variable was not set; another setting without a value has its default.
        let is_refused = name.is_text && (environment || name.long == STORE_URL_SETTING);
        if value.is_null() && !is_refused {
            continue;
        }
        let line = line_of(&text, &key, false);
        let wrong = || refuse(format!("line {line}: `{key}` is not a scalar or a list of scalars"));
        let mut values = match value.is_null() {
            true => Vec::new(),
            false => scalars(&value).ok_or_else(wrong)?,
        };
        if values.is_empty() && is_refused {
            values.push(String::new());
        }
        settings.insert(name.long.clone(), FileSetting { values, line });
    }
    Ok(settings)
}

/// The entries of a map in their order, keys that occur twice included; none for null.
struct Entries(Vec<(String, Value)>);

impl<'de> serde::Deserialize<'de> for Entries {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> serde::de::Visitor<'de> for EntriesVisitor {
    type Value = Entries;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a map of flag names and values")
    }

    fn visit_unit<E>(self) -> Result<Entries, E> {
        Ok(Entries(Vec::new()))
    }

    /// A file without a document.
    fn visit_none<E>(self) -> Result<Entries, E> {
        Ok(Entries(Vec::new()))
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Entries(entries))
    }
}

/// A setting that a file may have.
#[derive(Clone)]
struct Known {
    /// The canonical name.
    long: String,
    /// Whether its value is a text that must not be blank.
    is_text: bool,
}

/// Settings by the spellings of their names.
fn names(root: &clap::Command) -> BTreeMap<String, Known> {
    let mut names = BTreeMap::new();
    for arg in server_args(root) {
        let Some(long) = arg.get_long().filter(|_| is_setting(arg.get_id().as_str())) else { continue };
        let known = Known { long: long.to_owned(), is_text: needs_text(arg) };
        for alias in arg.get_all_aliases().unwrap_or_default() {
            names.insert(alias.to_owned(), known.clone());
        }
        names.insert(long.to_owned(), known);
    }
    names
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

/// The origin of a setting that is not given.
const DEFAULT: &str = "default";

/// A setting and its origin.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    name: String,
    value: Value,
    origin: String,
}

impl Setting {
    /// Its value without secrets.
    fn shown(&self) -> Value {
        let mask = |text: &str| match is_address(&self.name) {
            true => mask_address(text).into_owned(),
            false => mask_text(text).into_owned(),
        };
        match &self.value {
            Value::String(text) => Value::from(mask(text)),
            Value::Array(items) => items
                .iter()
                .map(|item| item.as_str().map_or_else(|| item.clone(), |text| mask(text).into()))
                .collect(),
            other => other.clone(),
        }
    }
}

/// Says that a setting which has its default gets another value from a flag.
pub(super) fn replace_default(settings: &mut [Setting], name: &str, value: &str) {
    let default = |setting: &&mut Setting| setting.name == name && setting.origin == DEFAULT;
    if let Some(setting) = settings.iter_mut().find(default) {
        setting.value = Value::from(value);
        "flag".clone_into(&mut setting.origin);
    }
}

/// Says what the default of a setting is that depends on how the program is called.
pub(super) fn tell_default(settings: &mut [Setting], name: &str, value: impl Into<Value>) {
    let unset = |setting: &&mut Setting| setting.name == name && setting.value.is_null();
    if let Some(setting) = settings.iter_mut().find(unset) {
        setting.value = value.into();
    }
}

/// Prints settings as YAML for `--config-file`, with the origin as a comment. One without a value is a comment itself, and the comment of one
/// of which something is masked says so: the file needs the secret again.
pub(super) fn print(settings: &[Setting], io: &mut Io) -> Result<(), Stop> {
    for setting in settings {
        let shown = setting.shown();
        let line = output::yaml(&BTreeMap::from([(&setting.name, &shown)]));
        let is_unset = setting.value.is_null() || setting.value.as_str() == Some("");
        let line = if is_unset && setting.origin == DEFAULT { format!("# {line}") } else { line };
        let mut lines = line.trim_end().lines();
        let masked = if shown == setting.value { "" } else { ", masked" };
        writeln!(io.out, "{:<48} # {}{masked}", lines.next().unwrap_or_default(), setting.origin)?;
        for item in lines {
            writeln!(io.out, "{item}")?;
        }
    }
    Ok(())
}

/// Every setting with its origin, in the order of the help page.
pub(super) fn settings(
    root: &clap::Command,
    matches: &clap::ArgMatches,
    merged: &MergedArgs,
) -> Vec<Setting> {
    use clap::parser::ValueSource;
    let mut settings = Vec::new();
    for arg in server_args(root) {
        let id = arg.get_id().as_str();
        let Some(long) = arg.get_long().filter(|_| is_setting(id)) else { continue };
        let raw = matches.get_raw(id).into_iter().flatten();
        let value = typed(arg, raw.map(|v| v.to_string_lossy().into_owned()).collect());
        let origin = match matches.value_source(id) {
            Some(ValueSource::EnvVariable) => format!("environment {}", variable(long)),
            Some(ValueSource::CommandLine) if is_given(arg, &merged.given) => "flag".to_owned(),
            Some(ValueSource::CommandLine) if merged.from_file.contains_key(long) => "file".to_owned(),
            Some(ValueSource::CommandLine) => "flag".to_owned(),
            _ => DEFAULT.to_owned(),
        };
        settings.push(Setting { name: long.to_owned(), value, origin });
    }
    settings
}

/// Whether an argument of `server` is a setting.
pub(super) fn is_setting(id: &str) -> bool {
    !matches!(
        id,
        "config_file" | "print_config" | "dry_run" | "help" | "color" | "error_format" | "verbose" | "quiet"
    )
}

/// Whether the arguments contain a flag in any of its spellings.
fn is_given(arg: &clap::Arg, args: &[OsString]) -> bool {
    let aliases = arg.get_all_aliases().unwrap_or_default();
    let longs: Vec<String> =
        arg.get_long().into_iter().chain(aliases).map(|name| format!("--{name}")).collect();
    args.iter().map(|a| a.to_string_lossy()).any(|given| {
        let name = given.split('=').next().unwrap_or_default();
        longs.iter().any(|long| long == name)
            || arg.get_short().is_some_and(|c| given.starts_with(&format!("-{c}")))
    })
}

fn typed(arg: &clap::Arg, mut raw: Vec<String>) -> Value {
    if matches!(arg.get_action(), clap::ArgAction::Append) {
        return Value::from(raw);
    }
    let Some(text) = raw.pop() else { return Value::Null };
    match FlagType::of(arg) {
        FlagType::Int | FlagType::Int32 | FlagType::Uint | FlagType::Uint16 | FlagType::Uint32 => {
            text.parse::<i64>().map_or(Value::from(text), Value::from)
        }
        FlagType::Bool | FlagType::Switch => text.parse::<bool>().map_or(Value::from(text), Value::from),
        _ => Value::from(text),
    }
}
