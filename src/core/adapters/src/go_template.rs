//! Templates of Go's `text/template`: names of metrics and texts that are made from the values of an instance.
//!
//! What Istio's documentation uses is supported: fields of the data (`{{.key}}`), literals, pipelines, parentheses, `if`, `with`, `range`,
//! comments, trim markers, and the functions `and`, `or`, `not`, `eq`, `ne`, `lt`, `le`, `gt`, `ge`, `index`, `len`, `print`, `printf`,
//! `println`. Variables, named templates and methods are errors when the template is parsed.
//!
//! ```ignore
//! let template = GoTemplate::parse("hits", "{{.service}}.{{or .code 0}}")?;
//! template.execute(&|key| values.get(key), |_| {}, &mut out)?;
//! ```

mod exec;
mod lexer;
mod parser;

use mixer_attribute::Value;

/// Nested actions and parentheses at most.
const MAX_DEPTH: usize = 64;

/// A template.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GoTemplate {
    nodes: Vec<Node>,
}

/// A part of a template.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    Text(String),
    /// Prints a value.
    Print(Pipeline),
    If(Branch),
    /// With the value as the data.
    With(Branch),
    /// Once for each entry.
    Range(Branch),
}

/// A condition and what follows.
#[derive(Debug, Clone, PartialEq)]
struct Branch {
    subject: Pipeline,
    then: Vec<Node>,
    otherwise: Vec<Node>,
}

/// Commands, of which each has the result of the previous one as its last argument.
type Pipeline = Vec<Command>;

/// A function and its arguments, or a value alone.
#[derive(Debug, Clone, PartialEq)]
struct Command {
    operands: Vec<Operand>,
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    /// The data itself, or a field of it, or a field of that.
    Field(Vec<String>),
    /// `$`: the data, also within `with` and `range`.
    Root(Vec<String>),
    Literal(Literal),
    Function(Function),
    /// In parentheses, and fields of it.
    Pipeline(Pipeline, Vec<String>),
}

#[derive(Debug, Clone, PartialEq)]
enum Literal {
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    And,
    Or,
    Not,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Index,
    Len,
    Print,
    Printf,
    Println,
}

impl Function {
    const ALL: [(&'static str, Function); 14] = [
        ("and", Function::And),
        ("or", Function::Or),
        ("not", Function::Not),
        ("eq", Function::Eq),
        ("ne", Function::Ne),
        ("lt", Function::Lt),
        ("le", Function::Le),
        ("gt", Function::Gt),
        ("ge", Function::Ge),
        ("index", Function::Index),
        ("len", Function::Len),
        ("print", Function::Print),
        ("printf", Function::Printf),
        ("println", Function::Println),
    ];

    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, function)| *function)
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, function)| *function == self).map_or("", |(name, _)| name)
    }
}

impl GoTemplate {
    /// Parses a template. `name` is part of errors, which resemble Go's.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Self, String> {
        parser::parse(text)
            .map(|nodes| Self { nodes })
            .map_err(|(line, why)| format!("template: {name}:{line}: {why}"))
    }

    /// Appends the text for the data, a map from keys to values. A value that is absent is printed as `<no value>`. `escape` changes each
    /// text in the place of an action, and nothing that the template has itself.
    ///
    /// Errors: a function that does not take its arguments; what was appended is to be discarded.
    pub(crate) fn execute<'v>(
        &self,
        data: &dyn Fn(&str) -> Option<Value<'v>>,
        escape: fn(&mut [u8]),
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        exec::execute(&self.nodes, data, escape, out)
    }
}

#[cfg(test)]
mod tests;
