//! `version`: what this program is and how it was built.

use std::io::Write as _;

use serde_json::{Value, json};

use super::output;
use super::{Exit, Failure, Io, Outcome, Personality};
use mixer_base::build_info::BuildInfo;

/// Flags of `version`.
#[derive(Debug, Clone, clap::Args)]
pub struct VersionArgs {
    /// Print the version alone.
    #[arg(
        short = 's', long, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", value_parser = super::value::boolean, hide_default_value = true,
        hide_possible_values = true, value_name = "BOOL"
    )]
    short: bool,
    /// One of 'yaml' or 'json'; wins over --short.
    #[arg(short = 'o', long, default_value = "", hide_default_value = true, value_name = "FORMAT")]
    output: String,
}

/// Prints the build words. Spec: cli-operations.md 1.5.
pub(crate) fn run(args: &VersionArgs, personality: Personality, io: &mut Io) -> Outcome {
    let info = if personality.is_legacy() { BuildInfo::stamped() } else { BuildInfo::of_this_program() };
    let document = json!({ "clientVersion": words(&info, personality) });
    match args.output.as_str() {
        "json" => writeln!(io.out, "{}", output::json(&document))?,
        "yaml" => writeln!(io.out, "{}", output::yaml(&sorted(&document)))?,
        "" if args.short => writeln!(io.out, "{}", info.version)?,
        "" if personality.is_legacy() => writeln!(io.out, "{}", info.long())?,
        "" | "plain" | "table" => write!(io.out, "{}\n{}GitTag: {}\n", title(&info), info.long(), info.tag)?,
        other => {
            let text = "--output must be 'yaml' or 'json'";
            let failure = Failure::usage(format!("invalid value `{other}` for `--output`"));
            return Err(failure.hint("one of table, plain, json, yaml").legacy(text).with_usage().into());
        }
    }
    Ok(Exit::Success)
}

fn title(info: &BuildInfo) -> String {
    format!("mixer {}", info.version)
}

fn words(info: &BuildInfo, personality: Personality) -> Value {
    let mut words = json!({
        "version": info.version,
        "revision": info.revision,
        "user": info.user,
        "host": info.host,
        "golang_version": info.toolchain,
        "hub": info.hub,
        "status": info.status,
        "tag": info.tag,
    });
    // The originals' readers get exactly the members that they know.
    if !personality.is_legacy()
        && let Some(members) = words.as_object_mut()
    {
        members.insert("runtime".to_owned(), json!(info.toolchain));
    }
    words
}

fn sorted(document: &Value) -> Value {
    let Value::Object(members) = document else { return document.clone() };
    let mut pairs: Vec<(String, Value)> = members.iter().map(|(k, v)| (k.clone(), sorted(v))).collect();
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    Value::Object(pairs.into_iter().collect())
}
