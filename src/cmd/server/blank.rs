//! Settings that are given without a value.
//!
//! A value that is empty is mostly a variable that is not set. Taken for the default, it would serve in plain text, without client
//! certificates or without a token.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;

use super::config_file::{is_setting, server_args};
use crate::cmd::flag_type::FlagType;

/// Settings of which an empty value means something.
const MAY_BE_BLANK: [&str; 1] = ["decision_mask"];

/// Whether the value of an argument is a text that must not be blank.
pub(super) fn needs_text(arg: &clap::Arg) -> bool {
    let id = arg.get_id().as_str();
    is_setting(id)
        && !MAY_BE_BLANK.contains(&id)
        && matches!(FlagType::of(arg), FlagType::Text | FlagType::TextArray)
        && arg.get_possible_values().is_empty()
}

/// Refuses a setting of `server` that is given, and blank. `root` is the command tree.
///
/// Errors: the first such setting; the context `Custom` has the cause.
pub(crate) fn refuse_blank(root: &clap::Command, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
    let Some(given) = matches.subcommand_matches("server") else { return Ok(()) };
    let is_blank = |arg: &&clap::Arg| {
        let id = arg.get_id().as_str();
        let is_given =
            matches!(given.value_source(id), Some(ValueSource::CommandLine | ValueSource::EnvVariable));
        let mut values = given.get_raw(id).into_iter().flatten();
        is_given && values.any(|value| value.to_string_lossy().trim().is_empty())
    };
    let Some(arg) = server_args(root).filter(|arg| needs_text(arg)).find(is_blank) else { return Ok(()) };
    let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy());
    let default = defaults.filter(|value| !value.is_empty()).collect::<Vec<_>>().join(",");
    let without = match default.is_empty() {
        true => "leave the setting out if it is not wanted".to_owned(),
        false => format!("leave the setting out for `{default}`"),
    };
    let cause = format!("the value is empty, for example because a variable is not set; {without}");
    let mut error = clap::Error::new(ErrorKind::ValueValidation).with_cmd(root);
    let long = arg.get_long().unwrap_or_default();
    error.insert(ContextKind::InvalidArg, ContextValue::String(format!("--{long}")));
    error.insert(ContextKind::InvalidValue, ContextValue::String(String::new()));
    error.insert(ContextKind::Custom, ContextValue::String(cause));
    Err(error)
}
