//! Macros: calls that the parser expands.

use super::ast::{ACCUMULATOR, Fold, Literal, NodeId, NodeKind};
use super::parser::{Parsed, Parser};
use super::source::Problem;

impl Parser<'_> {
    /// The node of `function(args)` or `target.function(args)` with its `(` at `at`.
    pub(super) fn call_or_macro(
        &mut self,
        at: u32,
        function: &str,
        target: Option<NodeId>,
        args: Vec<NodeId>,
    ) -> Parsed<NodeId> {
        match (function, target, args.as_slice()) {
            ("has", None, [operand]) => self.has(at, *operand),
            ("conditional", None, [_, _, _]) => self.operator(at, "_?_:_", args),
            ("pick", None, _) => self.pick(at, &args),
            ("all" | "exists" | "exists_one", Some(range), [variable, predicate]) => {
                self.quantifier(at, function, range, *variable, *predicate)
            }
            ("map", Some(range), [variable, value]) => self.map(at, range, *variable, None, *value),
            ("map", Some(range), [variable, filter, value]) => {
                self.map(at, range, *variable, Some(*filter), *value)
            }
            ("filter", Some(range), [variable, filter]) => {
                self.map(at, range, *variable, Some(*filter), *variable)
            }
            _ => self.ast.push(NodeKind::Call { function: function.to_owned().into(), target, args }, at),
        }
    }

    fn operator(&mut self, at: u32, function: &'static str, args: Vec<NodeId>) -> Parsed<NodeId> {
        self.ast.push(NodeKind::Call { function: function.into(), target: None, args }, at)
    }

    fn constant(&mut self, at: u32, literal: Literal) -> Parsed<NodeId> {
        self.ast.push(NodeKind::Literal(literal), at)
    }

    fn accumulator(&mut self, at: u32) -> Parsed<NodeId> {
        self.ast.push(NodeKind::Ident(ACCUMULATOR.into()), at)
    }

    fn presence(&mut self, at: u32, operand: NodeId, field: &str) -> Parsed<NodeId> {
        self.ast.push(NodeKind::Select { operand, field: field.into(), test: true }, at)
    }

    fn has(&mut self, at: u32, argument: NodeId) -> Parsed<NodeId> {
        match &self.ast.node(argument).kind {
            NodeKind::Select { operand, field, .. } => {
                let (operand, field) = (*operand, field.clone());
                self.presence(at, operand, &field)
            }
            _ => Err(Box::new(
                Problem::new(at, "invalid argument to has() macro")
                    .with_hint("has() takes a selection such as `request.host`; for an entry of a map write `\"x-user\" in request.headers`"),
            )),
        }
    }

    /// The first present argument: selections and indices are tested, all others count as present.
    fn pick(&mut self, at: u32, args: &[NodeId]) -> Parsed<NodeId> {
        let Some((last, earlier)) = args.split_last() else {
            return Err(Box::new(Problem::new(at, "pick() needs at least one argument")));
        };
        let mut result = *last;
        for argument in earlier.iter().rev() {
            let test = match &self.ast.node(*argument).kind {
                NodeKind::Select { test: true, .. } => {
                    let at = self.ast.at(*argument);
                    return Err(Box::new(Problem::new(at, "unsupported use of has() macro in pick()")));
                }
                NodeKind::Select { operand, field, .. } => {
                    let (operand, field) = (*operand, field.clone());
                    self.presence(at, operand, &field)?
                }
                NodeKind::Call { function, args, .. } if function == "_[_]" => {
                    let args = args.iter().rev().copied().collect();
                    self.operator(at, "@in", args)?
                }
                _ => {
                    self.ast.has_unused_default = true;
                    result = *argument;
                    continue;
                }
            };
            result = self.operator(at, "_?_:_", vec![test, *argument, result])?;
        }
        Ok(result)
    }

    fn variable(&self, node: NodeId, at: u32, text: &str) -> Parsed<Box<str>> {
        match &self.ast.node(node).kind {
            NodeKind::Ident(name) => Ok(name.clone()),
            _ => Err(Box::new(Problem::new(at, text))),
        }
    }

    fn quantifier(
        &mut self,
        at: u32,
        kind: &str,
        range: NodeId,
        variable: NodeId,
        predicate: NodeId,
    ) -> Parsed<NodeId> {
        let variable = self.variable(variable, self.ast.at(variable), "argument must be a simple name")?;
        let found = self.accumulator(at)?;
        let (init, condition, step, result) = match kind {
            "all" => {
                let init = self.constant(at, Literal::Bool(true))?;
                let condition = self.operator(at, "@not_strictly_false", vec![found])?;
                let step = self.operator(at, "_&&_", vec![found, predicate])?;
                (init, condition, step, found)
            }
            "exists" => {
                let init = self.constant(at, Literal::Bool(false))?;
                let missing = self.operator(at, "!_", vec![found])?;
                let condition = self.operator(at, "@not_strictly_false", vec![missing])?;
                let step = self.operator(at, "_||_", vec![found, predicate])?;
                (init, condition, step, found)
            }
            _ => {
                let init = self.constant(at, Literal::Int(0))?;
                let one = self.constant(at, Literal::Int(1))?;
                let condition = self.operator(at, "_<=_", vec![found, one])?;
                let more = self.operator(at, "_+_", vec![found, one])?;
                let step = self.operator(at, "_?_:_", vec![predicate, more, found])?;
                let result = self.operator(at, "_==_", vec![found, one])?;
                (init, condition, step, result)
            }
        };
        self.ast.push(NodeKind::Fold(Fold { variable, range, init, condition, step, result }), at)
    }

    /// `map` and `filter`: a list of `value` for each element for which `filter` holds.
    fn map(
        &mut self,
        at: u32,
        range: NodeId,
        variable: NodeId,
        filter: Option<NodeId>,
        value: NodeId,
    ) -> Parsed<NodeId> {
        let name = self.variable(variable, at, "argument is not an identifier")?;
        let so_far = self.accumulator(at)?;
        let init = self.ast.push(NodeKind::List(Vec::new()), at)?;
        let condition = self.constant(at, Literal::Bool(true))?;
        let item = self.ast.push(NodeKind::List(vec![value]), at)?;
        let mut step = self.operator(at, "_+_", vec![so_far, item])?;
        if let Some(filter) = filter {
            step = self.operator(at, "_?_:_", vec![filter, step, so_far])?;
        }
        let fold = Fold { variable: name, range, init, condition, step, result: so_far };
        self.ast.push(NodeKind::Fold(fold), at)
    }
}
