//! `version`: prints version and build information.

use std::io::Write as _;

use serde_json::{Value, json};

use super::exit::{Exit, Failure, Outcome};
use super::io::Io;
use super::output;
use super::personality::Personality;
use super::value;
use mixer_base::build_info::BuildInfo;

/// Flags of `version`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct VersionArgs {
    /// Print the version only.
    #[arg(
        short = 's', long, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", value_parser = value::boolean, hide_default_value = true,
        hide_possible_values = true, value_name = "BOOL"
    )]
    short: bool,
    /// One of 'yaml' or 'json'; overrides --short.
    #[arg(short = 'o', long, default_value = "", hide_default_value = true, value_name = "FORMAT")]
    output: String,
}

/// Prints version and build information.
pub(crate) fn run(args: &VersionArgs, personality: Personality, io: &mut Io) -> Outcome {
    let info = if personality.is_legacy() { BuildInfo::stamped() } else { BuildInfo::of_this_program() };
    let document = json!({ "clientVersion": build_info(&info, personality) });
    match args.output.as_str() {
        "json" => writeln!(io.out, "{}", output::json(&document))?,
        "yaml" => writeln!(io.out, "{}", output::yaml(&sorted(&document)))?,
        "" if args.short => writeln!(io.out, "{}", info.version)?,
        "" if personality.is_legacy() => writeln!(io.out, "{}", info.long())?,
        "" | "plain" | "table" => write!(io.out, "{}\n{}", title(&info), info.known())?,
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

fn build_info(info: &BuildInfo, personality: Personality) -> Value {
    let mut document = json!({
        "version": info.version,
        "revision": info.revision,
        "user": info.user,
        "host": info.host,
        "golang_version": info.toolchain,
        "hub": info.hub,
        "status": info.status,
        "tag": info.tag,
    });
    // compat(1.3): legacy output has exactly the members of Istio.
    if !personality.is_legacy()
        && let Some(members) = document.as_object_mut()
    {
        members.insert("runtime".to_owned(), json!(info.toolchain));
    }
    document
}

fn sorted(document: &Value) -> Value {
    let Value::Object(members) = document else { return document.clone() };
    let mut pairs: Vec<(String, Value)> = members.iter().map(|(k, v)| (k.clone(), sorted(v))).collect();
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    Value::Object(pairs.into_iter().collect())
}
