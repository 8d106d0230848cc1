//! `routes show`: which requests reach which handlers.

mod matching;

use std::collections::BTreeSet;
use std::io::Write as _;

use serde_json::{Value, json};

use matching::Matches;

use super::attributes::{AttributeSet, AttributeType};
use super::exit::{Exit, Failure, Outcome, Stop};
use super::flags::joined;
use super::io::Io;
use super::output::{self, DumpFormat, counted, escaped, table_or_lines};
use super::source::ConfigSource;
use mixer_config::message::suggested;
use mixer_engine::routing::{DestinationOutline, GroupOutline, RoutingOutline, UnenforcedOutline, outline};
use mixer_engine::snapshot::Snapshot;
use mixer_engine::template::Variety;

/// Flags of `routes`.
#[derive(Debug, Clone, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct RoutesArgs {
    #[command(subcommand)]
    action: RoutesCommand,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum RoutesCommand {
    /// Print the routing table: variety, namespace, handler, condition, instances.
    ///
    /// With --match, routes that match a request with the given attributes are marked. Status 1: the server serves nothing.
    ///
    /// Example: mixer routes show --config fs:///etc/mixer --match source.user=ann --variety check
    Show(Box<ShowArgs>),
}

/// Flags of `routes show`.
#[derive(Debug, Clone, clap::Args)]
struct ShowArgs {
    #[command(flatten)]
    source: ConfigSource,
    /// Show routes of one variety: check, report, quota, attribute-generator or check-with-output.
    #[arg(long, value_parser = ["check", "report", "quota", "attribute-generator", "check-with-output"], value_name = "VARIETY")]
    variety: Option<String>,
    /// Show routes of one namespace. Exits with status 2 if none has routes of that name.
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Show routes to matching handlers; `*` matches any text. Exits with status 2 if there is none.
    #[arg(long, value_name = "PATTERN")]
    handler: Option<String>,
    /// Mark routes that match a request with these attributes: name1=value1,name2=value2,….
    ///
    /// Values have the declared type of their attribute. Repeatable.
    #[arg(long = "match", value_name = "LIST")]
    matching: Vec<String>,
    /// Output format; default: table on a terminal, else plain.
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT")]
    output: Option<DumpFormat>,
}

/// Prints the routes.
pub(crate) fn run(args: &RoutesArgs, io: &mut Io) -> Outcome {
    let RoutesCommand::Show(args) = &args.action;
    args.source.tell_lost(io)?;
    let (mut found, matches) = match args.source.running() {
        Some(server) => {
            if !args.matching.is_empty() {
                let failure = Failure::usage("`--match` requires --config, not --server");
                return Err(failure.hint("use --config URL").into());
            }
            let outline: RoutingOutline = serde_json::from_value(server.get("/routesj/")?)
                .map_err(|error| server.unexpected("a routing table", &error))?;
            (outline, None)
        }
        None => {
            let snapshot = args.source.snapshot(io)?;
            let outline = outline(&snapshot, &|_| true);
            let matches = matches(args, &snapshot, &outline)?;
            (outline, matches)
        }
    };
    if found.withheld.is_none() {
        names_something(&found, args)?;
    }
    filter(&mut found, args);
    match DumpFormat::or_default(args.output, io) {
        DumpFormat::Debug => io.out.write_all(output::escaped_lines(&found.to_string()).as_bytes())?,
        DumpFormat::Json => writeln!(io.out, "{}", output::json(&document(&found, matches.as_ref())))?,
        DumpFormat::Yaml => write!(io.out, "{}", output::yaml(&document(&found, matches.as_ref())))?,
        DumpFormat::Table => show_table(&found, matches.as_ref(), io.width, io)?,
        DumpFormat::Plain => show_table(&found, matches.as_ref(), usize::MAX, io)?,
    }
    Ok(if found.withheld.is_some() { Exit::Negative } else { Exit::Success })
}

fn matches(args: &ShowArgs, snapshot: &Snapshot, outline: &RoutingOutline) -> Result<Option<Matches>, Stop> {
    if args.matching.is_empty() {
        return Ok(None);
    }
    let mut set = AttributeSet::default();
    let given = set.add_flag(AttributeType::String, &joined(&args.matching));
    given.map_err(|invalid| Failure::usage(invalid.text).hint("the format is name=value,name=value"))?;
    if let Some(name) = set.repeated().first() {
        let failure = Failure::usage(format!("--match gives the attribute `{name}` several times"));
        return Err(failure.hint("a request has one value of it: ask once for each").into());
    }
    Ok(Some(Matches::new(snapshot, outline, &set)?))
}

/// Errors: a namespace or a handler is named that no route has, of whatever variety.
fn names_something(found: &RoutingOutline, args: &ShowArgs) -> Result<(), Failure> {
    if let Some(name) = &args.namespace {
        let known: BTreeSet<&str> = routes(found).map(|(_, namespace, ..)| namespace).collect();
        if !known.contains(name.as_str()) {
            let failure = Failure::usage(format!("the namespace `{name}` has no routes of its own"));
            let near = suggested(name, known.iter().copied()).map(|near| format!("did you mean `{near}`?"));
            let default = &found.default_namespace;
            return Err(failure.hint(
                near.unwrap_or_else(|| {
                    format!("requests of it take the routes of the namespace `{default}`")
                }),
            ));
        }
    }
    if let Some(pattern) = &args.handler {
        let known: BTreeSet<&str> = routes(found).map(|(_, _, to, _)| to.handler.as_str()).collect();
        if !known.iter().any(|handler| glob(pattern, handler)) {
            let failure = Failure::usage(format!("no route leads to a handler `{pattern}`"));
            let near = suggested(pattern, known.iter().copied()).or_else(|| named(pattern, &known));
            return Err(failure.hint(match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "a handler is named in full, NAME.NAMESPACE, or by a pattern: NAME*".to_owned(),
            }));
        }
    }
    Ok(())
}

/// The handler whose name, without kind and namespace, is this one or the nearest.
fn named<'k>(name: &str, known: &BTreeSet<&'k str>) -> Option<&'k str> {
    let first = |full: &'k str| full.split('.').next().unwrap_or(full);
    let near = suggested(name, known.iter().map(|full| first(full)))?;
    known.iter().copied().find(|full| first(full) == near)
}

fn filter(found: &mut RoutingOutline, args: &ShowArgs) {
    let variety =
        args.variety.as_deref().and_then(|name| Variety::ALL.iter().find(|v| v.short_name() == name));
    if args.variety.is_some() || args.namespace.is_some() || args.handler.is_some() {
        // Envoy routes have no variety, namespace or handler.
        found.envoy.clear();
    }
    found.varieties.retain(|v| variety.is_none_or(|variety| variety.name() == v.variety));
    for variety in &mut found.varieties {
        variety.namespaces.retain(|n| args.namespace.as_ref().is_none_or(|name| *name == n.namespace));
        for namespace in &mut variety.namespaces {
            namespace
                .destinations
                .retain(|d| args.handler.as_ref().is_none_or(|pattern| glob(pattern, &d.handler)));
        }
        variety.namespaces.retain(|n| !n.destinations.is_empty());
    }
    found.varieties.retain(|v| !v.namespaces.is_empty());
}

/// Whether a text matches a pattern in which `*` matches any text.
fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = pattern.rsplit('*').next().filter(|_| pattern.contains('*')) else {
        return rest.is_empty();
    };
    let middle: Vec<&str> = parts.collect();
    for part in middle.iter().take(middle.len().saturating_sub(1)) {
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Every route with its variety, namespace and destination.
fn routes(found: &RoutingOutline) -> impl Iterator<Item = (&str, &str, &DestinationOutline, &GroupOutline)> {
    found.varieties.iter().flat_map(|variety| {
        variety.namespaces.iter().flat_map(move |namespace| {
            namespace.destinations.iter().flat_map(move |destination| {
                let each = destination.groups.iter();
                each.map(move |group| (&*variety.variety, namespace.namespace.as_str(), destination, group))
            })
        })
    })
}

fn show_table(
    found: &RoutingOutline,
    matches: Option<&Matches>,
    width: usize,
    io: &mut Io,
) -> Result<(), Stop> {
    let mut rows = Vec::new();
    let mut inherited = false;
    for (variety, namespace, destination, group) in routes(found) {
        inherited |= destination.inherited;
        let short = Variety::ALL.iter().find(|v| v.name() == variety).map_or(variety, |v| v.short_name());
        let star = if destination.inherited { "*" } else { "" };
        let rule = |rule: &String| {
            let kept = if group.previous_version.contains(rule) { " (previous version)" } else { "" };
            format!("{}{kept}", rule.split('.').next().unwrap_or(rule))
        };
        let mark = match group.dry_run {
            true => " (dry run)",
            false if found.shadows_checks() && variety == Variety::Check.name() => " (shadow)",
            false => "",
        };
        let mut row = vec![
            short.to_owned(),
            namespace.to_owned(),
            format!("{}{star}", destination.handler),
            destination.adapter.clone(),
            group.condition.clone().map_or_else(|| "(always)".to_owned(), |c| one_line(&c)),
            group.instances.join(", "),
            group.rules.iter().map(rule).collect::<Vec<_>>().join(", ") + mark,
        ];
        if let Some(matches) = matches {
            row.insert(0, matches.of(variety, namespace, group).label().to_owned());
        }
        rows.push(row);
    }
    let mut headers = vec!["VARIETY", "NAMESPACE", "HANDLER", "ADAPTER", "CONDITION", "INSTANCES", "RULES"];
    if matches.is_some() {
        headers.insert(0, "MATCH");
    }
    io.out.write_all(table_or_lines(&headers, &rows, width).as_bytes())?;
    let count = counted(rows.len(), "route");
    let note =
        if inherited { format!("  * inherited from {}", found.default_namespace) } else { String::new() };
    writeln!(io.out, "{count}, snapshot {}.{note}", found.id)?;
    for UnenforcedOutline { what, resource, place, .. } in &found.not_enforced {
        writeln!(io.out, "not enforced (shadow): {}", escaped(&format!("{what}; {resource} ({place})")))?;
    }
    if !found.envoy.is_empty() {
        let each = found.envoy.iter();
        let rows: Vec<Vec<String>> = each
            .map(|route| vec![route.what.clone(), route.from.clone(), route.to.clone(), route.place.clone()])
            .collect();
        writeln!(io.out)?;
        io.out.write_all(table_or_lines(&["ENVOY", "FROM", "TO", "FILE"], &rows, width).as_bytes())?;
    }
    if let Some(why) = &found.withheld {
        writeln!(io.out, "nothing serves: {}; calls are answered with UNAVAILABLE", escaped(why))?;
    }
    Ok(())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn document(found: &RoutingOutline, matches: Option<&Matches>) -> Value {
    let mut document = json!({"apiVersion": "mixer/v1", "kind": "RoutingTable"});
    let mut table = serde_json::to_value(found).unwrap_or_default();
    if let Some(matches) = matches {
        mark(&mut table, found, matches);
    }
    if let (Some(target), Value::Object(members)) = (document.as_object_mut(), table) {
        target.extend(members);
    }
    document
}

/// Adds `matches` and, where a condition fails, `cause` to every group.
fn mark(table: &mut Value, found: &RoutingOutline, matches: &Matches) {
    for (v, variety) in found.varieties.iter().enumerate() {
        for (n, namespace) in variety.namespaces.iter().enumerate() {
            for (d, destination) in namespace.destinations.iter().enumerate() {
                for (g, group) in destination.groups.iter().enumerate() {
                    let outcome = matches.of(&variety.variety, &namespace.namespace, group);
                    let pointer = format!("/varieties/{v}/namespaces/{n}/destinations/{d}/groups/{g}");
                    if let Some(group) = table.pointer_mut(&pointer).and_then(Value::as_object_mut) {
                        group.insert("matches".to_owned(), json!(outcome.matches()));
                        if let Some(cause) = outcome.cause() {
                            group.insert("cause".to_owned(), json!(cause));
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn globs_match() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*c", "abc", true),
            ("a*b*c", "axbxc", true),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("a*b*c", "axc", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(glob(pattern, text), fits, "{pattern} {text}");
        }
    }
}
