//! `completions`: scripts that complete the command line in a shell.

use clap_complete::Shell;

use super::{Exit, Io, Outcome, Personality, tree};

/// Flags of `completions`.
#[derive(Debug, Clone, clap::Args)]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
    /// The name that the program is called by: mixer, mixs, mixc or galley.
    #[arg(long, default_value = "mixer", value_parser = ["mixer", "mixs", "mixc", "galley"], value_name = "NAME")]
    name: String,
}

/// Prints the script.
pub(crate) fn run(args: &CompletionsArgs, io: &mut Io) -> Outcome {
    io.out.write_all(&script(Personality::of_program(args.name.as_ref()), args.shell))?;
    Ok(Exit::Success)
}

/// The script for one name and shell. The same text is kept in `completions/`.
pub(crate) fn script(personality: Personality, shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    let mut command = tree::for_documents(personality);
    clap_complete::generate(shell, &mut command, personality.name(), &mut script);
    script
}
