//! The command lines of `mixs`, `mixc` and `galley`: syntax, help and error texts of Istio 1.0 to 1.3.
//!
//! The flags come from the clap tree of `mixer`. [`parse`] reads the arguments by the legacy rules and rewrites them to
//! `--flag=value` for clap.

mod flag;
mod help;
mod path;
mod reader;

use std::fmt::Write as _;

use help::{help, usage};
use mixer_base::quote::quoted;
use path::{CommandPath, strip_flags, without_first};
use reader::FlagReader;

/// The result of parsing a legacy command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LegacyCommandLine {
    /// Run a command; arguments for clap, program name first.
    Run {
        /// Rewritten arguments.
        args: Vec<String>,
        /// Usage block, for errors found later.
        usage: String,
        /// Deprecation notices for standard error.
        notices: String,
    },
    /// Text for standard output, status 0.
    Help(String),
    /// Text for standard error, status 255.
    Error(String),
}

/// Parses `args` (without the program name) by the rules of Istio Mixer.
pub(crate) fn parse(root: &clap::Command, args: &[String]) -> LegacyCommandLine {
    let found = CommandPath::new(root, args);
    let command = found.command;
    let title = found.title();
    if command.has_subcommands()
        && let Some(name) = strip_flags(&found.args, command).first()
    {
        if name == "help" && found.path.len() == 1 {
            return help_topic(root, &without_first(&found.args, root, "help"));
        }
        return LegacyCommandLine::Error(unknown_command(&title, command, name));
    }
    let mut flags = FlagReader::new(command);
    if let Err(error) = flags.read(&found.args) {
        return flag_error(root, &title, command, &error);
    }
    if flags.help || command.has_subcommands() {
        return LegacyCommandLine::Help(help(&title, command));
    }
    if !flags.positionals.is_empty() {
        let error = format!("accepts 0 arg(s), received {}", flags.positionals.len());
        return flag_error(root, &title, command, &error);
    }
    let mut args = found.path;
    args.append(&mut flags.rewritten);
    LegacyCommandLine::Run { args, usage: usage(&title, command), notices: flags.notices }
}

fn flag_error(root: &clap::Command, title: &str, command: &clap::Command, error: &str) -> LegacyCommandLine {
    LegacyCommandLine::Error(usage_error(root.get_name(), error, &usage(title, command)))
}

/// A usage error in the layout of Istio: galley prints the line alone, the others the usage block after it.
pub(crate) fn usage_error(program: &str, error: &str, usage: &str) -> String {
    if program == "galley" { format!("Error: {error}\n") } else { format!("Error: {error}\n{usage}\n") }
}

fn unknown_command(title: &str, command: &clap::Command, name: &str) -> String {
    let mut text = format!("Error: unknown command {} for {}\n", quoted(name), quoted(title));
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

fn help_topic(root: &clap::Command, args: &[String]) -> LegacyCommandLine {
    let found = CommandPath::new(root, args);
    if let Some(unknown) = strip_flags(&found.args, found.command).first() {
        return LegacyCommandLine::Error(format!(
            "Unknown help topic [`{unknown}`]\n{}",
            usage(root.get_name(), root)
        ));
    }
    LegacyCommandLine::Help(help(&found.title(), found.command))
}
