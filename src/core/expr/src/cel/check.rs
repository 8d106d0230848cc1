//! The static type check.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::ast::{ACCUMULATOR, Ast, Fold, Literal, NodeId, NodeKind, children};
use super::overloads::{Overload, overloads};
use super::source::Problem;
use super::types::{Bindings, Type, is_wider};
use crate::Scope;
use crate::others::is_lookup;
use mixer_base::suggestion::{Case, near};

/// Maximum number of reported problems.
const MAX_PROBLEMS: usize = 20;

/// Checks a tree; returns the type of its root.
pub(super) fn check(ast: &Ast, root: NodeId, scope: &dyn Scope) -> Result<Type, Vec<Problem>> {
    let mut checker = Checker {
        ast,
        attributes: Attributes::new(scope),
        bindings: Bindings::new(100_000 + 100 * ast.len()),
        types: vec![None; ast.len()],
        seen: FxHashMap::default(),
        locals: Vec::new(),
        block: 0,
        blocks: 0,
        problems: Vec::new(),
        is_ambiguous: false,
    };
    let result = checker.check(root);
    if checker.is_ambiguous {
        return Err(vec![Problem::new(ast.at(root), "a part that is used twice has no definite type")]);
    }
    let result = checker.bindings.resolve(&result);
    if checker.bindings.is_exhausted() {
        return Err(vec![Problem::new(ast.at(root), "the types of this expression are too large")]);
    }
    if checker.problems.is_empty() { Ok(result) } else { Err(checker.problems) }
}

/// The attributes of a scope as nested objects.
pub(super) struct Attributes<'s> {
    scope: &'s dyn Scope,
}

impl<'s> Attributes<'s> {
    pub(super) fn new(scope: &'s dyn Scope) -> Attributes<'s> {
        Attributes { scope }
    }

    /// The type of the attribute or object at a dotted path.
    pub(super) fn at(&self, path: &str) -> Option<Type> {
        if let Some((_, value_type)) = self.scope.attribute(path) {
            return Some(Type::of_attribute(value_type));
        }
        self.scope.has_below(path).then(|| Type::Object(format!(".{path}").into()))
    }

    /// The hint with the declared name nearest to `name`.
    fn similar(&self, name: &str) -> Option<&'s str> {
        let near = near(name, self.scope.names(), Case::Distinguished, |_| name.len() / 3);
        near.into_iter().min().map(|(_, known)| known)
    }
}

/// What to write instead of `in` on a text.
const IN_TEXT: &str = "what follows `in` is one text, of a list the items between commas (a comma in an item is %2C): write \
                       text.matches(\"(^|,)item(,|$)\"), or text.contains(\"part\")";

struct Checker<'c> {
    ast: &'c Ast,
    attributes: Attributes<'c>,
    bindings: Bindings,
    types: Vec<Option<Type>>,
    /// Nodes checked in a block, and whether a second check would infer other types.
    seen: FxHashMap<(NodeId, u32), bool>,
    locals: Vec<(Box<str>, Type)>,
    block: u32,
    blocks: u32,
    problems: Vec<Problem>,
    is_ambiguous: bool,
}

impl Checker<'_> {
    /// The type of a node. All nodes below it in the same block are checked first, in a loop; nodes with several parents are
    /// checked once per block.
    ///
    /// compat(1.3): a shared node whose check creates type variables is rejected.
    fn check(&mut self, id: NodeId) -> Type {
        let mut pending = vec![(id, false)];
        while let Some((node, is_ready)) = pending.pop() {
            if is_ready {
                self.check_one(node);
            } else if let Some(is_ambiguous) = self.seen.get(&(node, self.block)) {
                self.is_ambiguous |= is_ambiguous;
            } else {
                pending.push((node, true));
                pending.extend(self.operands(node).into_iter().rev().map(|operand| (operand, false)));
            }
        }
        self.known(id)
    }

    /// The nodes to check before a node.
    fn operands(&self, id: NodeId) -> Vec<NodeId> {
        match &self.ast.node(id).kind {
            NodeKind::Select { operand, .. } if self.unknown_root(*operand).is_some() => Vec::new(),
            kind => children(kind),
        }
    }

    fn check_one(&mut self, id: NodeId) {
        let first_var = self.bindings.next_var();
        let found = self.find(id);
        let found = self.bounded(id, found);
        let is_ambiguous = |child: &NodeId| self.seen.get(&(*child, self.block)).copied().unwrap_or(false);
        let is_ambiguous =
            found.has_var_from(first_var) || children(&self.ast.node(id).kind).iter().any(is_ambiguous);
        self.set(id, found);
        self.seen.insert((id, self.block), is_ambiguous);
    }

    fn bounded(&mut self, id: NodeId, found: Type) -> Type {
        if found.is_too_large() {
            self.problem(Problem::new(self.ast.at(id), "the type of this part is too large"));
            return Type::Error;
        }
        found
    }

    fn known(&self, id: NodeId) -> Type {
        self.types.get(id.index()).cloned().flatten().unwrap_or(Type::Error)
    }

    fn set(&mut self, id: NodeId, found: Type) {
        if let Some(entry) = self.types.get_mut(id.index()) {
            self.is_ambiguous |= entry.as_ref().is_some_and(|before| *before != found);
            *entry = Some(found);
        }
    }

    fn problem(&mut self, problem: Problem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    fn find(&mut self, id: NodeId) -> Type {
        let ast = self.ast;
        match &ast.node(id).kind {
            NodeKind::Literal(literal) => type_of_literal(literal),
            NodeKind::Ident(name) => self.ident(id, name),
            NodeKind::Select { operand, field, test } => self.select(id, *operand, field, *test),
            NodeKind::Call { function, target, args } => self.call(id, function, *target, args),
            NodeKind::List(items) => {
                let item = self.join(items.iter().copied());
                Type::list(item)
            }
            NodeKind::Map(entries) => {
                let key = self.join(entries.iter().map(|entry| entry.0));
                Type::map(key, self.join(entries.iter().map(|entry| entry.1)))
            }
            NodeKind::Message { name, .. } => match self.lookup(name) {
                Some(found) => {
                    let text = format!("'{found}' is not a message type");
                    self.problem(Problem::new(self.ast.at(id), text));
                    Type::Error
                }
                None => self.undeclared(id, name, name),
            },
            NodeKind::Fold(fold) => self.fold(fold),
        }
    }

    fn undeclared(&mut self, id: NodeId, name: &str, attribute: &str) -> Type {
        let text = format!("undeclared reference to '{name}' (in container '')");
        let mut problem = Problem::new(self.ast.at(id), text).with_unknown(attribute);
        if self.problems.len() < MAX_PROBLEMS
            && let Some(similar) = self.attributes.similar(attribute)
        {
            problem = problem.with_hint(format!("did you mean `{similar}`?"));
        }
        self.problem(problem);
        Type::Error
    }

    /// The type of a name: a variable of a macro, an attribute, or a type.
    fn lookup(&self, name: &str) -> Option<Type> {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some((_, found)) = self.locals.iter().rev().find(|(local, _)| **local == *name) {
            return Some(found.clone());
        }
        if let Some(found) = self.attributes.at(name) {
            return Some(found);
        }
        let named = match name {
            "int" => Type::Int,
            "uint" => Type::Uint,
            "bool" => Type::Bool,
            "double" => Type::Double,
            "bytes" => Type::Bytes,
            "string" => Type::String,
            "list" => Type::list(Type::Dyn),
            "map" => Type::map(Type::Dyn, Type::Dyn),
            "null_type" => Type::Null,
            "type" => return Some(Type::Meta(Some(Rc::new(Type::Meta(None))))),
            _ => return None,
        };
        Some(Type::Meta(Some(Rc::new(named))))
    }

    fn ident(&mut self, id: NodeId, name: &str) -> Type {
        match self.lookup(name) {
            Some(found) => found,
            None => self.undeclared(id, name, name),
        }
    }

    fn select(&mut self, id: NodeId, operand: NodeId, field: &str, test: bool) -> Type {
        // An unknown root is reported once, with the whole name.
        if let Some(name) = self.unknown_root(operand) {
            let root = name.split('.').find(|part| !part.is_empty()).unwrap_or("").to_owned();
            let root_id = self.root(operand);
            self.undeclared(root_id, &root, &format!("{name}.{field}"));
            return if test { Type::Bool } else { Type::Dyn };
        }
        let target = self.known(operand);
        let found = match &target {
            Type::Map(entry) => entry.1.clone(),
            Type::Object(name) => self.field(id, name, field),
            Type::Var(_) => target.clone(),
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                let text = format!("type '{}' does not support field selection", described(other));
                self.problem(Problem::new(self.ast.at(id), text));
                Type::Error
            }
        };
        if test { Type::Bool } else { found }
    }

    /// The dotted name of `operand`, if its first segment is unknown.
    fn unknown_root(&self, operand: NodeId) -> Option<String> {
        let root = self.root(operand);
        let NodeKind::Ident(root) = &self.ast.node(root).kind else { return None };
        if self.lookup(root).is_some() { None } else { self.ast.qualified_name(operand) }
    }

    fn root(&self, mut id: NodeId) -> NodeId {
        while let NodeKind::Select { operand, .. } = &self.ast.node(id).kind {
            id = *operand;
        }
        id
    }

    fn field(&mut self, id: NodeId, object: &str, field: &str) -> Type {
        let found = object.strip_prefix('.').and_then(|path| self.attributes.at(&format!("{path}.{field}")));
        if let Some(found) = found {
            return found;
        }
        let mut problem = Problem::new(self.ast.at(id), format!("undefined field '{field}'"));
        if let Some(path) = object.strip_prefix('.') {
            let name = format!("{path}.{field}");
            if self.problems.len() < MAX_PROBLEMS
                && let Some(similar) = self.attributes.similar(&name)
            {
                problem = problem.with_hint(format!("did you mean `{similar}`?"));
            }
            problem = problem.with_unknown(name);
        }
        self.problem(problem);
        Type::Error
    }

    fn call(&mut self, id: NodeId, function: &str, target: Option<NodeId>, args: &[NodeId]) -> Type {
        let types: Vec<Type> = target.iter().chain(args).map(|arg| self.known(*arg)).collect();
        let Some(candidates) = overloads(function.strip_prefix('.').unwrap_or(function)) else {
            let text = format!("undeclared reference to '{function}' (in container '')");
            let problem = Problem::new(self.ast.at(id), text);
            let is_map = matches!(types.first(), Some(Type::Map(_)));
            self.problem(match is_map && target.is_some() && is_lookup(function) {
                true => {
                    problem.with_hint("for an entry of a map, or a default, write pick(map[\"key\"], \"\")")
                }
                false => problem,
            });
            return Type::Error;
        };
        if let Some(found) = self.resolve(candidates, target.is_some(), &types) {
            return found;
        }
        let mut shown = types.iter().map(Type::to_string);
        let receiver =
            if target.is_some() { format!("{}.", shown.next().unwrap_or_default()) } else { String::new() };
        let signature = format!("{receiver}({})", shown.collect::<Vec<_>>().join(", "));
        let name = function.strip_prefix('.').unwrap_or(function);
        let text = format!("found no matching overload for '{name}' applied to '{signature}'");
        let problem = Problem::new(self.ast.at(id), text);
        // `"admin" in claims["roles"]`: an entry of a map is a text.
        self.problem(match (name, types.as_slice()) {
            ("@in", [_, Type::String]) => problem.with_hint(IN_TEXT),
            _ => problem,
        });
        Type::Error
    }

    /// The result type of the overload that accepts `types`; dynamic if several do.
    fn resolve(&mut self, candidates: &[Overload], is_method: bool, types: &[Type]) -> Option<Type> {
        let mut result = None;
        for overload in candidates.iter().filter(|overload| overload.is_method == is_method) {
            let (params, found) = overload.instantiate(&mut self.bindings);
            if self.bindings.assign_all(types, &params) {
                result = Some(match result {
                    None => self.bindings.resolve(&found),
                    Some(_) => Type::Dyn,
                });
            }
        }
        result
    }

    /// The common type of nodes; dynamic if there is none, a new variable without nodes.
    fn join(&mut self, items: impl Iterator<Item = NodeId>) -> Type {
        let mut common: Option<Type> = None;
        for item in items {
            let found = self.known(item);
            common = Some(match common {
                None => found,
                Some(before) if self.bindings.assign(&before, &found) => {
                    if is_wider(&before, &found) {
                        before
                    } else {
                        found
                    }
                }
                Some(_) => Type::Dyn,
            });
        }
        common.unwrap_or_else(|| self.bindings.fresh())
    }

    fn fold(&mut self, fold: &Fold) -> Type {
        let range = self.known(fold.range);
        let accumulator = self.known(fold.init);
        let variable = match &range {
            Type::List(item) => (**item).clone(),
            Type::Map(entry) => entry.0.clone(),
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                let text = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.problem(Problem::new(self.ast.at(fold.range), text));
                Type::Error
            }
        };
        let outer = self.block;
        self.blocks += 1;
        self.block = self.blocks;
        self.locals.push((ACCUMULATOR.into(), accumulator.clone()));
        self.locals.push((fold.variable.clone(), variable));
        self.require(fold.condition, &Type::Bool);
        self.require(fold.step, &accumulator);
        self.locals.pop();
        self.blocks += 1;
        self.block = self.blocks;
        let result = self.check(fold.result);
        self.locals.pop();
        self.block = outer;
        result
    }

    fn require(&mut self, id: NodeId, expected: &Type) {
        let found = self.check(id);
        if !self.bindings.assign(expected, &found) {
            let text = format!("expected type '{expected}' but found '{found}'");
            self.problem(Problem::new(self.ast.at(id), text));
        }
    }
}

fn type_of_literal(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// A type in error texts about selections.
fn described(of: &Type) -> String {
    let primitive = |name: &str| format!("primitive:{name} ");
    match of {
        Type::Bool => primitive("BOOL"),
        Type::Int => primitive("INT64"),
        Type::Uint => primitive("UINT64"),
        Type::Double => primitive("DOUBLE"),
        Type::String => primitive("STRING"),
        Type::Bytes => primitive("BYTES"),
        Type::Timestamp => "well_known:TIMESTAMP ".to_owned(),
        Type::Duration => "well_known:DURATION ".to_owned(),
        Type::Null => "null:NULL_VALUE ".to_owned(),
        other => other.to_string(),
    }
}
