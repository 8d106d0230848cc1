//! Regular expressions and globs. Callers choose texts, and patterns where a policy takes them from a request; the engine looks neither at the
//! clock nor at its memory while it compiles one, or searches a text with it.

use regorus::Value;

use super::{Builtin, beyond, is_of_short_evaluation, late, text, within, within_time};
use mixer_expr::functions::{PatternSize, pattern_cost, pattern_size};

/// Longest pattern, in bytes.
const MAX_PATTERN: usize = 16 << 10;
/// What the classes of a pattern may [cost](pattern_cost): some milliseconds.
const MAX_PATTERN_COST: usize = 200;
/// Most repetitions and alternatives of a pattern: the compiler looks for the texts that it may begin with, for some milliseconds.
const MAX_CHOICES: usize = 256;
/// Likewise on the thread of a call.
const MAX_SHORT_CHOICES: usize = 64;
/// Most patterns of a template: each is compiled.
const MAX_PIECES: usize = 64;
/// Longest glob, in bytes, with what the engine writes around delimiters: some milliseconds.
const MAX_GLOB: usize = 4 << 10;
/// Most opening braces of a glob: the engine follows them by recursion.
const MAX_BRACES: usize = 128;
/// Most delimiters of a glob.
const MAX_DELIMITERS: usize = 16;
/// Most bytes of a text times the states of the patterns that it is searched with, of which each takes 5 to 25 ns where the automaton has no
/// room for what it computes.
const MAX_SEARCH: usize = 1 << 23;
/// Likewise on the thread of a call: some milliseconds.
const MAX_SHORT_SEARCH: usize = 1 << 18;
/// Longest text whose replacements are not counted before, in bytes.
const MAX_UNCOUNTED: usize = 1 << 10;
/// Most replacements in a longer text.
const MAX_REPLACED: usize = 1 << 16;

/// The size of a pattern that may be compiled. Errors: it takes too long.
fn compilable(builtin: &Builtin, pattern: Option<&str>) -> anyhow::Result<PatternSize> {
    let Some(pattern) = pattern else { return Ok(PatternSize::default()) };
    all_compilable(builtin, &[pattern])
}

/// The size of patterns together.
fn all_compilable(builtin: &Builtin, patterns: &[&str]) -> anyhow::Result<PatternSize> {
    let name = builtin.name;
    let mut cost = 0_usize;
    let mut whole = PatternSize::default();
    for pattern in patterns {
        if pattern.len() > MAX_PATTERN {
            return Err(beyond(format!("{name}: a pattern has at most {MAX_PATTERN} bytes")));
        }
        cost = cost.saturating_add(pattern_cost(pattern));
        let size = pattern_size(pattern);
        whole.states = whole.states.saturating_add(size.states);
        whole.groups = whole.groups.saturating_add(size.groups);
        whole.choices = whole.choices.saturating_add(size.choices);
    }
    if cost > MAX_PATTERN_COST {
        return Err(beyond(format!("{name}: a pattern has too many classes of Unicode characters")));
    }
    if whole.choices > MAX_CHOICES {
        return Err(beyond(format!(
            "{name}: a pattern has at most {MAX_CHOICES} repetitions and alternatives"
        )));
    }
    match whole.choices > MAX_SHORT_CHOICES && is_of_short_evaluation() {
        true => Err(late()),
        false => Ok(whole),
    }
}

/// Errors: a search takes too long, on the thread of a call or anywhere.
fn searchable(builtin: &Builtin, states: usize, bytes: usize) -> anyhow::Result<()> {
    let work = states.saturating_mul(bytes);
    if work > MAX_SEARCH {
        return Err(beyond(format!(
            "{}: the length of a text times the size of its pattern is at most {MAX_SEARCH}",
            builtin.name
        )));
    }
    match work > MAX_SHORT_SEARCH && is_of_short_evaluation() {
        true => Err(late()),
        false => Ok(()),
    }
}

/// `regex.is_valid(pattern)`.
pub(super) fn validated(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    compilable(builtin, text(arguments, 0))?;
    builtin.call(arguments)
}

/// `regex.match(pattern, text)`, `regex.find_n(pattern, text, n)` and `regex.split(pattern, text)`. A match may begin at each place, and the
/// search for it look at all that follows: the engine asks for each whether there is time.
pub(super) fn searched(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    let size = compilable(builtin, text(arguments, 0))?;
    searchable(builtin, size.states, text(arguments, 1).map_or(0, str::len))?;
    within_time(builtin, arguments)
}

/// `regex.find_all_string_submatch_n(pattern, text, n)`: each state has the places of all groups.
pub(super) fn captured(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    let size = compilable(builtin, text(arguments, 0))?;
    searchable(builtin, with_groups(size), text(arguments, 1).map_or(0, str::len))?;
    within_time(builtin, arguments)
}

fn with_groups(size: PatternSize) -> usize {
    size.states.saturating_mul(size.groups.saturating_add(1))
}

/// `regex.replace(text, pattern, new)`: each match is replaced by `new`, and may stand in it several times. Here the engine asks for nothing, so
/// that the matches of a long text are found before.
pub(super) fn replaced(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    let size = compilable(builtin, text(arguments, 1))?;
    let (Some(searched), Some(pattern), Some(new)) =
        (text(arguments, 0), text(arguments, 1), text(arguments, 2))
    else {
        return builtin.call(arguments);
    };
    let references = new.matches('$').count();
    let states = if references > 0 { with_groups(size) } else { size.states };
    searchable(builtin, states, searched.len())?;
    if searched.len() > MAX_UNCOUNTED {
        let most = i64::try_from(MAX_REPLACED)?;
        let sought = [Value::from(pattern), Value::from(searched), Value::from(most)];
        // What is no pattern the function itself reports.
        match within_time(&Builtin::find("regex.find_n")?, &sought) {
            Ok(Value::Array(found)) if found.len() >= MAX_REPLACED => {
                return Err(beyond(format!("{}: at most {MAX_REPLACED} places are replaced", builtin.name)));
            }
            Err(error) if super::is_beyond() => return Err(error),
            _ => {}
        }
    }
    let texts = searched.len().saturating_mul(references + 1);
    within(builtin, arguments, Some(texts.saturating_add((searched.len() + 1).saturating_mul(new.len()))))
}

/// `regex.template_match(template, text, start, end)`: what is between the delimiters is a pattern.
pub(super) fn matched_by_template(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    if let (Some(template), Some(searched), Some(start), Some(end)) =
        (text(arguments, 0), text(arguments, 1), text(arguments, 2), text(arguments, 3))
    {
        let name = builtin.name;
        if template.len() > MAX_PATTERN {
            return Err(beyond(format!("{name}: a template has at most {MAX_PATTERN} bytes")));
        }
        let pieces = pieces(template, start, end);
        if pieces.len() > MAX_PIECES {
            return Err(beyond(format!("{name}: a template has at most {MAX_PIECES} patterns")));
        }
        let size = all_compilable(builtin, &pieces)?;
        // Each is sought in what is left of the text, and not at its beginning alone.
        searchable(builtin, size.states, searched.len())?;
    }
    builtin.call(arguments)
}

/// The patterns of a template as the engine finds them: from the first `start` to the first `end`, also where there is another `start` between
/// them, up to where an `end` is before a `start`.
fn pieces<'t>(mut template: &'t str, start: &str, end: &str) -> Vec<&'t str> {
    let mut pieces = Vec::new();
    while pieces.len() <= MAX_PIECES
        && let (Some(begins), Some(ends)) = (template.find(start), template.find(end))
        && begins < ends
        && let Some(piece) = template.get(begins + start.len()..ends)
        && let Some(rest) = template.get(ends + end.len()..)
    {
        pieces.push(piece);
        template = rest;
    }
    pieces
}

/// `glob.match(pattern, delimiters, text)`.
pub(super) fn matched_by_glob(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    if let (Some(pattern), Some(searched)) = (text(arguments, 0), text(arguments, 2)) {
        let none = Vec::new();
        let delimiters = match arguments.get(1) {
            Some(Value::Array(delimiters)) => &**delimiters,
            _ => &none,
        };
        if delimiters.len() > MAX_DELIMITERS {
            return Err(beyond(format!("{}: at most {MAX_DELIMITERS} delimiters", builtin.name)));
        }
        let delimiters: Vec<char> = match arguments.get(1) {
            Some(Value::Array(delimiters)) if delimiters.is_empty() => vec!['.'],
            _ => delimiters.iter().filter_map(delimiter).collect(),
        };
        let states = compilable_glob(builtin, pattern, &delimiters)?;
        searchable(builtin, states, rewritten(searched, &delimiters))?;
    }
    builtin.call(arguments)
}

fn delimiter(value: &Value) -> Option<char> {
    match value {
        Value::String(text) => text.chars().next(),
        _ => None,
    }
}

/// `glob.quote_meta(pattern)`, which compiles it.
pub(super) fn quoted_glob(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    if let Some(pattern) = text(arguments, 0) {
        compilable_glob(builtin, pattern, &[])?;
    }
    builtin.call(arguments)
}

/// The most states of a glob that may be compiled. Errors: it takes too long, or too much of the stack.
fn compilable_glob(builtin: &Builtin, pattern: &str, delimiters: &[char]) -> anyhow::Result<usize> {
    let bytes = rewritten(pattern, delimiters);
    if bytes > MAX_GLOB {
        return Err(beyond(format!(
            "{}: a pattern has at most {MAX_GLOB} bytes, where a delimiter has three",
            builtin.name
        )));
    }
    if pattern.bytes().filter(|byte| *byte == b'{').count() > MAX_BRACES {
        return Err(beyond(format!("{}: a pattern has at most {MAX_BRACES} braces", builtin.name)));
    }
    // An asterisk has two, one for each alternative that it may end in.
    Ok(bytes.saturating_mul(2))
}

/// The length of a text after the engine has put a slash before and behind each delimiter, as often as it is one.
fn rewritten(text: &str, delimiters: &[char]) -> usize {
    let slashes = |delimiter: &char| match delimiter {
        '/' | ':' => 0,
        other => 2 * text.matches(*other).count(),
    };
    delimiters.iter().map(slashes).fold(text.len(), usize::saturating_add)
}

/// `time.format(time)` with a layout, and `time.parse_ns(layout, text)`: two bytes of a layout stand for up to thirteen.
pub(super) fn laid_out(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    /// Longest layout, in bytes.
    const MAX_LAYOUT: usize = 1 << 10;
    let layout = match arguments.first() {
        Some(Value::Array(parts)) => text(parts, 2),
        _ => text(arguments, 0),
    };
    if layout.is_some_and(|layout| layout.len() > MAX_LAYOUT) {
        return Err(beyond(format!("{}: a layout has at most {MAX_LAYOUT} bytes", builtin.name)));
    }
    if layout.is_some_and(|layout| !layout.is_ascii()) {
        // The engine takes it to pieces byte by byte.
        return Err(beyond(format!("{}: a layout has characters of ASCII alone", builtin.name)));
    }
    builtin.call(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_those_that_the_engine_compiles() {
        for (template, start, end, expected) in [
            ("urn:{a+}:{b}", "{", "}", vec!["a+", "b"]),
            // An inner delimiter is a part of the pattern.
            ("{(?:a[{])}", "{", "}", vec!["(?:a[{])"]),
            ("{a{100}}", "{", "}", vec!["a{100"]),
            ("<<a>>b<<c>>", "<<", ">>", vec!["a", "c"]),
            ("a/b/", "a", "/", vec![""]),
            ("ab|cd|", "", "|", vec!["ab", "cd"]),
            ("|a|", "|", "|", vec![]),
            ("}{a}", "{", "}", vec![]),
            ("{a}}{b}", "{", "}", vec!["a"]),
            ("{a", "{", "}", vec![]),
            ("a", "", "", vec![]),
            ("{{}", "{{", "{}", vec![]),
            ("äöü", "ä", "ü", vec!["ö"]),
        ] {
            assert_eq!(pieces(template, start, end), expected, "{template} {start} {end}");
        }
        assert!(pieces(&"{a}".repeat(1000), "{", "}").len() > MAX_PIECES);
    }

    #[test]
    fn delimiters_make_a_text_longer_as_often_as_they_are_given() {
        assert_eq!(rewritten("a.b:c/d", &['.']), 9);
        assert_eq!(rewritten("a.b:c/d", &['.', ':', '/']), 9);
        assert_eq!(rewritten("a.b.c", &['.', '.', 'x']), 13);
        assert_eq!(rewritten("a.b.c", &[]), 5);
    }
}
