//! Templates of Go's `text/template`: names of metrics and texts that are made from the values of an instance.
//!
//! What Istio's documentation uses is supported: fields of the data (`{{.key}}`), literals, pipelines, parentheses, `if`, `with`, `range`,
//! comments, trim markers, the functions `and`, `or`, `not`, `eq`, `ne`, `lt`, `le`, `gt`, `ge`, `index`, `len`, `print`, `printf`,
//! `println`, and the method `Format` of times. Variables, named templates and other methods are errors when the template is parsed.
//!
//! ```ignore
//! let template = GoTemplate::parse("hits", "{{.service}}.{{or .code 0}}")?;
//! template.execute(&|key| values.get(key), Printing::Plain, &mut out)?;
//! ```

mod exec;
mod layout;
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
    /// The method of times, whose first argument is the time.
    Format,
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
        Self::ALL.iter().find(|(_, function)| *function == self).map_or(FORMAT, |(name, _)| name)
    }
}

/// The name of the method of times.
const FORMAT: &str = "Format";

/// How values are printed.
#[derive(Clone, Copy)]
#[cfg_attr(
    not(any(feature = "adapter-cloudwatch", feature = "adapter-solarwinds", test)),
    expect(dead_code, reason = "each adapter uses one of them")
)]
pub(crate) enum Printing {
    /// As `text/template`: what is absent as `<no value>`. The function changes each text in the place of an action, and nothing that the
    /// template has itself.
    Text(fn(&mut [u8])),
    /// As `html/template`, but without its escapes: what is absent as nothing.
    Plain,
    /// As `html/template` in the text of an element.
    Html,
}

impl GoTemplate {
    /// Parses a template. `name` is part of errors, which resemble Go's.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Self, String> {
        parser::parse(text)
            .map(|nodes| Self { nodes })
            .map_err(|(line, why)| format!("template: {name}:{line}: {why}"))
    }

    /// Appends the text for the data, a map from keys to values.
    ///
    /// Errors: a function that does not take its arguments; what is before it was appended.
    pub(crate) fn execute<'v>(
        &self,
        data: &dyn Fn(&str) -> Option<Value<'v>>,
        printing: Printing,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        exec::execute(&self.nodes, data, printing, out)
    }
}

#[cfg(test)]
mod tests;
