//! What names of a module mean.

use std::collections::BTreeMap;

use regorus::unstable::{AssignOp, Expr, Literal, Module, Query, Rule, RuleHead, Span};

/// Most names that are followed from one to the next.
const MAX_STEPS: usize = 8;

/// The names that mean something in a module.
pub(super) struct Scope<'m> {
    pub(super) module: &'m Module,
    /// `data.PACKAGE`.
    pub(super) package: String,
    /// Its parts.
    package_path: Vec<&'m str>,
    /// Paths by the first part of a name.
    imports: BTreeMap<&'m str, Vec<&'m str>>,
}

impl<'m> Scope<'m> {
    pub(super) fn of(module: &'m Module) -> Self {
        let package_path = [&["data"][..], &parts(&module.package.refr)].concat();
        let package = package_path.join(".");
        let imports = module.imports.iter().filter_map(|import| {
            let path = parts(&import.refr);
            let alias = import.r#as.as_ref().map(Span::text).or(path.last().copied())?;
            is_root(path.first()?).then_some((alias, path))
        });
        Self { module, package, package_path, imports: imports.collect() }
    }

    /// The path that a name means, if it is that of a rule, a package or data.
    pub(super) fn resolve(&self, parts: &[&str]) -> Option<String> {
        let (first, rest) = parts.split_first()?;
        let base = match (*first, self.imports.get(first)) {
            ("data", _) => "data".to_owned(),
            ("input", _) => return None,
            (_, Some(path)) if path.first() == Some(&"data") => path.join("."),
            (first, _) => format!("{}.{first}", self.package),
        };
        Some(std::iter::once(base.as_str()).chain(rest.iter().copied()).collect::<Vec<_>>().join("."))
    }

    /// The path of the function that the engine calls by a name: unlike OPA, it follows no import.
    pub(super) fn called(&self, parts: &[&str]) -> String {
        let name = parts.join(".");
        if parts.first() == Some(&"data") { name } else { format!("{}.{name}", self.package) }
    }

    /// The path of a name in `input` or `data`. `None`: it is a rule of the package with another value than a part of a document, or what
    /// a local name stands for is not known.
    pub(super) fn document<'p>(
        &self,
        parts: &[&'p str],
        locals: &Locals<'p>,
        aliases: &Aliases<'p>,
    ) -> Option<Vec<&'p str>>
    where
        'm: 'p,
    {
        let (path, is_own) = self.absolute(parts, locals)?;
        (!is_own || aliases.find(&path).is_some()).then(|| aliases.follow(path))
    }

    /// The path of a name from `input` or `data` on, and whether the module defines it by a rule, as far as it does not import it. `None`:
    /// what a local name stands for is not known.
    fn absolute<'p>(&self, parts: &[&'p str], locals: &Locals<'p>) -> Option<(Vec<&'p str>, bool)>
    where
        'm: 'p,
    {
        let path = locals.replaced(parts)?;
        let (first, rest) = path.split_first()?;
        Some(match (is_root(first), self.imports.get(first)) {
            (true, _) => (path, false),
            (false, Some(import)) => ([import.as_slice(), rest].concat(), false),
            (false, None) => ([self.package_path.as_slice(), &path].concat(), true),
        })
    }
}

/// What rules stand for, by their paths: those with one definition, whose value is a part of a document, `sub := input.subject`.
pub(super) struct Aliases<'m>(BTreeMap<Vec<&'m str>, Vec<&'m str>>);

impl<'m> Aliases<'m> {
    pub(super) fn of<'s>(scopes: impl Iterator<Item = &'s Scope<'m>>) -> Self
    where
        'm: 's,
    {
        let mut values: BTreeMap<Vec<&'m str>, Option<Vec<&'m str>>> = BTreeMap::new();
        for scope in scopes {
            let module = scope.module;
            for rule in &module.policy {
                let path = [scope.package_path.as_slice(), &parts(head(rule))].concat();
                let absolute = |name: Vec<&'m str>| scope.absolute(&name, &Locals::of(rule));
                let value = only_value(rule).and_then(absolute).map(|(value, _)| value);
                // A rule with several definitions may have any of their values.
                values.entry(path).and_modify(|value| *value = None).or_insert(value);
            }
        }
        Self(values.into_iter().filter_map(|(path, value)| Some((path, value?))).collect())
    }

    /// The value of the rule with which a path begins, with the length of the path of the rule.
    fn find<'s, 'p>(&'s self, path: &[&'p str]) -> Option<(usize, &'s [&'p str])>
    where
        'm: 'p,
    {
        let values: &'s BTreeMap<Vec<&'p str>, Vec<&'p str>> = &self.0;
        (1..=path.len()).find_map(|length| Some((length, values.get(path.get(..length)?)?.as_slice())))
    }

    /// The path that a path stands for.
    fn follow<'p>(&self, mut path: Vec<&'p str>) -> Vec<&'p str>
    where
        'm: 'p,
    {
        for _ in 0..MAX_STEPS {
            let Some((length, value)) = self.find(&path) else { break };
            path = [value, path.get(length..).unwrap_or_default()].concat();
        }
        path
    }
}

/// The value of a rule that has one only, if it is a name all parts of which are texts.
fn only_value(rule: &Rule) -> Option<Vec<&str>> {
    let Rule::Spec { head: RuleHead::Compr { refr, assign: Some(assign), .. }, bodies, .. } = rule else {
        return None;
    };
    written_out(refr)?;
    let has_one = bodies.len() <= 1 && bodies.iter().all(|body| body.assign.is_none());
    has_one.then(|| written_out(&assign.value)).flatten()
}

/// Whether a name begins with a document.
fn is_root(first: &str) -> bool {
    matches!(first, "input" | "data")
}

/// The names that a rule defines itself, with what they stand for. `None`: with anything.
pub(super) struct Locals<'m>(BTreeMap<&'m str, Option<Vec<&'m str>>>);

impl<'m> Locals<'m> {
    /// Those of a rule, wherever in it they are defined.
    pub(super) fn of(rule: &'m Rule) -> Self {
        let mut locals = Self(BTreeMap::new());
        if let Rule::Spec { head, bodies, .. } = rule {
            let (first, second) = match head {
                RuleHead::Func { args, assign, .. } => {
                    args.iter().for_each(|argument| locals.pattern(argument));
                    (assign.as_ref().map(|assign| &*assign.value), None)
                }
                RuleHead::Compr { assign, .. } => (assign.as_ref().map(|assign| &*assign.value), None),
                RuleHead::Set { key, .. } => (None, key.as_deref()),
            };
            [first, second].into_iter().flatten().for_each(|value| locals.expression(value));
            for body in bodies {
                body.assign.iter().for_each(|assign| locals.expression(&assign.value));
                locals.query(&body.query);
            }
        }
        locals
    }

    /// The name that a name stands for, and that is no local one. `None`: that is not known.
    fn replaced<'p>(&self, parts: &[&'p str]) -> Option<Vec<&'p str>>
    where
        'm: 'p,
    {
        let mut path = parts.to_vec();
        for _ in 0..MAX_STEPS {
            let (first, rest) = path.split_first()?;
            let Some(base) = self.0.get(first) else { return Some(path) };
            let base = base.as_deref()?;
            let names_itself = base.first() == Some(first);
            path = [base, rest].concat();
            if names_itself {
                return Some(path);
            }
        }
        None
    }

    /// A name that is defined twice stands for anything.
    fn define(&mut self, name: &'m str, path: Option<Vec<&'m str>>) {
        self.0.entry(name).and_modify(|path| *path = None).or_insert(path);
    }

    /// Defines the names of a pattern.
    fn pattern(&mut self, pattern: &'m Expr) {
        match pattern {
            Expr::Var { span, .. } => self.define(span.text(), None),
            Expr::Array { items, .. } => items.iter().for_each(|item| self.pattern(item)),
            Expr::Object { fields, .. } => fields.iter().for_each(|(_, _, value)| self.pattern(value)),
            _ => {}
        }
    }

    fn query(&mut self, query: &'m Query) {
        for statement in &query.stmts {
            match &statement.literal {
                Literal::SomeVars { vars, .. } => vars.iter().for_each(|name| self.define(name.text(), None)),
                Literal::SomeIn { key, value, collection, .. } => {
                    key.iter().for_each(|key| self.pattern(key));
                    self.pattern(value);
                    self.expression(collection);
                }
                Literal::Expr { expr, .. } | Literal::NotExpr { expr, .. } => self.expression(expr),
                Literal::Every { key, value, domain, query, .. } => {
                    key.iter().chain([value]).for_each(|name| self.define(name.text(), None));
                    self.expression(domain);
                    self.query(query);
                }
            }
        }
    }

    fn expression(&mut self, expression: &'m Expr) {
        match expression {
            Expr::AssignExpr { op, lhs, rhs, .. } => {
                let path = written_out(rhs).filter(|_| *op == AssignOp::ColEq);
                match (&**lhs, op) {
                    (Expr::Var { span, .. }, AssignOp::ColEq) => self.define(span.text(), path),
                    (pattern, AssignOp::ColEq) => self.pattern(pattern),
                    // Either a definition or a comparison.
                    (_, AssignOp::Eq) => {}
                }
                self.expression(rhs);
            }
            Expr::ArrayCompr { term, query, .. } | Expr::SetCompr { term, query, .. } => {
                self.expression(term);
                self.query(query);
            }
            Expr::ObjectCompr { key, value, query, .. } => {
                self.expression(key);
                self.expression(value);
                self.query(query);
            }
            Expr::Array { items, .. } | Expr::Set { items, .. } => {
                items.iter().for_each(|item| self.expression(item));
            }
            Expr::Object { fields, .. } => fields.iter().for_each(|(_, key, value)| {
                self.expression(key);
                self.expression(value);
            }),
            Expr::Call { params, .. } => params.iter().for_each(|parameter| self.expression(parameter)),
            Expr::UnaryExpr { expr, .. } => self.expression(expr),
            Expr::RefDot { refr, .. } => self.expression(refr),
            Expr::RefBrack { refr, index, .. } => {
                self.expression(refr);
                self.expression(index);
            }
            Expr::BinExpr { lhs, rhs, .. }
            | Expr::BoolExpr { lhs, rhs, .. }
            | Expr::ArithExpr { lhs, rhs, .. } => {
                self.expression(lhs);
                self.expression(rhs);
            }
            Expr::Membership { key, value, collection, .. } => {
                key.iter().for_each(|key| self.expression(key));
                self.expression(value);
                self.expression(collection);
            }
            Expr::String { .. }
            | Expr::RawString { .. }
            | Expr::Number { .. }
            | Expr::Bool { .. }
            | Expr::Null { .. }
            | Expr::Var { .. } => {}
        }
    }
}

/// The parts of a name, `a.b["c"]`, up to the first that is no text.
pub(super) fn parts(expression: &Expr) -> Vec<&str> {
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

/// The parts of a name all of which are texts.
pub(super) fn written_out(expression: &Expr) -> Option<Vec<&str>> {
    let mut at = expression;
    loop {
        match at {
            Expr::Var { .. } => return Some(parts(expression)),
            Expr::RefDot { refr, .. } => at = refr,
            Expr::RefBrack { refr, index, .. } if matches!(&**index, Expr::String { .. }) => at = refr,
            _ => return None,
        }
    }
}

/// Where a name begins.
pub(super) fn start(name: &Expr) -> &Span {
    match name {
        Expr::RefDot { refr, .. } | Expr::RefBrack { refr, .. } => start(refr),
        name => name.span(),
    }
}

/// The name of a rule; of one with other keys than texts, `roles[name]`, that of all of them.
pub(super) fn rule_name(rule: &Rule) -> String {
    parts(head(rule)).join(".")
}

fn head(rule: &Rule) -> &Expr {
    match rule {
        Rule::Spec { head: RuleHead::Compr { refr, .. }, .. }
        | Rule::Spec { head: RuleHead::Set { refr, .. }, .. }
        | Rule::Spec { head: RuleHead::Func { refr, .. }, .. }
        | Rule::Default { refr, .. } => refr,
    }
}
