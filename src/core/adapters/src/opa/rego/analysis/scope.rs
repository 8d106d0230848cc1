//! What names of a module mean.

use std::collections::BTreeMap;

use regorus::unstable::{AssignOp, Expr, Literal, Module, Query, Rule, RuleHead, Span};

/// The names that mean something in a module.
pub(super) struct Scope<'m> {
    pub(super) module: &'m Module,
    /// `data.PACKAGE`.
    pub(super) package: String,
    /// Paths by the first part of a name.
    imports: BTreeMap<&'m str, Vec<&'m str>>,
}

impl<'m> Scope<'m> {
    pub(super) fn of(module: &'m Module) -> Self {
        let package = format!("data.{}", parts(&module.package.refr).join("."));
        let imports = module.imports.iter().filter_map(|import| {
            let path = parts(&import.refr);
            let alias = import.r#as.as_ref().map(Span::text).or(path.last().copied())?;
            is_root(path.first()?).then_some((alias, path))
        });
        Self { module, package, imports: imports.collect() }
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

    /// The path of a name in `input` or `data`. `None`: it is a rule of the package, or what a local name stands for is not known.
    pub(super) fn document<'p>(&'p self, parts: &[&'p str], locals: &Locals<'p>) -> Option<Vec<&'p str>> {
        let (first, rest) = parts.split_first()?;
        let base = match locals.0.get(first) {
            Some(path) => path.clone()?,
            None if is_root(first) => vec![*first],
            None => self.imports.get(first)?.clone(),
        };
        // What stands for a name of the module is not followed further.
        let base = match base.first() {
            Some(root) if is_root(root) => base,
            Some(alias) => [self.imports.get(alias)?.as_slice(), base.get(1..).unwrap_or_default()].concat(),
            None => return None,
        };
        Some(base.into_iter().chain(rest.iter().copied()).collect())
    }
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
    let refr = match rule {
        Rule::Spec { head: RuleHead::Compr { refr, .. }, .. }
        | Rule::Spec { head: RuleHead::Set { refr, .. }, .. }
        | Rule::Spec { head: RuleHead::Func { refr, .. }, .. }
        | Rule::Default { refr, .. } => refr,
    };
    parts(refr).join(".")
}
