//! What the engine would notice only when it evaluates a rule, or never: functions that do not exist or call themselves, rules that
//! need each other in a chain too long for the stack, formats with a width that memory does not have.

use std::collections::BTreeMap;

use regorus::unstable::{BUILTINS, Expr, Literal, Module, Parser, Query, Rule, RuleHead, Span};

use super::super::{Problem, Subject};
use super::text::one_line;

/// Most levels of expressions on the longest way from a rule through those that it needs: what half of the stack of a thread holds, 1
/// MiB, in a build without optimization.
pub(super) const MAX_DEPTH: usize = 192;
/// Levels that a rule counts for, beside those of its expressions.
const RULE_LEVELS: usize = 4;
/// Most problems that are described.
const MAX_PROBLEMS: usize = 32;
/// Most names in the description of a recursion.
const MAX_NAMES: usize = 8;
/// Widest field of a format.
const MAX_WIDTH: u32 = 1000;

/// Functions without a definition in a table.
const SPECIAL: [&str; 1] = ["print"];

/// All rules with one name, or everything below a path.
#[derive(Debug, Default)]
struct Node {
    is_function: bool,
    has_default: bool,
    /// Deepest expression.
    levels: usize,
    calls: Vec<usize>,
    needs: Vec<usize>,
    place: String,
}

/// The rules of a policy.
#[derive(Debug, Default)]
pub(super) struct Analysis {
    /// Rules by path, `data.package.rule`.
    paths: BTreeMap<String, usize>,
    /// What is below a path, by that path: it needs the rules of the next level, and what is below them.
    below: BTreeMap<String, usize>,
    nodes: Vec<Node>,
    problems: Vec<Problem>,
    /// Problems beyond [`MAX_PROBLEMS`].
    more_problems: usize,
}

impl Analysis {
    /// Looks at modules; the n-th is the n-th of the parameters.
    pub(super) fn of<'m>(modules: impl Iterator<Item = &'m Module> + Clone) -> Self {
        let mut analysis = Self::default();
        let modules = modules.map(Scope::of).enumerate();
        let modules: Vec<(usize, Scope<'m>)> = modules.collect();
        for (_, scope) in &modules {
            for rule in &scope.module.policy {
                let name = format!("{}.{}", scope.package, rule_name(rule));
                let at = analysis.node(&name);
                let Some(node) = analysis.nodes.get_mut(at) else { continue };
                node.is_function |= matches!(&**rule, Rule::Spec { head: RuleHead::Func { .. }, .. });
                node.has_default |= matches!(&**rule, Rule::Default { .. });
                if node.place.is_empty() {
                    node.place = place(rule.span());
                }
            }
        }
        for (index, scope) in &modules {
            for rule in &scope.module.policy {
                let at = analysis.node(&format!("{}.{}", scope.package, rule_name(rule)));
                let mut visit =
                    Visit { analysis: &mut analysis, scope, module: *index, at, level: RULE_LEVELS };
                visit.rule(rule);
            }
        }
        for node in &mut analysis.nodes {
            for edges in [&mut node.calls, &mut node.needs] {
                edges.sort_unstable();
                edges.dedup();
            }
        }
        analysis.find_recursion();
        analysis.find_depth();
        if analysis.more_problems > 0 {
            let text = format!("{} more problems", analysis.more_problems);
            analysis.problems.push(Problem::new(Subject::Policy, text));
        }
        analysis
    }

    /// What is wrong.
    pub(super) fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Whether there is a rule with this path.
    pub(super) fn is_rule(&self, path: &str) -> bool {
        self.paths.get(path).and_then(|at| self.nodes.get(*at)).is_some_and(|node| !node.is_function)
    }

    /// Whether there is a rule with this path that has a default.
    pub(super) fn has_default(&self, path: &str) -> bool {
        self.paths.get(path).and_then(|at| self.nodes.get(*at)).is_some_and(|node| node.has_default)
    }

    /// The paths of all rules.
    pub(super) fn rules(&self) -> impl Iterator<Item = &str> {
        self.paths.keys().map(String::as_str).filter(|path| self.is_rule(path))
    }

    /// Whether a path is below or above a rule.
    pub(super) fn touches(&self, path: &str) -> bool {
        self.touched(path).next().is_some()
    }

    fn node(&mut self, path: &str) -> usize {
        if let Some(at) = self.paths.get(path) {
            return *at;
        }
        let at = self.add();
        self.paths.insert(path.to_owned(), at);
        // What is above needs it.
        let (mut path, mut child) = (path, at);
        while let Some((parent, _)) = path.rsplit_once('.') {
            let known = self.below.get(parent).copied();
            let above = known.unwrap_or_else(|| self.add());
            if let Some(node) = self.nodes.get_mut(above) {
                node.needs.push(child);
            }
            if known.is_some() {
                break;
            }
            self.below.insert(parent.to_owned(), above);
            (path, child) = (parent, above);
        }
        at
    }

    fn add(&mut self) -> usize {
        self.nodes.push(Node::default());
        self.nodes.len() - 1
    }

    /// The rules whose path begins with this one, as one node, and those with which it begins.
    fn touched<'s>(&'s self, path: &'s str) -> impl Iterator<Item = usize> + 's {
        let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
        let above = ends.filter_map(|end| self.paths.get(path.get(..end)?).copied());
        above.chain(self.below.get(path).copied())
    }

    /// Whether one more problem is described. If not, it is counted.
    fn describes_more(&mut self) -> bool {
        let describes = self.problems.len() < MAX_PROBLEMS;
        self.more_problems += usize::from(!describes);
        describes
    }

    fn push(&mut self, module: usize, span: &Span, text: &str, hint: Option<String>) {
        let problem = Problem::new(Subject::Module(module), one_line(&span.error(text)));
        let problem = match hint {
            Some(hint) => problem.with_hint(hint),
            None => problem,
        };
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Functions that call themselves: the engine would follow them until the stack ends.
    fn find_recursion(&mut self) {
        for component in components(self.nodes.len(), |at| self.edges(at, |node| &node.calls)) {
            let Some(&first) = component.iter().min() else { continue };
            let calls_itself =
                self.nodes.get(first).is_some_and(|node| node.calls.binary_search(&first).is_ok());
            if (component.len() > 1 || calls_itself) && self.describes_more() {
                let names = self.names();
                let mut names: Vec<&str> =
                    component.iter().filter_map(|at| names.get(*at).copied()).collect();
                names.sort_unstable();
                let more = if names.len() > MAX_NAMES { ", and so on, which" } else { "" };
                names.truncate(MAX_NAMES);
                let place = self.nodes.get(first).map_or("", |node| &node.place);
                let names = names.join(", which calls ");
                let text = format!("{place}: recursion: {names}{more} calls itself");
                self.problems.push(Problem::new(Subject::Policy, text));
            }
        }
    }

    /// Chains of rules that are too long. Rules that need each other count together: the engine follows each once.
    fn find_depth(&mut self) {
        // By node: the depth from it, once the component that it belongs to is done.
        let mut deepest: Vec<Option<usize>> = vec![None; self.nodes.len()];
        let mut worst: Option<(usize, usize)> = None;
        // Each component comes after those that it needs.
        for component in components(self.nodes.len(), |at| self.edges(at, |node| &node.needs)) {
            let own: usize = component.iter().filter_map(|at| Some(self.nodes.get(*at)?.levels)).sum();
            let needed = component.iter().flat_map(|at| self.edges(*at, |node| &node.needs));
            let below = needed.filter_map(|at| *deepest.get(*at)?).max().unwrap_or(0);
            for at in &component {
                if let Some(depth) = deepest.get_mut(*at) {
                    *depth = Some(own + below);
                }
            }
            // A node of what is below a path has no levels of its own.
            let rule = component.iter().find(|at| self.nodes.get(**at).is_some_and(|node| node.levels > 0));
            if let Some(at) = rule.filter(|_| own + below > worst.map_or(MAX_DEPTH, |(depth, _)| depth)) {
                worst = Some((own + below, *at));
            }
        }
        if let Some((depth, at)) = worst.filter(|_| self.describes_more()) {
            let names = self.names();
            let (name, place) =
                (names.get(at).copied().unwrap_or(""), self.nodes.get(at).map_or("", |node| &node.place));
            let text = format!(
                "{place}: {name} needs other rules {depth} levels deep; at most {MAX_DEPTH} are evaluated"
            );
            let hint = "a rule counts for 4 levels and for those of its deepest expression: divide expressions, or the chain of rules";
            self.problems.push(Problem::new(Subject::Policy, text).with_hint(hint));
        }
    }

    fn edges<'s>(&'s self, at: usize, which: impl Fn(&'s Node) -> &'s Vec<usize>) -> &'s [usize] {
        self.nodes.get(at).map_or(&[], |node| which(node))
    }

    /// The path of each node that is a rule.
    fn names(&self) -> Vec<&str> {
        let mut names = vec![""; self.nodes.len()];
        for (path, at) in &self.paths {
            names.get_mut(*at).into_iter().for_each(|name| *name = path);
        }
        names
    }
}

/// The strongly connected components of a graph, each after those that it leads to. Tarjan's algorithm, without recursion.
fn components<'g>(count: usize, edges: impl Fn(usize) -> &'g [usize]) -> Vec<Vec<usize>> {
    const NEW: usize = usize::MAX;
    let mut found = Vec::new();
    let (mut order, mut low) = (vec![NEW; count], vec![NEW; count]);
    let mut on_stack = vec![false; count];
    let mut stack: Vec<usize> = Vec::new();
    let mut next = 0;
    for root in 0..count {
        // A node, and how many of its edges were followed.
        let mut path: Vec<(usize, usize)> = Vec::new();
        if order.get(root) == Some(&NEW) {
            path.push((root, 0));
        }
        while let Some((at, followed)) = path.pop() {
            let lowest = |low: &mut Vec<usize>, value: usize| {
                if let Some(known) = low.get_mut(at) {
                    *known = value.min(*known);
                }
            };
            if followed == 0 {
                for table in [&mut order, &mut low] {
                    table.get_mut(at).into_iter().for_each(|entry| *entry = next);
                }
                next += 1;
                stack.push(at);
                on_stack.get_mut(at).into_iter().for_each(|entry| *entry = true);
            } else if let Some(low_of_child) = edges(at).get(followed - 1).and_then(|child| low.get(*child)) {
                let (child, value) = (edges(at).get(followed - 1).copied().unwrap_or(at), *low_of_child);
                if on_stack.get(child) == Some(&true) {
                    lowest(&mut low, value);
                }
            }
            match edges(at).get(followed) {
                Some(child) => {
                    path.push((at, followed + 1));
                    if order.get(*child) == Some(&NEW) {
                        path.push((*child, 0));
                    }
                }
                None if low.get(at) == order.get(at) => {
                    let from = stack.iter().rposition(|other| *other == at).unwrap_or(0);
                    let component = stack.split_off(from);
                    for member in &component {
                        on_stack.get_mut(*member).into_iter().for_each(|entry| *entry = false);
                    }
                    found.push(component);
                }
                None => {}
            }
        }
    }
    found
}

/// The names that mean something in a module.
struct Scope<'m> {
    module: &'m Module,
    /// `data.PACKAGE`.
    package: String,
    /// Paths by the first part of a name.
    imports: BTreeMap<String, String>,
}

impl<'m> Scope<'m> {
    fn of(module: &'m Module) -> Self {
        let package = format!("data.{}", parts(&module.package.refr).join("."));
        let imports = module.imports.iter().filter_map(|import| {
            let path = parts(&import.refr);
            let alias = import.r#as.as_ref().map(Span::text).or(path.last().copied())?;
            (path.first() == Some(&"data")).then(|| (alias.to_owned(), path.join(".")))
        });
        Self { module, package, imports: imports.collect() }
    }

    /// The path that a name means, if it is that of a rule, a package or data.
    fn resolve(&self, parts: &[&str]) -> Option<String> {
        let (first, rest) = parts.split_first()?;
        let base = match *first {
            "data" => "data".to_owned(),
            "input" => return None,
            first => match self.imports.get(first) {
                Some(path) => path.clone(),
                None => format!("{}.{first}", self.package),
            },
        };
        Some(std::iter::once(base.as_str()).chain(rest.iter().copied()).collect::<Vec<_>>().join("."))
    }
}

/// The parts of a name, `a.b["c"]`, up to the first that is no text.
fn parts(expression: &Expr) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut at = expression;
    loop {
        match at {
            Expr::Var { span, .. } => {
                parts.push(span.text());
                parts.reverse();
                return parts;
            }
            Expr::RefDot { refr, field, .. } => {
                parts.push(field.0.text());
                at = refr;
            }
            Expr::RefBrack { refr, index, .. } => {
                match &**index {
                    Expr::String { span, .. } => parts.push(span.text()),
                    _ => parts.clear(),
                }
                at = refr;
            }
            _ => return Vec::new(),
        }
    }
}

/// Where a name begins.
fn start(name: &Expr) -> &Span {
    match name {
        Expr::RefDot { refr, .. } | Expr::RefBrack { refr, .. } => start(refr),
        name => name.span(),
    }
}

fn rule_name(rule: &Rule) -> String {
    let refr = match rule {
        Rule::Spec { head: RuleHead::Compr { refr, .. }, .. }
        | Rule::Spec { head: RuleHead::Set { refr, .. }, .. }
        | Rule::Spec { head: RuleHead::Func { refr, .. }, .. }
        | Rule::Default { refr, .. } => refr,
    };
    match Parser::get_path_ref_components(refr) {
        Ok(spans) => spans.iter().map(Span::text).collect::<Vec<_>>().join("."),
        Err(_) => parts(refr).join("."),
    }
}

fn place(span: &Span) -> String {
    format!("{}:{}:{}", span.source.get_path(), span.line, span.col)
}

/// A visit of the expressions of a rule.
struct Visit<'v, 'm> {
    analysis: &'v mut Analysis,
    scope: &'v Scope<'m>,
    module: usize,
    /// The node of the rule.
    at: usize,
    level: usize,
}

impl Visit<'_, '_> {
    fn rule(&mut self, rule: &Rule) {
        match rule {
            Rule::Spec { head, bodies, .. } => {
                match head {
                    RuleHead::Compr { refr, assign, .. } => {
                        self.head(refr);
                        self.all(assign.iter().map(|assign| &*assign.value));
                    }
                    RuleHead::Set { refr, key, .. } => {
                        self.head(refr);
                        self.all(key.iter().map(|key| &**key));
                    }
                    RuleHead::Func { args, assign, .. } => {
                        self.all(args.iter().map(|argument| &**argument));
                        self.all(assign.iter().map(|assign| &*assign.value));
                    }
                }
                for body in bodies {
                    self.all(body.assign.iter().map(|assign| &*assign.value));
                    self.query(&body.query);
                }
            }
            Rule::Default { value, .. } => self.expression(value),
        }
    }

    /// The name of a rule, which may have expressions in brackets.
    fn head(&mut self, refr: &Expr) {
        if let Expr::RefBrack { refr, index, .. } = refr {
            self.expression(index);
            self.head(refr);
        }
    }

    fn query(&mut self, query: &Query) {
        self.deeper(|visit| {
            for statement in &query.stmts {
                match &statement.literal {
                    Literal::SomeVars { .. } => {}
                    Literal::SomeIn { key, value, collection, .. } => {
                        visit.all(key.iter().map(|key| &**key));
                        visit.all([&**value, &**collection]);
                    }
                    Literal::Expr { expr, .. } | Literal::NotExpr { expr, .. } => visit.expression(expr),
                    Literal::Every { domain, query, .. } => {
                        visit.expression(domain);
                        visit.query(query);
                    }
                }
                for modifier in &statement.with_mods {
                    visit.all([&*modifier.refr, &*modifier.r#as]);
                }
            }
        });
    }

    fn all<'e>(&mut self, expressions: impl IntoIterator<Item = &'e Expr>) {
        expressions.into_iter().for_each(|expression| self.expression(expression));
    }

    fn deeper(&mut self, visit: impl FnOnce(&mut Self)) {
        self.level += 1;
        if let Some(node) = self.analysis.nodes.get_mut(self.at) {
            node.levels = node.levels.max(self.level);
        }
        visit(self);
        self.level -= 1;
    }

    fn expression(&mut self, expression: &Expr) {
        self.deeper(|visit| visit.children(expression));
    }

    fn children(&mut self, expression: &Expr) {
        match expression {
            Expr::String { .. }
            | Expr::RawString { .. }
            | Expr::Number { .. }
            | Expr::Bool { .. }
            | Expr::Null { .. } => {}
            Expr::Var { .. } => self.needs(expression),
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
            Expr::Call { fcn, params, .. } => {
                self.call(fcn, params.first().map(|first| &**first));
                self.all(params.iter().map(|parameter| &**parameter));
            }
            Expr::UnaryExpr { expr, .. } => self.expression(expr),
            Expr::RefDot { .. } | Expr::RefBrack { .. } => {
                self.needs(expression);
                self.parts_of_name(expression);
            }
            Expr::BinExpr { lhs, rhs, .. }
            | Expr::BoolExpr { lhs, rhs, .. }
            | Expr::ArithExpr { lhs, rhs, .. }
            | Expr::AssignExpr { lhs, rhs, .. } => self.all([&**lhs, &**rhs]),
            Expr::Membership { key, value, collection, .. } => {
                self.all(key.iter().map(|key| &**key));
                self.all([&**value, &**collection]);
            }
        }
    }

    /// Visits the expressions in a name, but not the names with which it begins: what it means is noted.
    fn parts_of_name(&mut self, name: &Expr) {
        match name {
            Expr::RefDot { refr, .. } => self.deeper(|visit| visit.parts_of_name(refr)),
            Expr::RefBrack { refr, index, .. } => self.deeper(|visit| {
                visit.parts_of_name(refr);
                visit.expression(index);
            }),
            Expr::Var { .. } => {}
            other => self.expression(other),
        }
    }

    /// Notes the rules that a name may mean. A local name may mean none of them.
    fn needs(&mut self, name: &Expr) {
        let Some(path) = self.scope.resolve(&parts(name)) else { return };
        let touched: Vec<usize> = self.analysis.touched(&path).collect();
        if let Some(node) = self.analysis.nodes.get_mut(self.at) {
            node.needs.extend(touched);
        }
    }

    fn call(&mut self, function: &Expr, first: Option<&Expr>) {
        let span = start(function);
        let parts = parts(function);
        let name = parts.join(".");
        let defined = self.scope.resolve(&parts).and_then(|path| self.analysis.paths.get(&path).copied());
        if let Some(called) = defined {
            if let Some(node) = self.analysis.nodes.get_mut(self.at) {
                node.calls.push(called);
                node.needs.push(called);
            }
            return;
        }
        let is_known = BUILTINS.contains_key(&*name) || SPECIAL.contains(&&*name);
        let is_wide = || name == "sprintf" && !first.is_some_and(is_narrow);
        if (is_known && !is_wide()) || !self.analysis.describes_more() {
            return;
        }
        if !is_known {
            let known = BUILTINS.keys().copied().chain(self.analysis.paths.keys().map(String::as_str));
            let hint = mixer_config::message::suggestion(&name, known);
            let hint = hint.or_else(|| {
                (name == "http.send").then(|| "a policy has no access to the network here".to_owned())
            });
            self.analysis.push(self.module, span, &format!("undefined function {name}"), hint);
        } else {
            let text = format!(
                "the format of sprintf must be a literal, with widths of at most {MAX_WIDTH} characters"
            );
            self.analysis.push(self.module, span, &text, None);
        }
    }
}

/// Whether an expression is a format with small widths.
fn is_narrow(format: &Expr) -> bool {
    let (Expr::String { span, .. } | Expr::RawString { span, .. }) = format else { return false };
    let text = span.text();
    let digits = text.split(|c: char| !c.is_numeric());
    digits
        .filter(|digits| !digits.is_empty())
        .all(|digits| digits.parse().is_ok_and(|width: u32| width <= MAX_WIDTH))
}

#[cfg(test)]
mod tests {
    use super::components;

    #[test]
    fn components_come_after_what_they_lead_to() {
        // 0 -> 1 -> 2 -> 1, 2 -> 3, 4 -> 4
        let edges: [&[usize]; 6] = [&[1], &[2], &[1, 3], &[], &[4], &[]];
        let mut found = components(edges.len(), |at| edges[at]);
        found.iter_mut().for_each(|component| component.sort_unstable());
        assert_eq!(found, [vec![3], vec![1, 2], vec![0], vec![4], vec![5]]);
    }

    #[test]
    fn long_chains_need_no_stack() {
        let edges: Vec<Vec<usize>> = (0..200_000).map(|at| vec![at + 1]).collect();
        let found = components(200_001, |at| edges.get(at).map_or(&[], |e| e.as_slice()));
        assert_eq!((found.len(), found[0].as_slice()), (200_001, &[200_000_usize][..]));
    }
}
