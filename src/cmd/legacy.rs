//! The command lines of `mixs`, `mixc` and `galley`: parsed by the rules of the originals, refused in their words.
//!
//! The flags come from the same clap tree that `mixer` uses. [`parse`] reads the arguments by the old rules and rewrites them to
//! `--flag=value`, which clap then only has to sort into structs.
//! Spec: cli-operations.md 1.1.

use std::fmt::Write as _;

use super::value::{Kind, quote};

/// Shorthands that the originals have, by command; any other shorthand belongs to `mixer` alone.
const SHORTHANDS: [(&str, &str); 5] = [
    ("check", "mrqasidbtc"),
    ("report", "mrasidbtc"),
    ("server", "p"),
    ("version", "so"),
    ("collateral", "o"),
];

/// Flags of the log library before 1.1: accepted, without effect, and the flag to use instead.
const RETIRED: [(&str, Option<char>, &str); 4] = [
    ("v", Some('v'), "--log_output_level"),
    ("stderrthreshold", None, "--log_output_level"),
    ("logtostderr", None, "--log_target"),
    ("alsologtostderr", None, "--log_target"),
];

/// What a legacy command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// Run a command; arguments for clap, program name first.
    Run {
        /// Rewritten arguments.
        args: Vec<String>,
        /// Usage block, for errors found later.
        usage: String,
        /// Lines for standard error about retired flags.
        notices: String,
    },
    /// Text for standard output, status 0.
    Help(String),
    /// Text for standard error, status 255.
    Refused(String),
}

/// Reads `args` (without the program name) by the rules of the originals.
pub(crate) fn parse(root: &clap::Command, args: &[String]) -> Parsed {
    let walk = Walk::new(root, args);
    let command = walk.command;
    let title = walk.title();
    if command.has_subcommands()
        && let Some(name) = strip_flags(&walk.args, command).first()
    {
        if name == "help" && walk.path.len() == 1 {
            return help_topic(root, &without_first(&walk.args, root, "help"));
        }
        return Parsed::Refused(unknown_command(&title, command, name));
    }
    let mut flags = FlagReader::new(command);
    if let Err(error) = flags.read(&walk.args) {
        return refused(root, &title, command, &error);
    }
    if flags.help || command.has_subcommands() {
        return Parsed::Help(help(&title, command));
    }
    if !flags.positionals.is_empty() {
        let error = format!("accepts 0 arg(s), received {}", flags.positionals.len());
        return refused(root, &title, command, &error);
    }
    let mut args = walk.path;
    args.append(&mut flags.rewritten);
    Parsed::Run { args, usage: usage(&title, command), notices: flags.notices }
}

fn refused(root: &clap::Command, title: &str, command: &clap::Command, error: &str) -> Parsed {
    Parsed::Refused(usage_error(root.get_name(), error, &usage(title, command)))
}

/// An error of the command line as the originals print it: galley gives the line alone, the others the usage block too.
pub(crate) fn usage_error(program: &str, error: &str, usage: &str) -> String {
    if program == "galley" { format!("Error: {error}\n") } else { format!("Error: {error}\n{usage}\n") }
}

/// The way from the root to the command that the arguments name.
struct Walk<'c> {
    command: &'c clap::Command,
    path: Vec<String>,
    args: Vec<String>,
}

impl<'c> Walk<'c> {
    fn new(root: &'c clap::Command, args: &[String]) -> Self {
        let mut walk = Walk { command: root, path: vec![root.get_name().to_owned()], args: args.to_vec() };
        while let Some(name) = strip_flags(&walk.args, walk.command).first() {
            let Some(next) = walk.command.find_subcommand(name) else { break };
            walk.args = without_first(&walk.args, walk.command, name);
            walk.path.push(name.clone());
            walk.command = next;
        }
        walk
    }

    fn title(&self) -> String {
        self.path.join(" ")
    }
}

/// Whether `arg` is a flag whose value is the next argument, as far as the originals can tell before they know the command.
fn takes_next(arg: &str, command: &clap::Command) -> bool {
    if arg.contains('=') {
        return false;
    }
    let known_bool = |name: &str| flags_of(command).any(|f| f.kind.is_bool() && f.name == name);
    match arg.strip_prefix("--") {
        Some(name) => !known_bool(name),
        None => {
            let mut rest = arg.strip_prefix('-').unwrap_or_default().chars();
            match (rest.next(), rest.next()) {
                (Some(c), None) => !flags_of(command).any(|f| f.kind.is_bool() && f.short == Some(c)),
                _ => false,
            }
        }
    }
}

/// The arguments that are neither flags nor, by the look of them, values of flags.
fn strip_flags(args: &[String], command: &clap::Command) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        if arg == "--" {
            break;
        }
        if arg.starts_with('-') {
            if takes_next(arg, command) && rest.next().is_none() {
                break;
            }
        } else if !arg.is_empty() {
            words.push(arg.clone());
        }
    }
    words
}

/// The arguments without the first one that is `name` and no value of a flag.
fn without_first(args: &[String], command: &clap::Command, name: &str) -> Vec<String> {
    let mut skip_value = false;
    for (i, arg) in args.iter().enumerate() {
        if skip_value {
            skip_value = false;
            continue;
        }
        if arg == "--" {
            break;
        }
        if arg.starts_with('-') {
            skip_value = takes_next(arg, command);
        } else if arg == name {
            return args.iter().take(i).chain(args.iter().skip(i + 1)).cloned().collect();
        }
    }
    args.to_vec()
}

/// A flag as the originals see it.
struct Flag {
    /// The old spelling.
    name: String,
    /// The spelling for clap.
    canonical: String,
    short: Option<char>,
    kind: Kind,
    help: String,
    default: String,
    hidden: bool,
}

impl Flag {
    fn display(&self) -> String {
        match self.short {
            Some(c) => format!("-{c}, --{}", self.name),
            None => format!("--{}", self.name),
        }
    }
}

/// The flags of a command: the first alias is the old spelling, else the name itself is.
fn flags_of(command: &clap::Command) -> impl Iterator<Item = Flag> {
    let shorthands =
        SHORTHANDS.iter().find(|(name, _)| *name == command.get_name()).map_or("", |(_, letters)| letters);
    command.get_arguments().filter(|a| !a.is_positional()).filter_map(move |arg| {
        let canonical = arg.get_long()?.to_owned();
        let old = arg.get_all_aliases().and_then(|aliases| aliases.first().map(|a| (*a).to_owned()));
        Some(Flag {
            name: old.unwrap_or_else(|| canonical.clone()),
            canonical,
            short: arg.get_short().filter(|c| shorthands.contains(*c)),
            kind: Kind::of(arg),
            help: arg.get_help().map(|h| h.to_string()).unwrap_or_default(),
            default: arg
                .get_default_values()
                .iter()
                .map(|v| v.to_string_lossy().into_owned())
                .collect::<Vec<_>>()
                .join(","),
            hidden: arg.is_hide_set() || matches!(canonical_builtin(arg), Some("help" | "version")),
        })
    })
}

fn canonical_builtin(arg: &clap::Arg) -> Option<&str> {
    matches!(arg.get_action(), clap::ArgAction::Help | clap::ArgAction::HelpLong | clap::ArgAction::Version)
        .then(|| arg.get_id().as_str())
}

/// Reads flags one after the other.
struct FlagReader {
    flags: Vec<Flag>,
    retired: bool,
    help: bool,
    positionals: Vec<String>,
    rewritten: Vec<String>,
    notices: String,
}

impl FlagReader {
    fn new(command: &clap::Command) -> Self {
        Self {
            flags: flags_of(command).collect(),
            retired: matches!(command.get_name(), "server" | "probe"),
            help: false,
            positionals: Vec::new(),
            rewritten: Vec::new(),
            notices: String::new(),
        }
    }

    fn read(&mut self, args: &[String]) -> Result<(), String> {
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            if arg == "--" {
                self.positionals.extend(rest.by_ref().cloned());
            } else if let Some(long) = arg.strip_prefix("--") {
                self.long(arg, long, &mut rest)?;
            } else if let Some(letters) = arg.strip_prefix('-').filter(|l| !l.is_empty()) {
                self.short(letters, &mut rest)?;
            } else {
                self.positionals.push(arg.clone());
            }
        }
        Ok(())
    }

    fn long(&mut self, arg: &str, long: &str, rest: &mut std::slice::Iter<'_, String>) -> Result<(), String> {
        if long.starts_with(['-', '=']) {
            return Err(format!("bad flag syntax: {arg}"));
        }
        let (name, given) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, None),
        };
        if name == "help" {
            return self.set_help(given.as_deref());
        }
        if let Some((_, _, instead)) = RETIRED.iter().find(|(r, ..)| self.retired && *r == name) {
            if given.is_none() && matches!(name, "v" | "stderrthreshold") && rest.next().is_none() {
                return Err(format!("flag needs an argument: {arg}"));
            }
            let _ = writeln!(self.notices, "Flag --{name} has been deprecated, please use {instead} instead");
            return Ok(());
        }
        let Some(index) = self.flags.iter().position(|f| f.name == name) else {
            return Err(format!("unknown flag: --{name}"));
        };
        let is_bool = self.flags.get(index).is_some_and(|f| f.kind.is_bool());
        let value = match given {
            Some(value) => value,
            None if is_bool => "true".to_owned(),
            None => rest.next().cloned().ok_or_else(|| format!("flag needs an argument: {arg}"))?,
        };
        self.set(index, &value)
    }

    fn short(&mut self, letters: &str, rest: &mut std::slice::Iter<'_, String>) -> Result<(), String> {
        let mut letters = letters;
        while let Some(c) = letters.chars().next() {
            let tail = letters.get(c.len_utf8()..).unwrap_or_default();
            if c == 'h' {
                self.help = true;
                letters = tail;
                continue;
            }
            if c == 'v' && self.retired {
                let line = "Flag shorthand -v has been deprecated, please use --log_output_level instead";
                let _ = writeln!(self.notices, "{line}");
                if tail.is_empty() && rest.next().is_none() {
                    return Err(format!("flag needs an argument: 'v' in -{letters}"));
                }
                return self.long("--v", "v=", rest);
            }
            let Some(index) = self.flags.iter().position(|f| f.short == Some(c)) else {
                return Err(format!("unknown shorthand flag: '{c}' in -{letters}"));
            };
            let is_bool = self.flags.get(index).is_some_and(|f| f.kind.is_bool());
            match tail.strip_prefix('=') {
                Some(value) if !value.is_empty() => return self.set(index, value),
                _ if is_bool => self.set(index, "true")?,
                _ if !tail.is_empty() => return self.set(index, tail),
                _ => {
                    let value =
                        rest.next().ok_or_else(|| format!("flag needs an argument: '{c}' in -{letters}"))?;
                    return self.set(index, value);
                }
            }
            letters = tail;
        }
        Ok(())
    }

    fn set_help(&mut self, given: Option<&str>) -> Result<(), String> {
        let value = given.unwrap_or("true");
        let shown = super::value::go_bool(value).map_err(|error| {
            let reason = error.text("ParseBool", value);
            format!("invalid argument {} for \"-h, --help\" flag: {reason}", quote(value))
        })?;
        self.help = shown;
        Ok(())
    }

    fn set(&mut self, index: usize, value: &str) -> Result<(), String> {
        let Some(flag) = self.flags.get(index) else { return Ok(()) };
        if let Err(reason) = flag.kind.check(value) {
            return Err(format!(
                "invalid argument {} for {} flag: {reason}",
                quote(value),
                quote(&flag.display())
            ));
        }
        match flag.kind {
            Kind::Switch if super::value::go_bool(value) == Ok(true) => {
                self.rewritten.push(format!("--{}", flag.canonical));
            }
            Kind::Switch => {
                let canonical = format!("--{}", flag.canonical);
                self.rewritten.retain(|a| *a != canonical);
            }
            _ => self.rewritten.push(format!("--{}={value}", flag.canonical)),
        }
        Ok(())
    }
}

fn unknown_command(title: &str, command: &clap::Command, name: &str) -> String {
    let mut text = format!("Error: unknown command {} for {}\n", quote(name), quote(title));
    let typed = name.to_lowercase();
    let near: Vec<&str> = command
        .get_subcommands()
        .filter(|c| !c.is_hide_set())
        .map(clap::Command::get_name)
        .filter(|c| *c != "help" && (strsim::levenshtein(&typed, c) <= 2 || c.starts_with(&typed)))
        .collect();
    if !near.is_empty() {
        text.push_str("\nDid you mean this?\n");
        for name in near {
            let _ = writeln!(text, "\t{name}");
        }
        text.push('\n');
    }
    let _ = writeln!(text, "Run '{title} --help' for usage.");
    text
}

fn help_topic(root: &clap::Command, args: &[String]) -> Parsed {
    let walk = Walk::new(root, args);
    if let Some(unknown) = strip_flags(&walk.args, walk.command).first() {
        return Parsed::Refused(format!(
            "Unknown help topic [`{unknown}`]\n{}",
            usage(root.get_name(), root)
        ));
    }
    Parsed::Help(help(&walk.title(), walk.command))
}

fn help(title: &str, command: &clap::Command) -> String {
    let about = command.get_long_about().or_else(|| command.get_about());
    let about = about.map(|a| a.to_string()).unwrap_or_default();
    format!("{}\n\n{}", about.trim_end(), usage(title, command))
}

/// The block that starts with `Usage:`.
fn usage(title: &str, command: &clap::Command) -> String {
    let mut text = String::from("Usage:\n");
    let commands: Vec<&clap::Command> = command.get_subcommands().filter(|c| !c.is_hide_set()).collect();
    if commands.is_empty() {
        let _ = writeln!(text, "  {title} [flags]");
    } else {
        let _ = writeln!(text, "  {title} [command]\n\nAvailable Commands:");
        let about = |c: &clap::Command| c.get_about().map(|a| a.to_string()).unwrap_or_default();
        let mut lines: Vec<(String, String)> =
            commands.iter().map(|c| (c.get_name().to_owned(), about(c))).collect();
        if !title.contains(' ') {
            lines.push(("help".to_owned(), "Help about any command".to_owned()));
        }
        lines.sort();
        for (name, about) in lines {
            let _ = writeln!(text, "  {name:<11} {about}");
        }
    }
    let _ = write!(text, "\nFlags:\n{}", flag_lines(command));
    if !commands.is_empty() {
        let _ = writeln!(text, "\nUse \"{title} [command] --help\" for more information about a command.");
    }
    text
}

fn flag_lines(command: &clap::Command) -> String {
    let mut rows: Vec<(String, String, String)> = flags_of(command)
        .filter(|f| !f.hidden)
        .map(|f| (f.name.clone(), left_column(&f), right_column(&f)))
        .collect();
    rows.push(("help".to_owned(), "  -h, --help".to_owned(), format!("help for {}", command.get_name())));
    rows.sort();
    let width = rows.iter().map(|(_, left, _)| left.len()).max().unwrap_or(0);
    rows.iter().map(|(_, left, right)| format!("{left:<width$}   {right}\n")).collect()
}

fn left_column(flag: &Flag) -> String {
    let short = flag.short.map_or_else(|| "      ".to_owned(), |c| format!("  -{c}, "));
    let name = if flag.kind.name().is_empty() { String::new() } else { format!(" {}", flag.kind.name()) };
    format!("{short}--{}{name}", flag.name)
}

fn right_column(flag: &Flag) -> String {
    let shown = match flag.kind {
        _ if matches!(flag.default.as_str(), "" | "0" | "0s" | "false") => return flag.help.clone(),
        Kind::Text => quote(&flag.default),
        Kind::TextArray => format!("[{}]", flag.default),
        _ => flag.default.clone(),
    };
    format!("{} (default {shown})", flag.help)
}
