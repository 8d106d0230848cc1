//! Finds the command in the arguments of a legacy program.

use super::flag::flags_of;

/// The path from the root to the selected command.
pub(super) struct CommandPath<'c> {
    pub(super) command: &'c clap::Command,
    pub(super) path: Vec<String>,
    /// The arguments without the command names.
    pub(super) args: Vec<String>,
}

impl<'c> CommandPath<'c> {
    pub(super) fn new(root: &'c clap::Command, args: &[String]) -> Self {
        let mut found =
            CommandPath { command: root, path: vec![root.get_name().to_owned()], args: args.to_vec() };
        while let Some(name) = strip_flags(&found.args, found.command).first() {
            let Some(next) = found.command.find_subcommand(name) else { break };
            found.args = without_first(&found.args, found.command, name);
            found.path.push(name.clone());
            found.command = next;
        }
        found
    }

    pub(super) fn title(&self) -> String {
        self.path.join(" ")
    }
}

/// Whether `arg` is a flag whose value is the next argument, as far as Istio Mixer can tell before the command is known.
fn takes_next(arg: &str, command: &clap::Command) -> bool {
    if arg.contains('=') {
        return false;
    }
    let known_bool = |name: &str| flags_of(command).any(|f| f.flag_type.is_bool() && f.name == name);
    match arg.strip_prefix("--") {
        Some(name) => !known_bool(name),
        None => {
            let mut rest = arg.strip_prefix('-').unwrap_or_default().chars();
            match (rest.next(), rest.next()) {
                (Some(c), None) => !flags_of(command).any(|f| f.flag_type.is_bool() && f.short == Some(c)),
                _ => false,
            }
        }
    }
}

/// The arguments that are neither flags nor, by their position, values of flags.
pub(super) fn strip_flags(args: &[String], command: &clap::Command) -> Vec<String> {
    let mut positionals = Vec::new();
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
            positionals.push(arg.clone());
        }
    }
    positionals
}

/// The arguments without the first one that is `name` and not the value of a flag.
pub(super) fn without_first(args: &[String], command: &clap::Command, name: &str) -> Vec<String> {
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
