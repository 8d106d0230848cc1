//! Calls that fail for every request, because an argument is a literal that the function does not take: an expression that does not
//! compile, a network that is none, a number where a text is needed. And calls whose arguments are in the wrong order.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use regorus::unstable::{BUILTINS, Expr, Literal, LiteralStmt, Module, Query, Ref, Rule, RuleHead, Span};
use regorus::{Engine, Value};

use super::super::{Params, Problem, Subject, Weight};
use super::dialect;
use super::text::one_line;

/// Most problems that are described.
const MAX_PROBLEMS: usize = 32;

/// An argument that the function takes, in place of one that depends on the request.
enum Sample {
    Text(&'static str),
    Number(i64),
    Nothing,
}

use Sample::{Nothing, Number, Text};

/// Functions whose arguments do not depend on each other, beyond what the samples say.
const SAMPLES: [(&str, &[Sample]); 29] = [
    ("base64.decode", &[Text("")]),
    ("base64url.decode", &[Text("")]),
    ("concat", &[Text(""), Nothing]),
    ("contains", &[Text(""), Text("")]),
    ("endswith", &[Text(""), Text("")]),
    ("format_int", &[Number(1), Number(10)]),
    ("glob.match", &[Text(""), Nothing, Text("")]),
    ("indexof", &[Text(""), Text("")]),
    ("lower", &[Text("")]),
    ("net.cidr_contains", &[Text("0.0.0.0/0"), Text("0.0.0.0")]),
    ("regex.find_all_string_submatch_n", &[Text(""), Text(""), Number(1)]),
    ("regex.find_n", &[Text(""), Text(""), Number(1)]),
    ("regex.match", &[Text(""), Text("")]),
    ("regex.replace", &[Text(""), Text(""), Text("")]),
    ("regex.split", &[Text(""), Text("")]),
    ("replace", &[Text(""), Text(""), Text("")]),
    ("semver.compare", &[Text("1.0.0"), Text("1.0.0")]),
    ("split", &[Text(""), Text("")]),
    ("startswith", &[Text(""), Text("")]),
    ("substring", &[Text(""), Number(0), Number(0)]),
    ("time.parse_duration_ns", &[Text("1s")]),
    ("time.parse_rfc3339_ns", &[Text("2000-01-01T00:00:00Z")]),
    ("trim", &[Text(""), Text("")]),
    ("trim_left", &[Text(""), Text("")]),
    ("trim_prefix", &[Text(""), Text("")]),
    ("trim_right", &[Text(""), Text("")]),
    ("trim_space", &[Text("")]),
    ("trim_suffix", &[Text(""), Text("")]),
    ("upper", &[Text("")]),
];

/// The calls of a policy that fail for every request, and with a warning those that probably mean something else; none where a module is not read, which is a problem of its own.
pub(in super::super) fn wrong_calls(params: &Params) -> Vec<Problem> {
    let find = || {
        let mut engine = Engine::new();
        for (index, text) in params.policy.iter().enumerate() {
            dialect::add(&mut engine, &format!("opa_policy.{index}"), text).ok()?;
        }
        let modules = engine.get_modules();
        // By package.
        let mut functions: HashMap<Option<String>, HashSet<&str>> = HashMap::new();
        for module in modules.iter() {
            functions.entry(name(&module.package.refr)).or_default().extend(own_functions(module));
        }
        let mut problems = Vec::new();
        for (index, module) in modules.iter().enumerate() {
            let own = functions.get(&name(&module.package.refr));
            let mut calls = Calls { own, imported: imported(module).collect(), module: index, problems };
            module.policy.iter().for_each(|rule| calls.rule(rule));
            problems = calls.problems;
        }
        Some(problems)
    };
    catch_unwind(AssertUnwindSafe(find)).ok().flatten().unwrap_or_default()
}

/// The names with which those of the own functions of a module begin.
fn own_functions(module: &Module) -> impl Iterator<Item = &str> {
    module.policy.iter().filter_map(|rule| match &**rule {
        Rule::Spec { head: RuleHead::Func { refr, .. }, .. } => Some(start(refr).text()),
        _ => None,
    })
}

/// The names with which those of the functions begin that a module may import: a keyword can have the name of a function, and no part of
/// the input is one.
fn imported(module: &Module) -> impl Iterator<Item = &str> {
    let imports = module.imports.iter().filter(|import| start(&import.refr).text() == "data");
    imports.filter_map(|import| match (&import.r#as, &*import.refr) {
        (Some(alias), _) => Some(alias.text()),
        (None, Expr::RefDot { field, .. }) => Some(field.0.text()),
        _ => None,
    })
}

/// A visit of all expressions, which nest a few levels only.
struct Calls<'m> {
    /// The first parts of the names of functions of the policy, which replace those of the engine.
    own: Option<&'m HashSet<&'m str>>,
    imported: HashSet<&'m str>,
    module: usize,
    problems: Vec<Problem>,
}

impl Calls<'_> {
    fn rule(&mut self, rule: &Rule) {
        let Rule::Spec { head, bodies, .. } = rule else { return };
        match head {
            RuleHead::Compr { assign, .. } => self.all(assign.iter().map(|assign| &*assign.value)),
            RuleHead::Set { key, .. } => self.all(key.iter().map(|key| &**key)),
            RuleHead::Func { assign, .. } => self.all(assign.iter().map(|assign| &*assign.value)),
        }
        for body in bodies {
            self.all(body.assign.iter().map(|assign| &*assign.value));
            self.query(&body.query);
        }
    }

    fn query(&mut self, query: &Query) {
        query.stmts.iter().for_each(|statement| self.statement(statement));
    }

    fn statement(&mut self, statement: &LiteralStmt) {
        // Functions may be replaced by others.
        if !statement.with_mods.is_empty() {
            return;
        }
        match &statement.literal {
            Literal::SomeVars { .. } => {}
            Literal::SomeIn { value, collection, .. } => self.all([&**value, &**collection]),
            Literal::Expr { expr, .. } | Literal::NotExpr { expr, .. } => self.expression(expr),
            Literal::Every { domain, query, .. } => {
                self.expression(domain);
                self.query(query);
            }
        }
    }

    fn all<'e>(&mut self, expressions: impl IntoIterator<Item = &'e Expr>) {
        expressions.into_iter().for_each(|expression| self.expression(expression));
    }

    fn expression(&mut self, expression: &Expr) {
        match expression {
            Expr::String { .. }
            | Expr::RawString { .. }
            | Expr::Number { .. }
            | Expr::Bool { .. }
            | Expr::Null { .. }
            | Expr::Var { .. } => {}
            Expr::Array { items, .. } | Expr::Set { items, .. } => self.all(items.iter().map(|item| &**item)),
            Expr::Object { fields, .. } => {
                fields.iter().for_each(|(_, key, value)| self.all([&**key, &**value]));
            }
            Expr::ArrayCompr { term, query, .. } | Expr::SetCompr { term, query, .. } => {
                self.expression(term);
                self.query(query);
            }
            Expr::ObjectCompr { key, value, query, .. } => {
                self.all([&**key, &**value]);
                self.query(query);
            }
            Expr::Call { span, fcn, params, .. } => {
                self.call(span, fcn, params);
                self.all(params.iter().map(|parameter| &**parameter));
            }
            Expr::UnaryExpr { expr, .. } => self.expression(expr),
            Expr::RefDot { refr, .. } => self.expression(refr),
            Expr::RefBrack { refr, index, .. } => self.all([&**refr, &**index]),
            Expr::BinExpr { lhs, rhs, .. }
            | Expr::BoolExpr { lhs, rhs, .. }
            | Expr::ArithExpr { lhs, rhs, .. }
            | Expr::AssignExpr { lhs, rhs, .. } => self.all([&**lhs, &**rhs]),
            Expr::Membership { value, collection, .. } => self.all([&**value, &**collection]),
        }
    }

    fn call(&mut self, span: &Span, function: &Expr, arguments: &[Ref<Expr>]) {
        let Some(name) = name(function) else { return };
        let at = start(function);
        let is_own = self.imported.contains(at.text()) || self.own.is_some_and(|own| own.contains(at.text()));
        if self.problems.len() >= MAX_PROBLEMS || is_own {
            return;
        }
        let place = || format!("{}:{}:{}", at.source.get_path(), at.line, at.col);
        if let Some([constant, input]) = swapped(&name, arguments) {
            let (side, place) = (if name == "startswith" { "begins" } else { "ends" }, place());
            let text = format!(
                "{place}: {name} asks whether {constant} {side} with {input}, not the other way round"
            );
            let problem = Problem::new(Subject::Module(self.module), text);
            let problem = problem.with_hint(format!("write `{name}({input}, {constant})`"));
            self.problems.push(Problem { weight: Weight::Warning("opa-arguments"), ..problem });
        }
        if let Some((path, constant)) = unlike_a_path(&name, arguments) {
            let text = format!(
                "{}: {path} begins with `/`, so that it never begins with {constant}: the paths of requests do",
                place()
            );
            let problem = Problem::new(Subject::Module(self.module), text);
            let meant = constant.trim_start_matches('"');
            let problem = problem.with_hint(format!("write `startswith({path}, \"/{meant})`"));
            self.problems.push(Problem { weight: Weight::Warning("opa-path"), ..problem });
        }
        if let Some(why) = failure(&name, span, arguments) {
            let place = place();
            let text = format!("{place}: this call of {name} fails for every request: {why}");
            self.problems.push(Problem::new(Subject::Module(self.module), text));
        }
    }
}

/// The name of a function, `a.b`.
fn name(function: &Expr) -> Option<String> {
    match function {
        Expr::Var { span, .. } => Some(span.text().to_owned()),
        Expr::RefDot { refr, field, .. } => Some(format!("{}.{}", name(refr)?, field.0.text())),
        _ => None,
    }
}

/// Where a name begins.
fn start(name: &Expr) -> &Span {
    match name {
        Expr::RefDot { refr, .. } | Expr::RefBrack { refr, .. } => start(refr),
        name => name.span(),
    }
}

/// The constant and the text of the request of a comparison of the beginnings or ends of texts that has one in the place of the other.
fn swapped(name_of_function: &str, arguments: &[Ref<Expr>]) -> Option<[String; 2]> {
    let [constant, input, ..] = arguments else { return None };
    if !matches!(name_of_function, "startswith" | "endswith") {
        return None;
    }
    let Value::String(_) = literal(constant)? else { return None };
    let input = name(input).filter(|name| name.starts_with("input."))?;
    Some([literal(constant)?.to_string(), input])
}

/// The path of a request, and the constant in quotes with which it is asked whether it begins, if no path begins so: with a letter or digit.
fn unlike_a_path(name_of_function: &str, arguments: &[Ref<Expr>]) -> Option<(String, String)> {
    let [path, constant, ..] = arguments else { return None };
    let path = name(path).filter(|path| name_of_function == "startswith" && path == "input.action.path")?;
    let constant = literal(constant)?;
    let Value::String(text) = &constant else { return None };
    let is_unlike = text.starts_with(char::is_alphanumeric) && !text.contains("://");
    is_unlike.then(|| (path, constant.to_string()))
}

/// Why a call of a function of the engine fails whatever the request is, as far as its literals tell; `None`: it need not fail.
fn failure(name: &str, span: &Span, arguments: &[Ref<Expr>]) -> Option<String> {
    let (_, samples) = SAMPLES.iter().find(|(function, _)| *function == name)?;
    let (function, _) = BUILTINS.get(name)?;
    // One more argument is a variable for the result.
    let arguments = arguments.get(..samples.len())?;
    let literals: Vec<Option<Value>> = arguments.iter().map(|argument| literal(argument)).collect();
    if literals.iter().all(Option::is_none) {
        return None;
    }
    let values = literals.into_iter().zip(*samples).map(|(literal, sample)| {
        literal.unwrap_or_else(|| match sample {
            Text(text) => Value::from(*text),
            Number(number) => Value::from(*number),
            Nothing => Value::new_array(),
        })
    });
    let values: Vec<Value> = values.collect();
    match function(span, arguments, &values, true) {
        Ok(Value::Undefined) => Some("it has no result".to_owned()),
        Ok(_) => None,
        Err(error) => {
            let error = one_line(&error);
            // The place is said before.
            let places = arguments.iter().map(|argument| argument.span()).chain([span]);
            let mut places =
                places.map(|span| format!("{}:{}:{}: ", span.source.get_path(), span.line, span.col));
            Some(places.find_map(|place| error.strip_prefix(&place).map(str::to_owned)).unwrap_or(error))
        }
    }
}

/// The value of a literal; that of an array if all of its items are literals.
fn literal(expression: &Expr) -> Option<Value> {
    match expression {
        Expr::String { value, .. }
        | Expr::RawString { value, .. }
        | Expr::Number { value, .. }
        | Expr::Bool { value, .. }
        | Expr::Null { value, .. } => Some(value.clone()),
        Expr::Array { items, .. } => {
            let items: Option<Vec<Value>> = items.iter().map(|item| literal(item)).collect();
            items.map(Value::from)
        }
        _ => None,
    }
}
