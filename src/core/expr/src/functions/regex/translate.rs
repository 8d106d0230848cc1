//! RE2's syntax -> the syntax of the `regex` crate.
//!
//! Rejects syntax that only the crate supports, and rewrites syntax that the two interpret differently (Perl classes are ASCII,
//! `[` and `&&` in a class are literal, `{` without a count is literal, `\Q...\E`). Groups become non-capturing, because only
//! `is_match` is used.

use std::fmt::Write;

/// Why a pattern is rejected.
#[derive(Debug, Clone, Copy)]
pub(super) struct Problem<'p> {
    pub(super) detail: &'static str,
    pub(super) part: &'p str,
}

/// Maximum count of a repetition, also for the product of nested ones.
const MAX_COUNT: u32 = 1_000;

const BAD_ESCAPE: &str = "invalid escape sequence";
const BAD_RANGE: &str = "invalid character class range";
const BAD_COUNT: &str = "invalid repeat count";
const BAD_PERL: &str = "invalid or unsupported Perl syntax";

/// Script names as short as abbreviations.
const SHORT_SCRIPTS: [&str; 9] = ["Ahom", "Cham", "Lao", "Lisu", "Mro", "Nko", "Thai", "Vai", "Yi"];

const CATEGORIES: [&str; 37] = [
    "C", "Cc", "Cf", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl",
    "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs",
    "Any",
];

const POSIX_CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

/// Most names of classes in a pattern that are looked up. One with more is refused for their cost.
const MAX_LOOKED_UP: usize = 1024;

/// Translates a pattern. Errors: it is invalid in RE2.
pub(super) fn translate(pattern: &str) -> Result<String, Problem<'_>> {
    let mut translator = Translator {
        pattern,
        at: 0,
        out: String::with_capacity(pattern.len() + 16),
        classes: 0,
        open: Vec::new(),
        weight: 0,
        atom: None,
        repeated: None,
    };
    while translator.at < pattern.len() {
        translator.step()?;
    }
    match translator.open.is_empty() {
        true => Ok(translator.out),
        false => Err(Problem { detail: "missing closing )", part: pattern }),
    }
}

struct Translator<'p> {
    pattern: &'p str,
    at: usize,
    out: String,
    /// Names of classes of Unicode characters so far.
    classes: usize,
    /// For every open group, the largest weight before it.
    open: Vec<u32>,
    /// The largest weight in the current group: the count of a repetition times those inside.
    weight: u32,
    /// The weight of the last atom, if a repetition may follow.
    atom: Option<u32>,
    /// The start of the repetition that was just read, if any.
    repeated: Option<usize>,
}

type Step<'p> = Result<(), Problem<'p>>;

impl<'p> Translator<'p> {
    fn rest(&self) -> &'p str {
        self.pattern.get(self.at..).unwrap_or("")
    }

    /// The part of the pattern from `start` to here.
    fn since(&self, start: usize) -> &'p str {
        self.pattern.get(start..self.at).unwrap_or("")
    }

    fn invalid(&self, detail: &'static str, start: usize) -> Problem<'p> {
        Problem { detail, part: self.since(start) }
    }

    fn step(&mut self) -> Step<'p> {
        let Some(c) = self.rest().chars().next() else { return Ok(()) };
        let start = self.at;
        match c {
            '*' | '+' | '?' => {
                self.at += 1;
                self.repeat(start, c.encode_utf8(&mut [0; 4]), 1)?;
            }
            '{' => match self.count()? {
                Some((text, count)) => self.repeat(start, &text, count)?,
                None => self.literal('{'),
            },
            '(' => self.group()?,
            ')' => {
                let Some(before) = self.open.pop() else {
                    return Err(Problem { detail: "unexpected )", part: self.pattern });
                };
                self.at += 1;
                self.out.push(')');
                let inside = std::mem::replace(&mut self.weight, before);
                self.atom(inside);
            }
            '|' => {
                self.at += 1;
                self.out.push('|');
                self.atom = None;
                self.repeated = None;
            }
            '[' => self.class()?,
            '\\' => self.escape()?,
            '.' | '^' | '$' => {
                self.at += 1;
                self.out.push(c);
                self.atom(1);
            }
            _ => self.literal(c),
        }
        Ok(())
    }

    /// Records that an atom was written.
    fn atom(&mut self, weight: u32) {
        self.atom = Some(weight.max(1));
        self.weight = self.weight.max(weight);
        self.repeated = None;
    }

    fn literal(&mut self, c: char) {
        self.at += c.len_utf8();
        push_literal(&mut self.out, c);
        self.atom(1);
    }

    /// A repetition of the last atom, after its operator, which started at `start`.
    fn repeat(&mut self, start: usize, operator: &str, count: u32) -> Step<'p> {
        let lazy = self.rest().starts_with('?');
        if lazy {
            self.at += 1;
        }
        if let Some(first) = self.repeated {
            return Err(self.invalid("invalid nested repetition operator", first));
        }
        let Some(weight) = self.atom else {
            return Err(self.invalid("missing argument to repetition operator", start));
        };
        let weight = weight.saturating_mul(count.max(1));
        if weight > MAX_COUNT {
            return Err(self.invalid(BAD_COUNT, start));
        }
        self.out.push_str(operator);
        if lazy {
            self.out.push('?');
        }
        self.atom(weight);
        self.repeated = Some(start);
        Ok(())
    }

    /// `{n}`, `{n,}` or `{n,m}`: its text and the larger count. Anything else is not a count.
    fn count(&mut self) -> Result<Option<(String, u32)>, Problem<'p>> {
        let start = self.at;
        let Some(end) = self.rest().find('}') else { return Ok(None) };
        let inside = self.rest().get(1..end).unwrap_or("");
        let (low, high) = match inside.split_once(',') {
            None => (inside, Some(inside)),
            Some((low, "")) => (low, None),
            Some((low, high)) => (low, Some(high)),
        };
        let is_number = |text: &str| {
            let leading_zero = text.len() > 1 && text.starts_with('0');
            !text.is_empty() && !leading_zero && text.bytes().all(|b| b.is_ascii_digit())
        };
        if !is_number(low) || !high.is_none_or(is_number) {
            return Ok(None);
        }
        self.at += end + 1;
        let number = |text: &str| text.parse::<u32>().ok().filter(|n| *n <= MAX_COUNT);
        let (Some(low), Some(high)) = (number(low), high.map_or(Some(None), |h| number(h).map(Some))) else {
            return Err(self.invalid(BAD_COUNT, start));
        };
        if high.is_some_and(|high| high < low) {
            return Err(self.invalid(BAD_COUNT, start));
        }
        Ok(Some((format!("{{{inside}}}"), high.unwrap_or(low))))
    }

    fn group(&mut self) -> Step<'p> {
        let start = self.at;
        self.at += 1;
        let Some(after) = self.rest().strip_prefix('?') else {
            self.open_group("(?:");
            return Ok(());
        };
        self.at += 1;
        if let Some(named) = after.strip_prefix("P<") {
            self.at += 2;
            return self.named_group(start, named);
        }
        // RE2 accepts a flag more than once and on both sides of the minus; the last one wins.
        let (mut on, mut off) = (String::new(), String::new());
        let mut negative = false;
        let mut any = false;
        for c in after.chars() {
            self.at += c.len_utf8();
            match c {
                'i' | 'm' | 's' | 'U' => {
                    on.retain(|flag| flag != c);
                    off.retain(|flag| flag != c);
                    if negative {
                        off.push(c)
                    } else {
                        on.push(c)
                    }
                    any = true;
                }
                '-' if !negative => {
                    negative = true;
                    any = false;
                }
                ':' | ')' if negative && !any => break,
                ':' => {
                    self.open_group(&flags(&on, &off, ':'));
                    return Ok(());
                }
                ')' => {
                    if any {
                        self.out.push_str(&flags(&on, &off, ')'));
                    }
                    // Flags are not an atom and do not change the last one.
                    return Ok(());
                }
                _ => break,
            }
        }
        Err(self.invalid(BAD_PERL, start))
    }

    fn named_group(&mut self, start: usize, named: &'p str) -> Step<'p> {
        let Some(end) = named.find('>') else {
            self.at = self.pattern.len();
            return Err(self.invalid("invalid named capture", start));
        };
        let name = named.get(..end).unwrap_or("");
        self.at += end + 1;
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(self.invalid("invalid named capture", start));
        }
        // compat(1.3): duplicate names are accepted.
        self.open_group("(?:");
        Ok(())
    }

    fn open_group(&mut self, text: &str) {
        self.out.push_str(text);
        self.open.push(std::mem::take(&mut self.weight));
        self.atom = None;
        self.repeated = None;
    }

    /// An escape sequence outside a class.
    fn escape(&mut self) -> Step<'p> {
        let start = self.at;
        let Some(c) = self.rest().chars().nth(1) else {
            return Err(Problem { detail: "trailing backslash at end of expression", part: "" });
        };
        let simple = match c {
            'A' | 'z' => Some(format!("\\{c}")),
            'b' | 'B' => Some(format!("(?-u:\\{c})")),
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => Some(perl_class(c).into()),
            _ => None,
        };
        if let Some(text) = simple {
            self.at += 2;
            self.out.push_str(&text);
            self.atom(1);
            return Ok(());
        }
        match c {
            'Q' => {
                let quoted = self.rest().get(2..).unwrap_or("");
                let (text, length) = match quoted.find("\\E") {
                    Some(end) => (quoted.get(..end).unwrap_or(""), end + 4),
                    None => (quoted, quoted.len() + 2),
                };
                for c in text.chars() {
                    push_literal(&mut self.out, c);
                    self.atom(1);
                }
                self.at = start + length;
            }
            'p' | 'P' => {
                let class = self.unicode_class()?;
                self.out.push_str(&class);
                self.atom(1);
            }
            _ => {
                let c = self.escaped_character()?;
                push_literal(&mut self.out, c);
                self.atom(1);
            }
        }
        Ok(())
    }

    /// The character of an escape sequence.
    fn escaped_character(&mut self) -> Result<char, Problem<'p>> {
        let start = self.at;
        self.at += 1;
        let Some(c) = self.rest().chars().next() else {
            return Err(Problem { detail: "trailing backslash at end of expression", part: "" });
        };
        self.at += c.len_utf8();
        let digits = self.rest();
        Ok(match c {
            'a' => '\x07',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            '0'..='7' if c == '0' || digits.starts_with(|d| matches!(d, '0'..='7')) => {
                let more = digits.bytes().take(2).take_while(|b| matches!(b, b'0'..=b'7')).count();
                self.at += more;
                u32::from_str_radix(self.since(start + 1), 8).ok().and_then(char::from_u32).unwrap_or('\0')
            }
            'x' => self.hexadecimal(start)?,
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => c,
            _ => return Err(self.invalid(BAD_ESCAPE, start)),
        })
    }

    /// After `\x`: two digits, or any number of digits in braces.
    fn hexadecimal(&mut self, start: usize) -> Result<char, Problem<'p>> {
        let rest = self.rest();
        let (digits, length) = match rest.strip_prefix('{') {
            Some(inside) => match inside.find('}') {
                Some(end) => (inside.get(..end).unwrap_or(""), end + 2),
                None => ("", rest.len()),
            },
            None => (rest.get(..2).unwrap_or(""), rest.len().min(2)),
        };
        self.at = self.pattern.len().min(self.at + length);
        let value =
            digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok());
        match value.flatten() {
            // A surrogate is accepted but never matches.
            Some(value @ 0..=0x10_ffff) => Ok(char::from_u32(value).unwrap_or(char::MAX)),
            _ => Err(self.invalid(BAD_ESCAPE, start)),
        }
    }

    /// `\pN`, `\p{Name}`, `\P...` and `\p{^Name}`.
    fn unicode_class(&mut self) -> Result<String, Problem<'p>> {
        let start = self.at;
        self.classes += 1;
        let mut negative = self.rest().starts_with("\\P");
        self.at += 2;
        let rest = self.rest();
        let name = match rest.strip_prefix('{') {
            Some(inside) => {
                let Some(end) = inside.find('}') else {
                    self.at = self.pattern.len();
                    return Err(self.invalid(BAD_RANGE, start));
                };
                self.at += end + 2;
                inside.get(..end).unwrap_or("")
            }
            None => {
                let length = rest.chars().next().map_or(0, char::len_utf8);
                self.at += length;
                rest.get(..length).unwrap_or("")
            }
        };
        let name = name.strip_prefix('^').inspect(|_| negative = !negative).unwrap_or(name);
        let letter = if negative { 'P' } else { 'p' };
        let class = match CATEGORIES.contains(&name) {
            true => format!("\\{letter}{{{name}}}"),
            false => format!("\\{letter}{{Script={name}}}"),
        };
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        // Abbreviations such as `Latn` are not accepted.
        let is_abbreviation = name.len() <= 4 && !SHORT_SCRIPTS.contains(&name);
        let spelled_well = name.split('_').all(|word| {
            let mut letters = word.chars();
            letters.next().is_some_and(|c| c.is_ascii_uppercase()) && !letters.any(|c| c.is_ascii_uppercase())
        }) || name == "SignWriting";
        // The crate knows the names of scripts, but is less strict about their spelling.
        let known = is_name
            && (CATEGORIES.contains(&name)
                || (spelled_well
                    && !is_abbreviation
                    && (self.classes > MAX_LOOKED_UP || regex_syntax::parse(&class).is_ok())));
        if known { Ok(class) } else { Err(self.invalid(BAD_RANGE, start)) }
    }

    /// A bracketed class.
    fn class(&mut self) -> Step<'p> {
        let start = self.at;
        let missing = Problem { detail: "missing closing ]", part: self.rest() };
        self.at += 1;
        self.out.push('[');
        if self.rest().starts_with('^') {
            self.at += 1;
            self.out.push('^');
        }
        let mut first = true;
        loop {
            let rest = self.rest();
            match rest.chars().next() {
                None => return Err(missing),
                Some(']') if !first => {
                    self.at += 1;
                    break;
                }
                Some('[') if rest.starts_with("[:") && rest.contains(":]") => self.posix_class()?,
                Some('\\')
                    if matches!(rest.as_bytes().get(1), Some(b'd' | b'D' | b's' | b'S' | b'w' | b'W')) =>
                {
                    self.at += 2;
                    let class = rest.chars().nth(1).map_or("", perl_class);
                    self.out.push_str(class);
                }
                Some('\\') if matches!(rest.as_bytes().get(1), Some(b'p' | b'P')) => {
                    let class = self.unicode_class()?;
                    self.out.push_str(&class);
                }
                Some(_) => self.range(missing)?,
            }
            first = false;
        }
        debug_assert!(self.at > start);
        self.out.push(']');
        self.atom(1);
        Ok(())
    }

    /// One character of a class, or a range.
    fn range(&mut self, missing: Problem<'p>) -> Step<'p> {
        let start = self.at;
        let low = self.class_character(missing)?;
        let rest = self.rest();
        let mut high = low;
        if rest.starts_with('-') && !rest.starts_with("-]") && rest.len() > 1 {
            self.at += 1;
            high = self.class_character(missing)?;
            if high < low {
                return Err(self.invalid(BAD_RANGE, start));
            }
        }
        // Writing to a String cannot fail.
        let _ = write!(self.out, "\\x{{{:x}}}-\\x{{{:x}}}", u32::from(low), u32::from(high));
        Ok(())
    }

    fn class_character(&mut self, missing: Problem<'p>) -> Result<char, Problem<'p>> {
        match self.rest().chars().next() {
            None => Err(missing),
            Some('\\') => self.escaped_character(),
            Some(c) => {
                self.at += c.len_utf8();
                Ok(c)
            }
        }
    }

    /// `[:name:]` or `[:^name:]`.
    fn posix_class(&mut self) -> Step<'p> {
        let start = self.at;
        let end = self.rest().find(":]").unwrap_or(0);
        let name = self.rest().get(2..end).unwrap_or("");
        self.at += end + 2;
        if !POSIX_CLASSES.contains(&name.strip_prefix('^').unwrap_or(name)) {
            return Err(self.invalid(BAD_RANGE, start));
        }
        let _ = write!(self.out, "[:{name}:]");
        Ok(())
    }
}

/// The ASCII class of a Perl escape.
fn perl_class(letter: char) -> &'static str {
    match letter {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => r"[\t\n\f\r ]",
        'S' => r"[^\t\n\f\r ]",
        'w' => "[0-9A-Za-z_]",
        _ => "[^0-9A-Za-z_]",
    }
}

/// The start of a group with flags, or flags for the rest of the group.
fn flags(on: &str, off: &str, end: char) -> String {
    let minus = if off.is_empty() { "" } else { "-" };
    format!("(?{on}{minus}{off}{end}")
}

fn push_literal(out: &mut String, c: char) {
    if c.is_ascii() && !c.is_ascii_alphanumeric() {
        // Writing to a String cannot fail.
        let _ = write!(out, "\\x{{{:x}}}", u32::from(c));
    } else {
        out.push(c);
    }
}
