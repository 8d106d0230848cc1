//! What the engine would notice only when it evaluates a rule, or never: functions that do not exist or call themselves, rules that
//! need each other in a chain too long for the stack, formats with a width that memory does not have.

mod components;
mod scope;

use std::collections::{BTreeMap, BTreeSet};

use regorus::unstable::{AssignOp, BUILTINS, BoolOp, Expr, Literal, Module, Query, Rule, RuleHead, Span};

use super::super::{Problem, Subject};
use super::bounded::is_available;
use super::reads::{Effect, Read, Sense};
use super::text::one_line;
use components::components;
use scope::{Aliases, Locals, Scope, parts, rule_name, start, written_out};

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
    uses: Vec<Use>,
    place: String,
}

/// What a rule needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Use {
    node: usize,
    /// What becomes of the rule if that holds.
    sense: Sense,
    /// Whether `with` gives it other documents.
    is_within_with: bool,
}

/// The rules of a policy.
#[derive(Debug, Default)]
pub(super) struct Analysis {
    /// Rules by path, `data.package.rule`.
    paths: BTreeMap<String, usize>,
    /// What is below a path, by that path: it needs the rules of the next level, and what is below them.
    below: BTreeMap<String, usize>,
    nodes: Vec<Node>,
    /// Reads by the node of their rule, with what becomes of the rule if they are defined.
    reads: Vec<(usize, Sense, Read)>,
    /// What `with` replaces, by the node of its rule.
    replaced: Vec<(usize, Vec<String>)>,
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
        let aliases = Aliases::of(modules.iter().map(|(_, scope)| scope));
        for (index, scope) in &modules {
            for rule in &scope.module.policy {
                let at = analysis.node(&format!("{}.{}", scope.package, rule_name(rule)));
                let mut visit = Visit {
                    analysis: &mut analysis,
                    scope,
                    aliases: &aliases,
                    locals: Locals::of(rule),
                    module: *index,
                    at,
                    level: RULE_LEVELS,
                    sense: Sense::Same,
                    is_statement: false,
                    is_looked_into: false,
                    is_compared: false,
                    is_within_with: false,
                };
                visit.rule(rule);
            }
        }
        for node in &mut analysis.nodes {
            node.uses.sort_unstable();
            node.uses.dedup();
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

    /// What an evaluation of a rule reads, and what rules read that it does not need. `decides`: what the rule does if it holds.
    pub(super) fn reads(&mut self, rule: &str, decides: Effect) -> Vec<Read> {
        let effects = self.effects(rule, decides, |_| true);
        // Of rules where nothing is replaced for them.
        let direct = self.effects(rule, decides, |used| !used.is_within_with);
        // A rule that is not evaluated, such as a test, replaces nothing.
        let is_needed = |at: usize| effects.get(at).is_some_and(|effect| effect.is_any());
        let replaced: BTreeSet<Vec<String>> = std::mem::take(&mut self.replaced)
            .into_iter()
            .filter_map(|(at, path)| is_needed(at).then_some(path))
            .collect();
        let reads = std::mem::take(&mut self.reads).into_iter().map(|(at, sense, read)| {
            let may_replace = replaced
                .iter()
                .any(|replaced| read.path.starts_with(replaced) || replaced.starts_with(&read.path));
            let effect = match (may_replace, read.is_within_with) {
                (false, _) => effects.get(at),
                (true, false) => direct.get(at),
                (true, true) => None,
            };
            Read { effect: effect.copied().unwrap_or_default().of_part(sense), ..read }
        });
        reads.collect()
    }

    /// What each node does to the result of a rule through uses that `passes`.
    fn effects(&self, rule: &str, decides: Effect, passes: impl Fn(&Use) -> bool) -> Vec<Effect> {
        let mut effects = vec![Effect::default(); self.nodes.len()];
        let mut pending: Vec<(usize, Effect)> =
            self.paths.get(rule).map(|at| (*at, decides)).into_iter().collect();
        while let Some((at, effect)) = pending.pop() {
            let Some(known) = effects.get_mut(at) else { continue };
            let both = known.and(effect);
            if both == *known {
                continue;
            }
            *known = both;
            let uses = self.nodes.get(at).map_or(&[][..], |node| &node.uses);
            let uses = uses.iter().filter(|used| passes(used));
            pending.extend(uses.map(|used| (used.node, both.of_part(used.sense))));
        }
        effects
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
                node.uses.push(Use { node: child, sense: Sense::Same, is_within_with: false });
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

fn place(span: &Span) -> String {
    format!("{}:{}:{}", span.source.get_path(), span.line, span.col)
}

/// What becomes of the result of a rule with this value if its body holds. Without a value it is true.
fn sense_of(value: Option<&Expr>) -> Sense {
    match value {
        None => Sense::Same,
        Some(Expr::Bool { span, .. }) if span.text() == "true" => Sense::Same,
        Some(Expr::Bool { span, .. }) if span.text() == "false" => Sense::Opposite,
        Some(_) => Sense::Both,
    }
}

/// A visit of the expressions of a rule.
struct Visit<'v, 'm> {
    analysis: &'v mut Analysis,
    scope: &'v Scope<'m>,
    aliases: &'v Aliases<'m>,
    locals: Locals<'m>,
    module: usize,
    /// The node of the rule.
    at: usize,
    level: usize,
    /// What becomes of the rule if the expression holds.
    sense: Sense,
    /// Whether the expression is a statement, or what is negated in one.
    is_statement: bool,
    /// Whether elements of the expression are asked for.
    is_looked_into: bool,
    /// Whether the expression is in a comparison that an empty text would fulfil.
    is_compared: bool,
    /// Whether the expression is in a statement with `with`.
    is_within_with: bool,
}

impl<'m> Visit<'_, 'm> {
    fn rule(&mut self, rule: &'m Rule) {
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
                    let value = match head {
                        RuleHead::Compr { assign, .. } | RuleHead::Func { assign, .. } => {
                            body.assign.as_ref().or(assign.as_ref()).map(|assign| &*assign.value)
                        }
                        // It has elements, or none.
                        RuleHead::Set { .. } => None,
                    };
                    // Of several bodies, one decides if those before it do not.
                    let sense = if bodies.len() == 1 { sense_of(value) } else { Sense::Both };
                    self.within(sense, |visit| visit.query(&body.query));
                }
            }
            Rule::Default { value, .. } => self.expression(value),
        }
    }

    /// Visits what has this sense.
    fn within(&mut self, sense: Sense, visit: impl FnOnce(&mut Self)) {
        let outer = self.sense;
        self.sense = outer.then(sense);
        visit(self);
        self.sense = outer;
    }

    /// The name of a rule, which may have expressions in brackets.
    fn head(&mut self, refr: &'m Expr) {
        if let Expr::RefBrack { refr, index, .. } = refr {
            self.expression(index);
            self.head(refr);
        }
    }

    fn query(&mut self, query: &'m Query) {
        self.deeper(|visit| {
            for statement in &query.stmts {
                let outer = visit.is_within_with;
                visit.is_within_with |= !statement.with_mods.is_empty();
                match &statement.literal {
                    Literal::SomeVars { .. } => {}
                    Literal::SomeIn { key, value, collection, .. } => {
                        visit.all(key.iter().map(|key| &**key));
                        visit.expression(value);
                        visit.collection(collection);
                    }
                    Literal::Expr { expr, .. } => visit.statement(expr),
                    Literal::NotExpr { expr, .. } => {
                        visit.within(Sense::Opposite, |visit| visit.statement(expr));
                    }
                    Literal::Every { domain, query, .. } => {
                        // More elements make it hold less often.
                        visit.within(Sense::Both, |visit| visit.collection(domain));
                        visit.query(query);
                    }
                }
                statement.with_mods.iter().for_each(|modifier| visit.replaced(&modifier.refr));
                visit.is_within_with = outer;
                visit.all(statement.with_mods.iter().map(|modifier| &*modifier.r#as));
            }
        });
    }

    fn statement(&mut self, expression: &'m Expr) {
        self.is_statement = true;
        self.expression(expression);
    }

    fn collection(&mut self, expression: &'m Expr) {
        self.is_looked_into = true;
        self.expression(expression);
    }

    /// Notes what `with` replaces.
    fn replaced(&mut self, name: &'m Expr) {
        self.deeper(|visit| visit.needs(name, false));
        if let Some(path) = self.scope.document(&parts(name), &self.locals, self.aliases) {
            let path = path.into_iter().map(str::to_owned).collect();
            self.analysis.replaced.push((self.at, path));
        }
    }

    fn all(&mut self, expressions: impl IntoIterator<Item = &'m Expr>) {
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

    fn expression(&mut self, expression: &'m Expr) {
        self.deeper(|visit| visit.children(expression));
    }

    fn children(&mut self, expression: &'m Expr) {
        let is_statement = std::mem::take(&mut self.is_statement);
        let is_looked_into = std::mem::take(&mut self.is_looked_into);
        match expression {
            Expr::String { .. }
            | Expr::RawString { .. }
            | Expr::Number { .. }
            | Expr::Bool { .. }
            | Expr::Null { .. } => {}
            Expr::Var { .. } => {
                self.needs(expression, is_statement);
                self.read(expression, is_statement, is_looked_into);
            }
            Expr::Array { items, .. } | Expr::Set { items, .. } => self.all(items.iter().map(|item| &**item)),
            Expr::Object { fields, .. } => {
                fields.iter().for_each(|(_, key, value)| self.all([&**key, &**value]));
            }
            Expr::ArrayCompr { term, query, .. } | Expr::SetCompr { term, query, .. } => {
                self.within(Sense::Both, |visit| {
                    visit.expression(term);
                    visit.query(query);
                });
            }
            Expr::ObjectCompr { key, value, query, .. } => self.within(Sense::Both, |visit| {
                visit.all([&**key, &**value]);
                visit.query(query);
            }),
            Expr::Call { fcn, params, .. } => {
                self.call(fcn, params.first().map(|first| &**first), is_statement);
                self.all(params.iter().map(|parameter| &**parameter));
            }
            Expr::UnaryExpr { expr, .. } => self.expression(expr),
            Expr::RefDot { .. } | Expr::RefBrack { .. } => {
                self.needs(expression, is_statement);
                self.read(expression, is_statement, is_looked_into);
                self.parts_of_name(expression);
            }
            Expr::BoolExpr { op, lhs, rhs, .. } => {
                let is_false =
                    |side: &Expr| matches!(side, Expr::Bool { span, .. } if span.text() == "false");
                let is_equal = *op == BoolOp::Eq && !is_false(lhs) && !is_false(rhs);
                let outer = self.is_compared;
                self.is_compared |= !is_equal;
                self.all([&**lhs, &**rhs]);
                self.is_compared = outer;
            }
            // The name is a definition.
            Expr::AssignExpr { op: AssignOp::ColEq, lhs, rhs, .. } if matches!(&**lhs, Expr::Var { .. }) => {
                self.expression(rhs);
            }
            Expr::BinExpr { lhs, rhs, .. }
            | Expr::ArithExpr { lhs, rhs, .. }
            | Expr::AssignExpr { lhs, rhs, .. } => self.all([&**lhs, &**rhs]),
            Expr::Membership { key, value, collection, .. } => {
                self.all(key.iter().map(|key| &**key));
                self.expression(value);
                self.collection(collection);
            }
        }
    }

    /// Visits the expressions in a name, but not the names with which it begins: what it means is noted.
    fn parts_of_name(&mut self, name: &'m Expr) {
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
    fn needs(&mut self, name: &Expr, is_statement: bool) {
        let Some(path) = self.scope.resolve(&parts(name)) else { return };
        let touched: Vec<usize> = self.analysis.touched(&path).collect();
        let used = self.used(is_statement);
        if let Some(node) = self.analysis.nodes.get_mut(self.at) {
            node.uses.extend(touched.iter().map(|at| Use { node: *at, ..used }));
            node.needs.extend(touched);
        }
    }

    /// How the expression needs a node, which is to be told.
    fn used(&self, is_statement: bool) -> Use {
        let sense = if is_statement { self.sense } else { Sense::Both };
        Use { node: self.at, sense, is_within_with: self.is_within_with }
    }

    /// Notes what a name reads of `input` or `data`.
    fn read(&mut self, name: &'m Expr, is_statement: bool, is_looked_into: bool) {
        let Some(path) = self.scope.document(&parts(name), &self.locals, self.aliases) else { return };
        let read = Read {
            path: path.into_iter().map(str::to_owned).collect(),
            looks_into: is_looked_into || written_out(name).is_none(),
            is_compared: self.is_compared,
            is_tested: is_statement && self.sense != Sense::Same,
            module: self.module,
            place: place(start(name)),
            is_within_with: self.is_within_with,
            effect: Effect::default(),
        };
        self.analysis.reads.push((self.at, self.sense, read));
    }

    fn call(&mut self, function: &Expr, first: Option<&Expr>, is_statement: bool) {
        let span = start(function);
        let parts = parts(function);
        let name = parts.join(".");
        if let Some(called) = self.analysis.paths.get(&self.scope.called(&parts)).copied() {
            let used = self.used(is_statement);
            if let Some(node) = self.analysis.nodes.get_mut(self.at) {
                node.calls.push(called);
                node.needs.push(called);
                node.uses.push(Use { node: called, ..used });
            }
            return;
        }
        let imported = self.scope.resolve(&parts).filter(|path| self.analysis.paths.contains_key(path));
        if let Some(path) = imported {
            if self.analysis.describes_more() {
                let text = format!("function {name} is imported: the engine finds it by its whole path only");
                self.analysis.push(self.module, span, &text, Some(format!("write `{path}(…)`")));
            }
            return;
        }
        let is_known = is_available(&name) || SPECIAL.contains(&&*name);
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
