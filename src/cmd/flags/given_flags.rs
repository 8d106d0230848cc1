//! Which flags a command line gives.

use std::collections::BTreeSet;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

/// The flags that were given, by their ids: on the command line, or in a configuration file that became part of it. Not in the environment, which
/// sets a flag for commands of all kinds. Flattened into the flags of a command as the first of them, it adds none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GivenFlags(BTreeSet<String>);

impl GivenFlags {
    /// Whether a flag was given. `id` is its name with `_` or `-`.
    pub(crate) fn has(&self, flag: &str) -> bool {
        self.0.contains(&spelled(flag))
    }
}

fn spelled(id: &str) -> String {
    id.replace('_', "-")
}

impl clap::Args for GivenFlags {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl clap::FromArgMatches for GivenFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_given = |id: &&clap::Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
        Ok(Self(matches.ids().filter(is_given).map(|id| spelled(id.as_str())).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
