//! The flag that allows an empty configuration.

use crate::cmd::value;

/// Whether an empty configuration is meant.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct EmptyConfigFlags {
    /// Accept a configuration without resources, which allows every request.
    ///
    /// Without it an empty configuration counts as lost: a server goes on with the last good one or answers no call, unless
    /// --config-on-error is serve-valid.
    #[arg(
        long, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", value_parser = value::boolean,
        hide_possible_values = true, value_name = "BOOL"
    )]
    pub(crate) allow_empty_config: bool,
}
