//! Comparisons of texts of a request with constants: one examination for those of expressions and those of an extension.
//!
//! A comparison is `request.url_path == "/admin"`, with any other operator or function, or `request.url_path: {exact: /admin}` in a clause.
//! It is suspicious if no request has the constant, if a star in it stands for itself, or if a query behind a path evades it. Findings are
//! warnings: they may be meant.

pub(super) mod lists;
mod marks;
pub(super) mod openings;
mod patterns;
mod values;
mod wildcard;

use std::borrow::Cow;

use self::values::{Cure, HeaderCure, Never, Part};
use super::problems::ResourceProblems;
use super::suspicions::{WithoutRule, placed, shown};
use mixer_attribute::Vocabulary;
use mixer_config::{Diagnostic, FieldPath};
use mixer_expr::functions::{Regex, RegexFacts};
use mixer_expr::{Form, Language, Program, Read, TextTest, TextTestKind};

/// Most findings of one expression.
const MAX_FINDINGS: usize = 16;

/// The path of a request with its query.
const PATH: &str = "request.path";

/// Maps whose keys are header names, which proxies send in lower case.
const HEADERS: [&str; 2] = ["request.headers", "response.headers"];

/// The hint about a path with its query.
const WITHOUT_QUERY: &str = "use `request.url_path`, which is the path without the query";

/// How comparisons are written, for hints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notation {
    Classic,
    Cel,
    /// A field of a clause: `exact`, `prefix` or `regex`.
    Clause,
    /// An entry of a list.
    Entry,
}

/// A text of a request that is compared.
#[derive(Debug, Clone)]
struct Operand<'c> {
    attribute: &'c str,
    key: Option<Cow<'c, str>>,
    form: Form,
    default: Option<Cow<'c, str>>,
    /// The default of an address.
    default_address: Option<std::net::IpAddr>,
}

impl Operand<'_> {
    /// The attribute that has this text, also if it is that of a pseudo header.
    fn canonical(&self) -> Option<&str> {
        match &self.key {
            None => Some(self.attribute),
            Some(key) if self.attribute == "request.headers" => values::attribute_of_header(key),
            Some(_) => None,
        }
    }

    /// Whether each request has another value.
    fn is_unique(&self) -> bool {
        match self.key.as_deref() {
            None => UNIQUE.contains(&self.attribute),
            Some(key) => self.attribute == "request.headers" && UNIQUE_HEADERS.contains(&key),
        }
    }

    /// The attribute or entry, as in an expression.
    fn shown(&self) -> String {
        match &self.key {
            Some(key) => format!("{}[{key:?}]", self.attribute),
            None => self.attribute.to_owned(),
        }
    }

    fn is_path_with_query(&self) -> bool {
        self.canonical() == Some(PATH)
    }
}

/// A comparison with a constant.
#[derive(Debug)]
struct Comparison<'c> {
    notation: Notation,
    /// The text that is compared, as written.
    subject: Cow<'c, str>,
    operands: Vec<Operand<'c>>,
    /// Whether the text is in lower case.
    is_lower: bool,
    kind: TextTestKind,
    /// The constant, as in [`TextTest`].
    constant: Cow<'c, str>,
    /// What is known of a regular expression.
    pattern: Option<RegexFacts>,
    is_negated: bool,
}

/// What is suspicious about a comparison.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    code: &'static str,
    message: String,
    hint: String,
}

impl Finding {
    fn warning(self, field: FieldPath) -> Diagnostic {
        Diagnostic::warning(self.code, field, self.message).with_hint(self.hint)
    }
}

/// Warns about the comparisons of an expression, and the names of headers in it. `without`: what the rule with this condition prevents.
pub(super) fn expression(
    program: &Program,
    field: impl Fn() -> FieldPath,
    without: Option<WithoutRule>,
    vocabulary: &Vocabulary,
    problems: &mut ResourceProblems<'_>,
) {
    let tests = program.text_tests();
    let findings = tests.iter().filter_map(|test| {
        let finding = Comparison::of_expression(test, program, vocabulary).examine(without)?;
        Some((finding, test.offset.and_then(|offset| program.position(offset))))
    });
    let mut has_evaded = false;
    for (finding, position) in findings.take(MAX_FINDINGS) {
        // The cure is the same for all.
        let is_evaded = finding.code == "path-query";
        if !(is_evaded && has_evaded) {
            let mut problem = finding.warning(field());
            problem.expression = placed(program, position);
            problems.push(problem);
        }
        has_evaded |= is_evaded;
    }
    let headers = program.entries().into_iter().filter_map(|read| header(read, vocabulary));
    for finding in headers.take(MAX_FINDINGS) {
        problems.push(finding.warning(field()));
    }
}

/// A test of a clause of an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClauseTest<'t> {
    /// The text is equal.
    Exact(&'t str),
    /// It begins with this one.
    Prefix(&'t str),
    /// It matches this regular expression from its beginning to its end.
    Regex(&'t str),
}

/// The warning about the test of an attribute in a clause that selects the requests that are charged to a quota.
pub fn clause(attribute: &str, test: ClauseTest<'_>, field: FieldPath) -> Option<Diagnostic> {
    let (kind, constant) = match test {
        ClauseTest::Exact(text) => (TextTestKind::Equal, Cow::Borrowed(text)),
        ClauseTest::Prefix(text) => (TextTestKind::Start, Cow::Borrowed(text)),
        ClauseTest::Regex(pattern) => {
            let regex = Regex::compile(format!("^(?:{pattern})$").as_bytes()).ok()?;
            (TextTestKind::Regex { fixes_the_end: regex.fixes_the_end() }, Cow::Owned(regex.leading_text()))
        }
    };
    let comparison = Comparison {
        notation: Notation::Clause,
        subject: Cow::Borrowed(attribute),
        operands: vec![Operand {
            attribute,
            key: None,
            form: Form::Whole,
            default: None,
            default_address: None,
        }],
        is_lower: false,
        kind,
        constant,
        pattern: None,
        is_negated: false,
    };
    comparison.examine(Some(WithoutRule::IsNotCharged)).map(|finding| finding.warning(field))
}

/// The warning about a dimension of a quota.
pub(super) fn dimension(program: &Program, field: FieldPath, vocabulary: &Vocabulary) -> Option<Diagnostic> {
    let operands = program.value_operands();
    let operands: Vec<_> = operands.iter().map(|operand| Operand::of(operand, vocabulary)).collect();
    if operands.iter().any(Operand::is_path_with_query) {
        let message = "each query has an amount of its own: `request.path` contains it, as in `/login?a=1`";
        return Some(Diagnostic::warning("path-query", field, message).with_hint(WITHOUT_QUERY));
    }
    let unique = operands.iter().find(|operand| operand.is_unique())?;
    let message = format!(
        "each request has an amount of its own, so that nothing is limited: `{}` differs from one to the next",
        unique.shown()
    );
    let hint = "a dimension is what requests of one caller have in common, such as `source.user`";
    Some(Diagnostic::warning("quota-dimension-unique", field, message).with_hint(hint))
}

/// Attributes that each request has a value of its own of.
const UNIQUE: [&str; 4] = ["context.time", "request.id", "request.time", "response.time"];

/// Headers that do.
const UNIQUE_HEADERS: [&str; 8] = [
    "date",
    "traceparent",
    "x-amzn-trace-id",
    "x-b3-spanid",
    "x-b3-traceid",
    "x-cloud-trace-context",
    "x-correlation-id",
    "x-request-id",
];

impl<'c> Operand<'c> {
    fn of(operand: &mixer_expr::Operand<'c>, vocabulary: &'c Vocabulary) -> Self {
        Self {
            attribute: vocabulary.name(operand.read.slot),
            key: operand.read.key.map(String::from_utf8_lossy),
            form: operand.form,
            default: operand.default.map(String::from_utf8_lossy),
            default_address: operand
                .default_address
                .map(|octets| std::net::Ipv6Addr::from(octets).to_canonical()),
        }
    }
}

impl<'c> Comparison<'c> {
    fn of_expression(test: &'c TextTest<'c>, program: &Program, vocabulary: &'c Vocabulary) -> Self {
        let operands: Vec<_> = test.operands.iter().map(|operand| Operand::of(operand, vocabulary)).collect();
        let subject = test.subject.map(Cow::Borrowed);
        let first = || test.operands.first().map(|operand| Cow::Owned(shown(operand.read, vocabulary)));
        Self {
            notation: if program.language() == Language::Cexl { Notation::Classic } else { Notation::Cel },
            subject: subject.or_else(first).unwrap_or(Cow::Borrowed("ATTRIBUTE")),
            operands,
            is_lower: test.is_lower,
            kind: test.kind,
            constant: String::from_utf8_lossy(&test.text),
            pattern: test.pattern.clone(),
            is_negated: test.is_negated,
        }
    }

    /// The first finding: the others are often its consequences.
    fn examine(&self, without: Option<WithoutRule>) -> Option<Finding> {
        // `match(request.url_path, "[a-z]*")` is no path without its `/`.
        let glob = || self.pattern().filter(|_| self.kind == TextTestKind::Glob);
        self.star()
            .or_else(glob)
            .or_else(|| self.never())
            .or_else(|| self.mark())
            .or_else(|| self.pattern())
            .or_else(|| self.query(without?))
    }

    /// A star that stands for itself.
    fn star(&self) -> Option<Finding> {
        if self.is_default() {
            return None;
        }
        let pattern = wildcard::pattern(self.kind, &self.constant)?;
        let constant = &*self.constant;
        let meant = match self.is_regex() {
            true => self.as_regex(),
            false => wildcard::written(self.notation, &self.subject, &pattern),
        };
        let message = match self.kind {
            TextTestKind::Glob => {
                format!(
                    "`*` is special only as the last or the first character of a pattern, not in `{constant}`"
                )
            }
            _ => {
                let [operand] = &*self.operands else { return None };
                let is_text = wildcard::may_be_value(operand.attribute, operand.key.as_deref());
                if is_text || operand.form == Form::Part {
                    return None;
                }
                format!("`*` stands for itself in `{constant}`: {} has no wildcards", self.operator())
            }
        };
        Some(Finding { code: "match-star", message, hint: self.advice(&meant) })
    }

    /// Whether the default of the attribute passes: the text is tested for it.
    fn is_default(&self) -> bool {
        let [Operand { default: Some(default), .. }] = &*self.operands else { return false };
        let default = if self.is_lower { default.to_ascii_lowercase() } else { default.to_string() };
        let (part, constant) = self.compared();
        part.is(&default, constant)
    }

    /// A constant that no request has.
    fn never(&self) -> Option<Finding> {
        if self.is_default() {
            return None;
        }
        let (part, constant) = self.compared();
        // A pattern may name several.
        let texts = self.pattern.as_ref().map_or(&[][..], |facts| facts.texts.as_slice());
        let is_other = |never: &Never| matches!(&never.cure, Cure::Text(text) if texts.contains(text));
        let mut of_texts = texts.iter().filter_map(|text| {
            let why_not = self.why_not(Part::Whole, text).filter(|never| !is_other(never))?;
            Some((Part::Whole, &**text, why_not))
        });
        let (part, constant, why_not) =
            of_texts.next().or_else(|| Some((part, constant, self.why_not(part, constant)?)))?;
        let is = match part {
            Part::Whole => "is never",
            Part::Start => "never begins with",
            Part::End => "never ends with",
            Part::Within => "never contains",
        };
        let message = format!("`{}` {is} `{constant}`: {}", self.compared_text(), why_not.why);
        Some(Finding { code: why_not.code, message, hint: self.cure(&why_not.cure, constant) })
    }

    /// Why the text never has a constant there.
    fn why_not(&self, part: Part, constant: &str) -> Option<Never> {
        if self.is_lower && constant.bytes().any(|byte| byte.is_ascii_uppercase()) {
            let cure = Cure::Text(constant.to_ascii_lowercase());
            return Some(Never { code: "value-never", why: "it is in lower case", cure });
        }
        let [operand] = &*self.operands else { return None };
        if operand.form == Form::Part {
            return None;
        }
        values::never(operand.canonical()?, part, constant, operand.form == Form::Lower)
    }

    /// A path whose end is tested, and that is followed by a query in a request that evades the test.
    fn query(&self, without: WithoutRule) -> Option<Finding> {
        let is_path = self.operands.iter().any(Operand::is_path_with_query);
        let is_tested_to_its_end = match self.kind {
            TextTestKind::Equal | TextTestKind::End => true,
            TextTestKind::Glob => !self.constant.ends_with('*'),
            TextTestKind::Regex { fixes_the_end } => fixes_the_end,
            TextTestKind::NotEqual | TextTestKind::Start | TextTestKind::Contains => false,
        };
        // A query is expected.
        let has_query = self.constant.contains('?');
        if self.is_negated || !is_path || !is_tested_to_its_end || has_query {
            return None;
        }
        let does = match without {
            WithoutRule::Passes => "passes",
            other => other.text(),
        };
        let message =
            format!("a request with a query {does}: `request.path` contains it, as in `/admin?a=1`");
        Some(Finding { code: "path-query", message, hint: WITHOUT_QUERY.to_owned() })
    }

    /// The part of the text that is compared, and with what.
    fn compared(&self) -> (Part, &str) {
        let constant = &*self.constant;
        match self.kind {
            TextTestKind::Equal | TextTestKind::NotEqual => (Part::Whole, constant),
            TextTestKind::Start | TextTestKind::Regex { .. } => (Part::Start, constant),
            TextTestKind::End => (Part::End, constant),
            TextTestKind::Contains => (Part::Within, constant),
            TextTestKind::Glob => match (constant.strip_suffix('*'), constant.strip_prefix('*')) {
                (Some(prefix), _) => (Part::Start, prefix),
                (_, Some(suffix)) => (Part::End, suffix),
                _ => (Part::Whole, constant),
            },
        }
    }

    /// The text that is compared, without its default.
    fn compared_text(&self) -> Cow<'_, str> {
        let [operand] = &*self.operands else { return Cow::Borrowed(&self.subject) };
        let name = operand.shown();
        Cow::Owned(if self.is_lower { format!("toLower({name})") } else { name })
    }

    /// The operator or function, for messages.
    fn operator(&self) -> &'static str {
        match (self.notation, self.kind) {
            (Notation::Clause, TextTestKind::Start) => "`prefix`",
            (Notation::Clause, _) => "`exact`",
            (Notation::Entry, _) => "a list of strings",
            (_, TextTestKind::Equal) => "`==`",
            (_, TextTestKind::NotEqual) => "`!=`",
            (_, TextTestKind::Start) => "`startsWith`",
            (_, TextTestKind::End) => "`endsWith`",
            _ => "`contains`",
        }
    }

    /// How a cure is written.
    fn cure(&self, cure: &Cure, constant: &str) -> String {
        let field = if self.kind == TextTestKind::Start { "prefix" } else { "exact" };
        let subject = &self.subject;
        match (cure, self.kind, self.notation) {
            (Cure::Advice(advice), ..) => (*advice).to_owned(),
            (Cure::Text(text), TextTestKind::Regex { .. }, _) => {
                format!("write `{text}` for `{constant}` in the pattern")
            }
            (Cure::Text(text), TextTestKind::Glob, _) => {
                let pattern = self.constant.replacen(constant, text, 1);
                format!("write `{pattern:?}`")
            }
            (Cure::Text(text), _, Notation::Clause) => format!("write `{field}: {text}`"),
            (Cure::Text(text), _, Notation::Entry) => format!("write `{text}`"),
            (Cure::Text(text), ..) => format!("write `{text:?}`"),
            (Cure::Regex, _, Notation::Entry) => "set `entryType: REGEX`".to_owned(),
            (Cure::AnyOf(texts), _, Notation::Entry) => format!("write the entries `{}`", texts.join("`, `")),
            (Cure::Regex, _, Notation::Clause) => "regular expressions belong to `regex`".to_owned(),
            (Cure::Regex, _, Notation::Classic) => format!("write `{constant:?}.matches({subject})`"),
            (Cure::Regex, _, Notation::Cel) => format!("write `{subject}.matches({constant:?})`"),
            (Cure::AnyOf(texts), _, Notation::Clause) => match &**texts {
                [one] => format!("write `{field}: {one}`"),
                many => format!("write `regex: {}`", many.join("|")),
            },
            (Cure::AnyOf(texts), kind, _) => match &**texts {
                [one] => format!("write `{one:?}`"),
                many => {
                    let (operator, joint) =
                        if kind == TextTestKind::NotEqual { ("!=", " && ") } else { ("==", " || ") };
                    let tests = many.iter().map(|text| format!("{subject} {operator} {text:?}"));
                    format!("write `{}`", tests.collect::<Vec<_>>().join(joint))
                }
            },
        }
    }
}

/// What is wrong with the name of a header.
fn header(read: Read<'_>, vocabulary: &Vocabulary) -> Option<Finding> {
    let name = vocabulary.name(read.slot);
    if !HEADERS.contains(&name) {
        return None;
    }
    let no_header = values::no_header(&String::from_utf8_lossy(read.key?))?;
    let is_response = name != "request.headers";
    let hint = match &no_header.cure {
        HeaderCure::Attribute(_) if is_response => return None,
        HeaderCure::Attribute(attribute) => format!("write `{attribute}`"),
        HeaderCure::Name(key) => {
            format!("write `{}`", shown(Read { key: Some(key.as_bytes()), ..read }, vocabulary))
        }
    };
    let message = format!("`{}` is never there: {}", shown(read, vocabulary), no_header.why);
    Some(Finding { code: no_header.code, message, hint })
}
