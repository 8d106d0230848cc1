//! `eval`: evaluates an expression over given attributes, without a server.

use std::io::Write as _;
use std::sync::Arc;

use bumpalo::Bump;
use prost::Message as _;
use serde_json::{Value as Json, json};

use super::attributes::{AttributeSet, Dictionary, encode};
use super::exit::{Exit, Failure, Outcome, Stop};
use super::flags::{AttributeFlags, GivenFlags, Lost, NamespaceFlags, tell_lost};
use super::io::{Io, Style};
use super::language::selected_language;
use super::output::{self, OutputFormat, escaped};
use super::source;
use mixer_attribute::{AttributeBag, ValueType, Vocabulary};
use mixer_config::message::suggestion;
use mixer_config::{Diagnostic, Severity};
use mixer_engine::snapshot::{RefusedExpression, Snapshot, examine_expression};
use mixer_expr::{Explanation, Language};

/// Flags of `eval`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct EvalArgs {
    /// Those that are given. The first field: the others take their values out of the matches.
    #[command(flatten)]
    given: GivenFlags,
    /// The expression, as in the `match` of a rule. Example: 'request.method == "GET"'.
    #[arg(value_name = "EXPRESSION")]
    expression: String,
    /// Its language: CEXL (the classic one), CEL or COMPAT. Default: that of ISTIO_LANG, or CEXL.
    #[arg(long, value_parser = ["CEXL", "CEL", "COMPAT"], hide_possible_values = true, value_name = "LANGUAGE")]
    lang: Option<String>,
    /// Configuration whose attribute manifests declare attributes: a path, a URL, or `-`. Given and standard attributes need none.
    #[arg(long, value_name = "CONFIG")]
    config: Option<String>,
    #[command(flatten)]
    namespace: NamespaceFlags,
    #[command(flatten)]
    attributes: AttributeFlags,
    /// Output format; default: table on a terminal, else plain, which is the value alone.
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT")]
    output: Option<OutputFormat>,
}

/// Flags that have no effect beside others.
const IDLE: &[Lost<EvalArgs>] =
    &[Lost::idle(&["default-namespace"], |args| args.config.is_none(), "it is for --config")];

/// Evaluates and prints the value. Exits with status 1 if it is `false`, or if the expression cannot be evaluated.
pub(crate) fn run(args: &EvalArgs, io: &mut Io) -> Outcome {
    tell_lost(IDLE, &args.given, args, io)?;
    let set = args.attributes.parse(&mut io.input)?;
    let vocabulary = vocabulary(args, &set, io)?;
    let mistyped = set.mistyped(&vocabulary.whole);
    for remark in set.repetitions().chain(mistyped).chain(vocabulary.unread(args, &set)) {
        io.warn(&remark)?;
    }
    let vocabulary = &vocabulary.whole;
    let language = match &args.lang {
        Some(name) => Language::from_name(name),
        None => selected_language()?.unwrap_or_default(),
    };
    let (program, problems) = examine_expression(language, &args.expression, vocabulary)
        .map_err(|refused| invalid(&args.expression, &refused))?;
    let (certain, suspicions): (Vec<_>, Vec<_>) =
        problems.into_iter().partition(|problem| problem.severity == Severity::Error);
    for problem in &suspicions {
        io.warn(&remark(problem))?;
    }
    let encoded = encode(&set, Dictionary::Message).encode_to_vec();
    let arena = Bump::new();
    let bag = AttributeBag::decode(&encoded, None, vocabulary, &arena)
        .map_err(|error| Failure::usage("invalid attributes").cause(error.to_string()))?;
    let part = program.explain(&bag);
    let failure = program.eval(&bag).err().map(|error| error.to_string());
    let is_false = failure.is_some() || program.eval(&bag) == Ok(mixer_attribute::Value::Bool(false));
    let default = if io.out_is_terminal { OutputFormat::Table } else { OutputFormat::Plain };
    let document = || document(&part, program.value_type(), failure.as_deref());
    let format = args.output.unwrap_or(default);
    if format != OutputFormat::Plain {
        for problem in &certain {
            io.warn(&remark(problem))?;
        }
    }
    match format {
        OutputFormat::Json => writeln!(io.out, "{}", output::json(&document()))?,
        OutputFormat::Yaml => write!(io.out, "{}", output::yaml(&document()))?,
        OutputFormat::Plain => match failure {
            Some(failure) => return Err(failed(&args.expression, failure, certain.first()).into()),
            None => writeln!(io.out, "{}", escaped(&part.outcome.to_string()))?,
        },
        OutputFormat::Table => {
            let value = io.paint(Style::Bold, &escaped(&part.outcome.to_string()));
            let value_type = io.paint(Style::Dim, program.value_type().name());
            writeln!(io.out, "{value}  {value_type}")?;
            for child in &part.children {
                write_part(child, 1, io)?;
            }
        }
    }
    Ok(if is_false { Exit::Negative } else { Exit::Success })
}

/// What expressions may name.
struct Known {
    /// The attributes that manifests declare, those that are known without, and of others those that are given.
    whole: Arc<Vocabulary>,
    /// The same without those that are only given.
    declared: Arc<Snapshot>,
}

impl Known {
    /// What is given although no manifest declares it and the expression does not name it: most likely misspelt.
    fn unread(&self, args: &EvalArgs, set: &AttributeSet) -> Vec<String> {
        let declared = &self.declared.vocabulary;
        let names = set.iter().map(|(name, _)| name);
        let unread =
            names.filter(|name| declared.slot(name.as_bytes()).is_none() && !args.expression.contains(*name));
        let line = |name: &str| {
            let near = suggestion(name, declared.typed().map(|(name, _)| name));
            let near = near.map_or_else(String::new, |near| format!("; {near}"));
            format!(
                "the attribute `{}` is not declared, and the expression does not name it{near}",
                escaped(name)
            )
        };
        unread.map(line).collect()
    }
}

fn vocabulary(args: &EvalArgs, set: &AttributeSet, io: &mut Io) -> Result<Known, Stop> {
    let contents = match &args.config {
        Some(config) => source::read(std::slice::from_ref(config), io)?,
        None => source::read(&[], io)?,
    };
    let snapshot = source::build(&contents, &args.namespace);
    let mut builder = Vocabulary::builder();
    for (name, value) in set.iter() {
        builder.declare(name, value.value_type());
    }
    // What a manifest or the standard says wins, as in a server.
    for (name, value_type) in snapshot.vocabulary.typed() {
        builder.declare(name, value_type);
    }
    Ok(Known { whole: Arc::new(builder.build()), declared: snapshot })
}

/// A problem as `validate` tells it, without its place.
fn remark(problem: &Diagnostic) -> String {
    let hint = problem.hint.as_ref().map_or_else(String::new, |hint| format!(" ({hint})"));
    escaped(&format!("{}{hint}", problem.one_line())).into_owned()
}

/// `certain`: why it fails whatever is given.
fn failed(expression: &str, cause: String, certain: Option<&Diagnostic>) -> Failure {
    let failure = Failure::new(Exit::Negative, format!("`{expression}` cannot be evaluated")).cause(cause);
    match certain.and_then(|problem| problem.hint.clone()) {
        Some(hint) => failure.hint(hint),
        None => failure.hint(
            "`-o table` shows the value of each part; `| DEFAULT` behind an attribute is its value if a request lacks it",
        ),
    }
}

fn invalid(expression: &str, refused: &RefusedExpression) -> Failure {
    let RefusedExpression { error, problem } = refused;
    let mut failure = Failure::usage(format!("`{expression}` is no valid expression")).cause(error.plain());
    // The name may be right, and its value not given.
    let undeclared =
        error.unknown_attribute.as_ref().filter(|name| error.hint.is_none() && name.contains('.'));
    let undeclared =
        undeclared.map(|name| format!("give its value, which declares it here: `-s {name}=text`"));
    let hints: Vec<String> = problem.hint.clone().into_iter().chain(undeclared).collect();
    if !hints.is_empty() {
        failure = failure.hint(hints.join("; "));
    }
    failure
}

/// `failure`: why there is no value.
fn document(part: &Explanation, value_type: ValueType, failure: Option<&str>) -> Json {
    let (parts, value_type) = (parts(part), value_type.name());
    match failure {
        Some(failure) => json!({ "value": null, "error": failure, "type": value_type, "parts": parts }),
        None => json!({ "value": part.outcome.to_string(), "type": value_type, "parts": parts }),
    }
}

fn parts(part: &Explanation) -> Vec<Json> {
    let one = |child: &Explanation| json!({ "text": child.text, "value": child.outcome.to_string(), "parts": parts(child) });
    part.children.iter().map(one).collect()
}

/// Maximum depth of printed parts.
const MAX_DEPTH: usize = 24;

fn write_part(part: &Explanation, depth: usize, io: &mut Io) -> Result<(), Stop> {
    let text = part.text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (indent, outcome) = ("  ".repeat(depth), part.outcome.to_string());
    // A constant is its value.
    let line = match text == outcome {
        true => format!("{indent}{text}"),
        false => format!("{indent}{text}  is {outcome}"),
    };
    writeln!(io.out, "{}", escaped(&line))?;
    if depth < MAX_DEPTH {
        for child in &part.children {
            write_part(child, depth + 1, io)?;
        }
    }
    Ok(())
}
