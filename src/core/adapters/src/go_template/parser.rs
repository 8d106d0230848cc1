//! Tokens to nodes.

use super::lexer::{Failure, Kind, Token, tokens};
use super::{Branch, Command, FORMAT, Function, Literal, MAX_DEPTH, Node, Operand, Pipeline};

/// The nodes of a template. Errors: the line, and what is wrong with it.
pub(super) fn parse(text: &str) -> Result<Vec<Node>, Failure> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0 };
    match parser.list()? {
        (nodes, Ending::Text) => Ok(nodes),
        (_, Ending::End) => Err((parser.line(), "unexpected {{end}}".to_owned())),
        (_, Ending::Else | Ending::ElseIf) => Err((parser.line(), "unexpected {{else}}".to_owned())),
    }
}

/// What ends a list of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The template.
    Text,
    End,
    Else,
    /// `{{else if`, of which the condition follows.
    ElseIf,
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn line(&self) -> usize {
        let last = self.tokens.get(self.at.saturating_sub(1)).or(self.tokens.last());
        last.map_or(1, |token| token.line)
    }

    fn peek(&self) -> Option<&Kind> {
        self.tokens.get(self.at).map(|token| &token.kind)
    }

    fn next(&mut self) -> Option<Kind> {
        let kind = self.peek().cloned();
        self.at += 1;
        kind
    }

    fn failed<T>(&self, why: impl Into<String>) -> Result<T, Failure> {
        Err((self.line(), why.into()))
    }

    fn enter(&mut self) -> Result<(), Failure> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { self.failed("it is nested too deeply") } else { Ok(()) }
    }

    /// Nodes up to what ends them, which is consumed.
    fn list(&mut self) -> Result<(Vec<Node>, Ending), Failure> {
        let mut nodes = Vec::new();
        loop {
            match self.next() {
                None => return Ok((nodes, Ending::Text)),
                Some(Kind::Text(text)) => nodes.push(Node::Text(text)),
                Some(_) => {
                    let keyword = match self.peek() {
                        Some(Kind::Word(word)) => word.clone(),
                        _ => String::new(),
                    };
                    self.at += usize::from(!keyword.is_empty());
                    match keyword.as_str() {
                        "end" => {
                            self.close("end")?;
                            return Ok((nodes, Ending::End));
                        }
                        "else" if self.peek() == Some(&Kind::Word("if".to_owned())) => {
                            self.at += 1;
                            return Ok((nodes, Ending::ElseIf));
                        }
                        "else" => {
                            self.close("else")?;
                            return Ok((nodes, Ending::Else));
                        }
                        "if" => nodes.push(Node::If(self.branch("if")?)),
                        "with" => nodes.push(Node::With(self.branch("with")?)),
                        "range" => nodes.push(Node::Range(self.branch("range")?)),
                        "block" | "break" | "continue" | "define" | "template" => {
                            return self.failed(format!("{{{{{keyword}}}}} is not supported"));
                        }
                        _ => {
                            self.at -= usize::from(!keyword.is_empty());
                            nodes.push(Node::Print(self.pipeline("command", &Kind::Close)?));
                        }
                    }
                }
            }
        }
    }

    fn close(&mut self, of: &str) -> Result<(), Failure> {
        match self.next() {
            Some(Kind::Close) => Ok(()),
            other => self.failed(format!("unexpected {} in {of}", shown(other.as_ref()))),
        }
    }

    fn branch(&mut self, of: &str) -> Result<Branch, Failure> {
        self.enter()?;
        let subject = self.pipeline(of, &Kind::Close)?;
        let (then, end) = self.list()?;
        let otherwise = match end {
            Ending::Text => return self.failed("unexpected EOF"),
            Ending::End => Vec::new(),
            // The one `end` ends both.
            Ending::ElseIf if of == "if" => vec![Node::If(self.branch("if")?)],
            Ending::ElseIf => return self.failed(format!("unexpected <if> in {of}")),
            Ending::Else => match self.list()? {
                (nodes, Ending::End) => nodes,
                (_, Ending::Text) => return self.failed("unexpected EOF"),
                _ => return self.failed("expected end; found {{else}}"),
            },
        };
        self.depth -= 1;
        Ok(Branch { subject, then, otherwise })
    }

    /// Commands up to `end`, which is consumed.
    fn pipeline(&mut self, context: &str, end: &Kind) -> Result<Pipeline, Failure> {
        self.enter()?;
        let mut commands = Vec::new();
        loop {
            let mut operands = Vec::new();
            let is_last = loop {
                match self.peek() {
                    Some(kind) if kind == end => break true,
                    Some(Kind::Pipe) => break false,
                    None => return self.failed("unclosed action"),
                    Some(_) => operands.push(self.operand(context)?),
                }
            };
            self.at += 1;
            if operands.is_empty() {
                return self.failed(if commands.is_empty() && is_last {
                    format!("missing value for {context}")
                } else {
                    "empty command".to_owned()
                });
            }
            let operands = with_method(operands, !commands.is_empty());
            self.check(&operands, !commands.is_empty())?;
            commands.push(Command { operands });
            if is_last {
                self.depth -= 1;
                return Ok(commands);
            }
        }
    }

    /// Only functions have arguments, and only what has them can end a pipeline.
    fn check(&self, operands: &[Operand], is_piped: bool) -> Result<(), Failure> {
        let [first, rest @ ..] = operands else { return Ok(()) };
        match first {
            Operand::Function(_) => Ok(()),
            Operand::Literal(Literal::Nil) if rest.is_empty() && !is_piped => {
                self.failed("nil is not a command")
            }
            _ if is_piped => self.failed("non executable command in pipeline"),
            _ if !rest.is_empty() => {
                self.failed("only functions and the method Format of times have arguments")
            }
            _ => Ok(()),
        }
    }

    fn operand(&mut self, context: &str) -> Result<Operand, Failure> {
        let operand = match self.next() {
            Some(Kind::Root) => Operand::Root(self.fields()?),
            Some(Kind::Field(name, _)) => {
                if name.is_empty() && matches!(self.peek(), Some(Kind::Field(_, true))) {
                    return self.failed("unexpected . after term \".\"");
                }
                let mut path: Vec<String> = Some(name).into_iter().filter(|name| !name.is_empty()).collect();
                path.extend(self.fields()?);
                Operand::Field(path)
            }
            Some(Kind::String(text)) => Operand::Literal(Literal::Text(text)),
            Some(Kind::Char(character)) => Operand::Literal(Literal::Int(i64::from(u32::from(character)))),
            Some(Kind::Number(text)) => Operand::Literal(self.number(&text)?),
            Some(Kind::Word(word)) => match word.as_str() {
                "true" => Operand::Literal(Literal::Bool(true)),
                "false" => Operand::Literal(Literal::Bool(false)),
                "nil" => Operand::Literal(Literal::Nil),
                name => match Function::named(name) {
                    Some(function) => Operand::Function(function),
                    None => return self.failed(format!("function \"{name}\" not defined")),
                },
            },
            Some(Kind::Left) => {
                let inner = self.pipeline("parenthesized pipeline", &Kind::Right)?;
                Operand::Pipeline(inner, self.fields()?)
            }
            other => return self.failed(format!("unexpected {} in {context}", shown(other.as_ref()))),
        };
        Ok(operand)
    }

    /// Fields that directly follow an operand.
    fn fields(&mut self) -> Result<Vec<String>, Failure> {
        let mut path = Vec::new();
        while let Some(Kind::Field(name, true)) = self.peek() {
            let name = name.clone();
            self.at += 1;
            if name.is_empty() {
                return self.failed("unexpected <.> in operand");
            }
            path.push(name);
        }
        Ok(path)
    }

    fn number(&self, text: &str) -> Result<Literal, Failure> {
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let plain: String = digits.chars().filter(|c| *c != '_').collect();
        let digits = plain.as_str();
        let hex = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
        let whole = match hex {
            Some(hex) => i64::from_str_radix(hex, 16).ok(),
            None => digits.parse::<i64>().ok(),
        };
        let float = || digits.parse::<f64>().ok().filter(|number| number.is_finite());
        match (whole, float()) {
            (Some(number), _) => Ok(Literal::Int(number.saturating_mul(sign))),
            (None, Some(number)) => Ok(Literal::Float(number * sign as f64)),
            (None, None) => self.failed(format!("bad number syntax: {text:?}")),
        }
    }
}

/// `.time.Format LAYOUT` as a function of a time and a layout, which may also be the result of the command before.
fn with_method(mut operands: Vec<Operand>, is_piped: bool) -> Vec<Operand> {
    let has_layout = operands.len() + usize::from(is_piped) == 2;
    let path = match operands.first_mut() {
        Some(Operand::Field(path) | Operand::Root(path) | Operand::Pipeline(_, path)) => path,
        _ => return operands,
    };
    if has_layout && path.last().is_some_and(|name| name == FORMAT) {
        path.pop();
        operands.insert(0, Operand::Function(Function::Format));
    }
    operands
}

/// A token in an error.
fn shown(kind: Option<&Kind>) -> String {
    match kind {
        None => "EOF".to_owned(),
        Some(Kind::Text(_)) => "text".to_owned(),
        Some(Kind::Open) => "\"{{\"".to_owned(),
        Some(Kind::Close) => "\"}}\"".to_owned(),
        Some(Kind::Field(name, _)) => format!("<.{name}>"),
        Some(Kind::Root) => "<$>".to_owned(),
        Some(Kind::Word(word)) => format!("<{word}>"),
        Some(Kind::String(text)) => format!("{text:?}"),
        Some(Kind::Number(text)) => format!("\"{text}\""),
        Some(Kind::Char(character)) => format!("{character:?}"),
        Some(Kind::Pipe) => "\"|\"".to_owned(),
        Some(Kind::Left) => "\"(\"".to_owned(),
        Some(Kind::Right) => "\")\"".to_owned(),
    }
}
