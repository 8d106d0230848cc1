//! Tokens to events, by the grammar of yaml.v2.
//!
//! The grammar is parsed by recursive descent; the receiver of the events bounds the depth, by refusing the start of a collection.

use foldhash::HashMap;

use super::YamlError;
use super::cursor::Mark;
use super::scanner::{Scanner, SyntaxError, Token, TokenKind};

/// The number of an anchor; 0 is no anchor.
pub(super) type AnchorId = usize;

/// A part of a document.
#[derive(Debug)]
pub(super) enum Event {
    Scalar {
        text: String,
        /// Whether it has neither quotes nor a tag, or the tag `!`.
        implicit: bool,
        /// The full tag; empty if it has none.
        tag: String,
        anchor: AnchorId,
    },
    Alias {
        name: String,
        anchor: AnchorId,
    },
    SequenceStart(AnchorId),
    MappingStart(AnchorId),
    /// The end of a sequence or mapping.
    End,
}

/// An event and its place.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) event: Event,
    pub(super) start: Mark,
    /// Equal to the start if the text has nothing for it.
    pub(super) end: Mark,
}

/// What stops the parser.
#[derive(Debug)]
pub(super) enum Failure {
    Syntax(SyntaxError),
    /// From the receiver, or an unknown anchor.
    Rejected(YamlError),
}

impl From<SyntaxError> for Failure {
    fn from(error: SyntaxError) -> Self {
        Failure::Syntax(error)
    }
}

impl From<YamlError> for Failure {
    fn from(error: YamlError) -> Self {
        Failure::Rejected(error)
    }
}

type Parsing<T = ()> = Result<T, Failure>;

/// The handle `!!` stands for this.
const CORE: &str = "tag:yaml.org,2002:";

/// Parses the first document of a text and passes its events on.
///
/// Returns where something follows it, if anything does.
pub(super) fn parse(
    text: &str,
    receive: &mut dyn FnMut(Placed) -> Result<(), YamlError>,
) -> Result<Option<Mark>, Failure> {
    let mut parser = Parser {
        scanner: Scanner::new(text),
        receive,
        tags: vec![("!".to_owned(), "!".to_owned()), ("!!".to_owned(), CORE.to_owned())],
        anchors: HashMap::default(),
        last_anchor: 0,
    };
    parser.document()?;
    // What follows the first document does not matter, but its first token must be one.
    parser.scanner.peek()?;
    Ok(parser.rest())
}

struct Parser<'p> {
    scanner: Scanner<'p>,
    receive: &'p mut dyn FnMut(Placed) -> Result<(), YamlError>,
    /// Handles and prefixes of tags; the later one of two counts.
    tags: Vec<(String, String)>,
    /// Seeded: files choose the names.
    anchors: HashMap<String, AnchorId>,
    last_anchor: AnchorId,
}

impl Parser<'_> {
    fn document(&mut self) -> Parsing {
        let mut directives = false;
        loop {
            let token = self.scanner.peek()?;
            match &token.kind {
                TokenKind::StreamEnd if !directives => return Ok(()),
                TokenKind::DocumentStart => {
                    self.scanner.take()?;
                    return match self.scanner.peek()?.kind {
                        TokenKind::Directive
                        | TokenKind::TagDirective { .. }
                        | TokenKind::DocumentStart
                        | TokenKind::DocumentEnd
                        | TokenKind::StreamEnd => self.absent(None),
                        _ => self.node(Context::Block),
                    };
                }
                TokenKind::Directive => drop(self.scanner.take()?),
                TokenKind::TagDirective { .. } => self.tag_directive()?,
                _ if directives => {
                    let problem = "did not find expected <document start>";
                    return Err(SyntaxError::parse(problem, token.start).into());
                }
                _ => return self.node(Context::Block),
            }
            directives = true;
        }
    }

    /// Where something follows the document: it is ignored, as by yaml.v2, whether it is a document or not.
    fn rest(&mut self) -> Option<Mark> {
        let mut end = None;
        while self.is(&TokenKind::DocumentEnd).unwrap_or(false) {
            end = self.scanner.take().ok().map(|token| token.start).or(end);
        }
        match self.scanner.peek() {
            Ok(token) if token.kind == TokenKind::StreamEnd => None,
            Ok(token) => Some(token.start),
            // What follows the end of the document is no YAML.
            Err(_) => end,
        }
    }

    fn tag_directive(&mut self) -> Parsing {
        let token = self.scanner.take()?;
        if let TokenKind::TagDirective { handle, prefix } = token.kind {
            if self.tags.iter().skip(2).any(|(known, _)| *known == handle) {
                return Err(SyntaxError::parse("found duplicate %TAG directive", token.start).into());
            }
            self.tags.push((handle, prefix));
        }
        Ok(())
    }

    fn is(&mut self, kind: &TokenKind) -> Parsing<bool> {
        Ok(self.scanner.peek()?.kind == *kind)
    }

    fn is_any(&mut self, kinds: &[TokenKind]) -> Parsing<bool> {
        let token = self.scanner.peek()?;
        Ok(kinds.contains(&token.kind))
    }

    /// The end of the token if it is of this kind, which is taken.
    fn took(&mut self, kind: &TokenKind) -> Parsing<Option<Mark>> {
        match self.is(kind)? {
            true => Ok(Some(self.scanner.take()?.end)),
            false => Ok(None),
        }
    }

    fn send(&mut self, event: Event, start: Mark, end: Mark) -> Parsing {
        (self.receive)(Placed { event, start, end }).map_err(Failure::Rejected)
    }

    /// A value of which the text has nothing; at the next token, unless its place is known.
    fn absent(&mut self, at: Option<Mark>) -> Parsing {
        let at = match at {
            Some(at) => at,
            None => self.scanner.peek()?.start,
        };
        let event = Event::Scalar { text: String::new(), implicit: true, tag: String::new(), anchor: 0 };
        self.send(event, at, at)
    }

    /// A value, or nothing if a token of these kinds follows.
    fn node_unless(&mut self, kinds: &[TokenKind], context: Context, at: Option<Mark>) -> Parsing {
        match self.is_any(kinds)? {
            true => self.absent(at),
            false => self.node(context),
        }
    }

    fn node(&mut self, context: Context) -> Parsing {
        let first = self.scanner.peek()?.start;
        if let TokenKind::Alias(name) = &self.scanner.peek()?.kind {
            let Some(anchor) = self.anchors.get(name).copied() else {
                let error = YamlError::yaml(format!("unknown anchor '{name}' referenced"));
                return Err(error.located(first).into());
            };
            let name = name.clone();
            let token = self.scanner.take()?;
            return self.send(Event::Alias { name, anchor }, token.start, token.end);
        }
        let Properties { anchor, tag, end } = self.properties()?;
        if context == Context::BlockOrList && self.is(&TokenKind::BlockEntry)? {
            return self.list_at_key(anchor);
        }
        let token = self.scanner.peek()?;
        match (&token.kind, context) {
            (TokenKind::Scalar { .. }, _) => {
                let Token { kind, start, end } = self.scanner.take()?;
                let TokenKind::Scalar { text, plain } = kind else { return Ok(()) };
                let implicit = tag.as_deref().map_or(plain, |tag| tag == "!");
                let tag = tag.unwrap_or_default();
                self.send(Event::Scalar { text, implicit, tag, anchor }, start, end)
            }
            (TokenKind::FlowSequenceStart, _) => self.flow_sequence(anchor),
            (TokenKind::FlowMappingStart, _) => self.flow_mapping(anchor),
            (TokenKind::BlockSequenceStart, Context::Block | Context::BlockOrList) => {
                self.block_sequence(anchor)
            }
            (TokenKind::BlockMappingStart, Context::Block | Context::BlockOrList) => {
                self.block_mapping(anchor)
            }
            _ if tag.is_some() || anchor != 0 => {
                let (implicit, tag) = (tag.is_none(), tag.unwrap_or_default());
                self.send(Event::Scalar { text: String::new(), implicit, tag, anchor }, first, end)
            }
            _ => Err(SyntaxError::parse("did not find expected node content", token.start).into()),
        }
    }

    /// An anchor and a tag, in any order.
    fn properties(&mut self) -> Parsing<Properties> {
        let mut properties = Properties { anchor: 0, tag: None, end: Mark::default() };
        loop {
            match &self.scanner.peek()?.kind {
                TokenKind::Anchor(_) if properties.anchor == 0 => {
                    let token = self.scanner.take()?;
                    self.last_anchor += 1;
                    properties.anchor = self.last_anchor;
                    properties.end = token.end;
                    if let TokenKind::Anchor(name) = token.kind {
                        // The last anchor of this name counts.
                        self.anchors.insert(name, self.last_anchor);
                    }
                }
                TokenKind::Tag { .. } if properties.tag.is_none() => {
                    let token = self.scanner.take()?;
                    properties.end = token.end;
                    if let TokenKind::Tag { handle, suffix } = token.kind {
                        properties.tag = Some(self.full_tag(&handle, &suffix, token.start)?);
                    }
                }
                _ => return Ok(properties),
            }
        }
    }

    fn full_tag(&self, handle: &str, suffix: &str, at: Mark) -> Parsing<String> {
        if handle.is_empty() {
            return Ok(suffix.to_owned());
        }
        match self.tags.iter().rev().find(|(known, _)| known == handle) {
            Some((_, prefix)) => Ok(format!("{prefix}{suffix}")),
            None => Err(SyntaxError::parse("found undefined tag handle", at).into()),
        }
    }

    fn block_sequence(&mut self, anchor: AnchorId) -> Parsing {
        let start = self.scanner.take()?.start;
        self.send(Event::SequenceStart(anchor), start, start)?;
        loop {
            if let Some(dash) = self.took(&TokenKind::BlockEntry)? {
                let ends = [TokenKind::BlockEntry, TokenKind::BlockEnd];
                self.node_unless(&ends, Context::Block, Some(dash))?;
                continue;
            }
            let token = self.scanner.peek()?;
            let at = token.start;
            if token.kind != TokenKind::BlockEnd {
                return Err(SyntaxError::parse("did not find expected '-' indicator", at).into());
            }
            self.scanner.take()?;
            return self.send(Event::End, at, at);
        }
    }

    /// A list with the indentation of the key whose value it is.
    fn list_at_key(&mut self, anchor: AnchorId) -> Parsing {
        let start = self.scanner.peek()?.start;
        self.send(Event::SequenceStart(anchor), start, start)?;
        while let Some(dash) = self.took(&TokenKind::BlockEntry)? {
            let ends = [TokenKind::BlockEntry, TokenKind::Key, TokenKind::Value, TokenKind::BlockEnd];
            self.node_unless(&ends, Context::Block, Some(dash))?;
        }
        let at = self.scanner.peek()?.start;
        self.send(Event::End, at, at)
    }

    fn block_mapping(&mut self, anchor: AnchorId) -> Parsing {
        let start = self.scanner.take()?.start;
        self.send(Event::MappingStart(anchor), start, start)?;
        let ends = [TokenKind::Key, TokenKind::Value, TokenKind::BlockEnd];
        loop {
            if let Some(key) = self.took(&TokenKind::Key)? {
                self.node_unless(&ends, Context::BlockOrList, Some(key))?;
                match self.took(&TokenKind::Value)? {
                    Some(colon) => self.node_unless(&ends, Context::BlockOrList, Some(colon))?,
                    None => self.absent(None)?,
                }
                continue;
            }
            let token = self.scanner.peek()?;
            let at = token.start;
            if token.kind != TokenKind::BlockEnd {
                return Err(SyntaxError::parse("did not find expected key", at).into());
            }
            self.scanner.take()?;
            return self.send(Event::End, at, at);
        }
    }

    fn flow_sequence(&mut self, anchor: AnchorId) -> Parsing {
        let start = self.scanner.take()?.start;
        self.send(Event::SequenceStart(anchor), start, start)?;
        let mut first = true;
        while !self.is(&TokenKind::FlowSequenceEnd)? {
            self.separator(&mut first, "did not find expected ',' or ']'")?;
            if self.is(&TokenKind::Key)? {
                self.single_pair()?;
            } else if !self.is(&TokenKind::FlowSequenceEnd)? {
                self.node(Context::Flow)?;
            }
        }
        let token = self.scanner.take()?;
        self.send(Event::End, token.start, token.end)
    }

    /// The comma between two entries of a flow collection.
    fn separator(&mut self, first: &mut bool, problem: &'static str) -> Parsing {
        if !std::mem::take(first) && self.took(&TokenKind::FlowEntry)?.is_none() {
            return Err(SyntaxError::parse(problem, self.scanner.peek()?.start).into());
        }
        Ok(())
    }

    /// A mapping of one entry without braces, in a flow sequence.
    fn single_pair(&mut self) -> Parsing {
        let start = self.scanner.take()?.start;
        self.send(Event::MappingStart(0), start, start)?;
        let ends = [TokenKind::FlowEntry, TokenKind::FlowSequenceEnd];
        if self.is(&TokenKind::Value)? || self.is_any(&ends)? {
            // compat(1.3): the token after `?` is lost, pinned by testdata/yaml/readings.json.
            let token = self.scanner.take()?;
            self.absent(Some(token.end))?;
        } else {
            self.node(Context::Flow)?;
        }
        match self.took(&TokenKind::Value)? {
            Some(_) => self.node_unless(&ends, Context::Flow, None)?,
            None => self.absent(None)?,
        }
        let at = self.scanner.peek()?.start;
        self.send(Event::End, at, at)
    }

    fn flow_mapping(&mut self, anchor: AnchorId) -> Parsing {
        let start = self.scanner.take()?.start;
        self.send(Event::MappingStart(anchor), start, start)?;
        let mut first = true;
        while !self.is(&TokenKind::FlowMappingEnd)? {
            self.separator(&mut first, "did not find expected ',' or '}'")?;
            let ends = [TokenKind::FlowEntry, TokenKind::FlowMappingEnd];
            if self.took(&TokenKind::Key)?.is_some() {
                match self.is(&TokenKind::Value)? {
                    true => self.absent(None)?,
                    false => self.node_unless(&ends, Context::Flow, None)?,
                }
                match self.took(&TokenKind::Value)? {
                    Some(_) => self.node_unless(&ends, Context::Flow, None)?,
                    None => self.absent(None)?,
                }
            } else if !self.is(&TokenKind::FlowMappingEnd)? {
                // A key without a value.
                self.node(Context::Flow)?;
                self.absent(None)?;
            }
        }
        let token = self.scanner.take()?;
        self.send(Event::End, token.start, token.end)
    }
}

/// What may stand for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Context {
    /// Anything but a list that is not indented.
    Block,
    /// Anything.
    BlockOrList,
    /// No block collections.
    Flow,
}

/// What precedes a value.
struct Properties {
    anchor: AnchorId,
    /// In full.
    tag: Option<String>,
    /// The end of the last one.
    end: Mark,
}
