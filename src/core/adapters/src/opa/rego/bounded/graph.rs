//! Walks of graphs and documents. The engine follows a path by recursion, however long it is, and copies it for each that it finds.

use std::collections::BTreeSet;

use anyhow::bail;
use regorus::Value;

use super::{Builtin, beyond};

/// Longest path in a graph.
const MAX_PATH: usize = 256;
/// Most nodes of all paths of a graph.
const MAX_NODES: usize = 100_000;
/// Most parts of all paths in a document.
const MAX_PARTS: usize = 1 << 20;

/// `graph.reachable_paths(graph, first)`.
pub(super) fn reachable_paths(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    let [graph @ Value::Object(_), first] = arguments else { return builtin.call(arguments) };
    let mut walk =
        Walk { graph, on_path: BTreeSet::new(), path: Vec::new(), paths: BTreeSet::new(), nodes: 0 };
    match first {
        Value::Array(nodes) => nodes.iter().try_for_each(|node| walk.visit(node))?,
        Value::Set(nodes) => nodes.iter().try_for_each(|node| walk.visit(node))?,
        _ => return builtin.call(arguments),
    }
    Ok(Value::from(walk.paths))
}

/// `walk(document)`.
pub(super) fn walk(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    let mut left = MAX_PARTS;
    if arguments.first().is_some_and(|document| !is_walkable(document, 1, &mut left)) {
        return Err(beyond(format!("walk: the paths in a document have at most {MAX_PARTS} parts")));
    }
    builtin.call(arguments)
}

/// Whether the paths in a document have `left` parts at most.
fn is_walkable(document: &Value, depth: usize, left: &mut usize) -> bool {
    let Some(rest) = left.checked_sub(depth) else { return false };
    *left = rest;
    let mut member = |member: &Value| is_walkable(member, depth + 1, left);
    match document {
        Value::Array(members) => members.iter().all(member),
        Value::Set(members) => members.iter().all(member),
        Value::Object(members) => members.iter_sorted().all(|(_, value)| member(value)),
        _ => true,
    }
}

/// A search for all paths in a graph.
struct Walk<'g> {
    graph: &'g Value,
    on_path: BTreeSet<Value>,
    path: Vec<Value>,
    paths: BTreeSet<Value>,
    /// Of all paths, and those visited.
    nodes: usize,
}

impl Walk<'_> {
    fn visit(&mut self, node: &Value) -> anyhow::Result<()> {
        let neighbours = match self.graph {
            Value::Object(graph) => graph.get(node),
            _ => None,
        };
        let ends_here = matches!(node, Value::String(text) if text.is_empty()) || neighbours.is_none();
        if ends_here || self.on_path.contains(node) {
            return self.found();
        }
        if self.path.len() >= MAX_PATH {
            return Err(beyond(format!("graph.reachable_paths: a path has at most {MAX_PATH} nodes")));
        }
        self.count(1)?;
        self.path.push(node.clone());
        self.on_path.insert(node.clone());
        let is_leaf = match neighbours {
            Some(Value::Array(next)) => {
                next.iter().rev().try_for_each(|next| self.visit(next))?;
                next.is_empty()
            }
            Some(Value::Set(next)) => {
                next.iter().rev().try_for_each(|next| self.visit(next))?;
                next.is_empty()
            }
            Some(Value::Null) => true,
            _ => bail!("graph.reachable_paths: the neighbours of a node are no array or set"),
        };
        if is_leaf {
            self.found()?;
        }
        self.on_path.remove(node);
        self.path.pop();
        Ok(())
    }

    /// A path ends.
    fn found(&mut self) -> anyhow::Result<()> {
        self.count(self.path.len().max(1))?;
        if !self.path.is_empty() {
            self.paths.insert(Value::from(self.path.clone()));
        }
        Ok(())
    }

    fn count(&mut self, nodes: usize) -> anyhow::Result<()> {
        self.nodes += nodes;
        if self.nodes > MAX_NODES {
            return Err(beyond(format!(
                "graph.reachable_paths: all paths have at most {MAX_NODES} nodes together"
            )));
        }
        Ok(())
    }
}
