//! Reads the flags of one command by the rules of Istio Mixer.

use std::fmt::Write as _;

use super::flag::{LegacyFlag, flags_of};
use crate::cmd::flag_type::FlagType;
use crate::cmd::go_syntax::go_bool;
use mixer_base::quote::quoted;

/// Logging flags from before 1.1: accepted without effect. Name and replacement.
const DEPRECATED: [(&str, &str); 4] = [
    ("v", "--log_output_level"),
    ("stderrthreshold", "--log_output_level"),
    ("logtostderr", "--log_target"),
    ("alsologtostderr", "--log_target"),
];

/// Reads flags in the order of the arguments.
pub(super) struct FlagReader {
    flags: Vec<LegacyFlag>,
    has_deprecated: bool,
    pub(super) help: bool,
    pub(super) positionals: Vec<String>,
    pub(super) rewritten: Vec<String>,
    pub(super) notices: String,
}

impl FlagReader {
    pub(super) fn new(command: &clap::Command) -> Self {
        Self {
            flags: flags_of(command).collect(),
            has_deprecated: matches!(command.get_name(), "server" | "probe"),
            help: false,
            positionals: Vec::new(),
            rewritten: Vec::new(),
            notices: String::new(),
        }
    }

    pub(super) fn read(&mut self, args: &[String]) -> Result<(), String> {
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
        if let Some((_, instead)) = DEPRECATED.iter().find(|(flag, _)| self.has_deprecated && *flag == name) {
            if given.is_none() && matches!(name, "v" | "stderrthreshold") && rest.next().is_none() {
                return Err(format!("flag needs an argument: {arg}"));
            }
            let _ = writeln!(self.notices, "Flag --{name} has been deprecated, please use {instead} instead");
            return Ok(());
        }
        let Some(index) = self.flags.iter().position(|f| f.name == name) else {
            return Err(format!("unknown flag: --{name}"));
        };
        let is_bool = self.flags.get(index).is_some_and(|f| f.flag_type.is_bool());
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
            if c == 'v' && self.has_deprecated {
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
            let is_bool = self.flags.get(index).is_some_and(|f| f.flag_type.is_bool());
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
        let shown = go_bool(value).map_err(|error| {
            let reason = error.text("ParseBool", value);
            format!("invalid argument {} for \"-h, --help\" flag: {reason}", quoted(value))
        })?;
        self.help = shown;
        Ok(())
    }

    fn set(&mut self, index: usize, value: &str) -> Result<(), String> {
        let Some(flag) = self.flags.get(index) else { return Ok(()) };
        if let Err(reason) = flag.flag_type.check(value) {
            return Err(format!(
                "invalid argument {} for {} flag: {reason}",
                quoted(value),
                quoted(&flag.display())
            ));
        }
        match flag.flag_type {
            FlagType::Switch if go_bool(value) == Ok(true) => {
                self.rewritten.push(format!("--{}", flag.canonical));
            }
            FlagType::Switch => {
                let canonical = format!("--{}", flag.canonical);
                self.rewritten.retain(|a| *a != canonical);
            }
            _ => self.rewritten.push(format!("--{}={value}", flag.canonical)),
        }
        Ok(())
    }
}
