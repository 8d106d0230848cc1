//! `completions`: shell completion scripts.

use clap_complete::Shell;

use super::exit::{Exit, Outcome};
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
    io.out.write_all(&script(tree(personality), args.shell))?;
    Ok(Exit::Success)
}

/// The script for one program and shell; `completions/` holds the same text.
pub(crate) fn script(mut command: clap::Command, shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(shell, &mut command, name, &mut script);
    script
}
