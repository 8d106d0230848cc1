//! `completions`: shell completion scripts.

use clap::ValueHint;
use clap_complete::Shell;

use super::exit::{Exit, Outcome};
use super::explain_code;
use super::flag_type::FlagType;
use super::io::Io;
use super::personality::Personality;

/// Flags of `completions`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
    /// Program name: mixer, mixs, mixc or galley.
    #[arg(long, default_value = "mixer", value_parser = ["mixer", "mixs", "mixc", "galley"], value_name = "NAME")]
    name: String,
}

/// Prints the script. `tree` returns the command tree of a program name.
pub(crate) fn run(args: &CompletionsArgs, tree: fn(Personality) -> clap::Command, io: &mut Io) -> Outcome {
    let personality = Personality::of_program(args.name.as_ref());
    io.out.write_all(&script(&tree(personality), args.shell))?;
    Ok(Exit::Success)
}

/// The script for one program and shell; `completions/` holds the same text.
pub(crate) fn script(command: &clap::Command, shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    let mut command = with_flags_of_others(visible(command));
    clap_complete::generate(shell, &mut command, name.as_str(), &mut script);
    match shell {
        Shell::Fish => with_fish_values(&command, &name, &String::from_utf8_lossy(&script)).into_bytes(),
        _ => script,
    }
}

/// The script for fish with what its generator leaves out: values of arguments that are no flags, and those of a flag before the subcommand,
/// while the value is not written yet.
fn with_fish_values(command: &clap::Command, name: &str, script: &str) -> String {
    // The line ends in a flag without its value, of which `argparse` says that it is an error: there is no subcommand yet.
    let unparsed = "-- $cmd 2>/dev/null\n    or return\n";
    let mut script = script.replacen(unparsed, "-- $cmd 2>/dev/null\n    or return 0\n", 1);
    for first in command.get_subcommands() {
        let using = format!("__fish_{name}_using_subcommand {}", first.get_name());
        script.push_str(&fish_values(first, name, &using));
        for second in first.get_subcommands() {
            let seen = format!("{using}; and __fish_seen_subcommand_from {}", second.get_name());
            script.push_str(&fish_values(second, name, &seen));
        }
    }
    script
}

/// The lines for the values of the arguments of a command that are no flags.
fn fish_values(command: &clap::Command, name: &str, condition: &str) -> String {
    let values = command.get_positionals().flat_map(|arg| {
        let values: Vec<String> =
            arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        (!values.is_empty()).then(|| values.join(" "))
    });
    values.map(|values| format!("complete -c {name} -n \"{condition}\" -f -a \"{values}\"\n")).collect()
}

/// A command without what is hidden; its flags say which values they have.
fn visible(command: &clap::Command) -> clap::Command {
    let mut copy = clap::Command::new(command.get_name().to_owned());
    if let Some(about) = command.get_about() {
        copy = copy.about(about.clone());
    }
    if let Some(version) = command.get_version() {
        copy = copy.version(version.to_owned());
    }
    copy.args(command.get_arguments().filter(|arg| !arg.is_hide_set()).cloned().map(with_values))
        .subcommands(command.get_subcommands().filter(|c| !c.is_hide_set()).map(visible))
}

/// `doctor` takes the flags of `server`.
fn with_flags_of_others(root: clap::Command) -> clap::Command {
    let Some(server) = root.find_subcommand("server").cloned() else { return root };
    if root.find_subcommand("doctor").is_none() {
        return root;
    }
    root.mut_subcommand("doctor", |doctor| {
        let own: Vec<clap::Id> = doctor.get_arguments().map(|arg| arg.get_id().clone()).collect();
        doctor.args(server.get_arguments().filter(|arg| !own.contains(arg.get_id())).cloned())
    })
}

/// An argument with the values that a shell can complete.
fn with_values(arg: clap::Arg) -> clap::Arg {
    if arg.get_id() == "code" {
        return arg.value_parser(clap::builder::PossibleValuesParser::new(explain_code::names()));
    }
    if FlagType::of(&arg) == FlagType::Bool {
        return arg.value_parser(["true", "false"]);
    }
    if !arg.get_action().takes_values() || !arg.get_possible_values().is_empty() {
        return arg;
    }
    let name = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let hint = match (arg.get_id().as_str(), name.as_deref().unwrap_or_default()) {
        ("config" | "config_store_url" | "from" | "to", _) => ValueHint::AnyPath,
        (_, "FILE" | "PATH" | "FILE|ADDRESS") => ValueHint::AnyPath,
        (_, "DIR") => ValueHint::DirPath,
        (_, "ADDRESS") => ValueHint::Hostname,
        (_, "URL") => ValueHint::Url,
        _ => ValueHint::Other,
    };
    arg.value_hint(hint)
}
