//! URI templates of API specifications: `/shelves/{shelf}/books/*`, `/files/**`, `/jobs/{id}:cancel`.

/// One segment. The order is that of preference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    /// Exactly this text.
    Literal(String),
    /// One segment, named.
    Variable,
    /// One segment.
    Any,
    /// Any number of segments; only literals follow.
    Rest,
}

/// A URI template. Of several that match, the one with the most specific segments is preferred, from left to right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UriTemplate {
    segments: Vec<Segment>,
    verb: Option<String>,
}

/// How specific the match of a template is; the least is preferred.
pub(crate) type Rank = Vec<u8>;

impl UriTemplate {
    /// Parses a template. `None` if it is not valid.
    pub fn parse(text: &str) -> Option<Self> {
        let (path, verb) = split_verb(text.strip_prefix('/')?);
        if verb == Some("") {
            return None;
        }
        let mut segments = Vec::new();
        if !path.is_empty() {
            parse_segments(path, &mut segments)?;
        }
        let rest = segments.iter().position(|segment| *segment == Segment::Rest);
        let follows = segments.get(rest.map_or(segments.len(), |at| at + 1)..).unwrap_or_default();
        follows
            .iter()
            .all(|segment| matches!(segment, Segment::Literal(_)))
            .then(|| Self { segments, verb: verb.map(str::to_owned) })
    }

    /// How a path without its query matches.
    pub(crate) fn rank(&self, path: &[u8]) -> Option<Rank> {
        let mut path = path.strip_prefix(b"/")?;
        if let Some(verb) = &self.verb {
            path = path.strip_suffix(verb.as_bytes())?.strip_suffix(b":")?;
        }
        let mut parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        while parts.last().is_some_and(|part| part.is_empty()) {
            parts.pop();
        }
        let mut rank = Vec::with_capacity(parts.len());
        let mut rest = &parts[..];
        for (at, segment) in self.segments.iter().enumerate() {
            if *segment == Segment::Rest {
                let after = self.segments.len() - at - 1;
                rank.push(3);
                rest = rest.get(rest.len().checked_sub(after)?..)?;
                continue;
            }
            let (first, others) = rest.split_first()?;
            rest = others;
            rank.push(match segment {
                Segment::Literal(text) if text.as_bytes() == *first => 0,
                Segment::Variable if !first.is_empty() => 1,
                Segment::Any if !first.is_empty() => 2,
                _ => return None,
            });
        }
        rest.is_empty().then_some(rank)
    }
}

/// The verb stands after the last colon that follows all braces and slashes.
fn split_verb(text: &str) -> (&str, Option<&str>) {
    let last = text.rfind(['/', '}']).map_or(0, |at| at + 1);
    match text.get(last..).and_then(|tail| tail.rfind(':')) {
        Some(at) => (text.get(..last + at).unwrap_or_default(), text.get(last + at + 1..)),
        None => (text, None),
    }
}

fn parse_segments(text: &str, out: &mut Vec<Segment>) -> Option<()> {
    let mut rest = text;
    loop {
        if let Some(after) = rest.strip_prefix('{') {
            let (variable, after) = after.split_once('}')?;
            match variable.split_once('=') {
                None => out.push(Segment::Variable),
                Some((name, inner)) => {
                    if name.is_empty() || inner.is_empty() || inner.contains('{') {
                        return None;
                    }
                    match inner {
                        "*" => out.push(Segment::Variable),
                        _ => inner.split('/').try_for_each(|part| push(part, out))?,
                    }
                }
            }
            let name = variable.split('=').next().unwrap_or_default();
            if name.is_empty() || name.contains(['{', '/', '*']) {
                return None;
            }
            rest = after;
        } else {
            let end = rest.find('/').unwrap_or(rest.len());
            push(rest.get(..end)?, out)?;
            rest = rest.get(end..)?;
        }
        match rest.strip_prefix('/') {
            Some(after) => rest = after,
            None if rest.is_empty() => return Some(()),
            None => return None,
        }
    }
}

fn push(part: &str, out: &mut Vec<Segment>) -> Option<()> {
    out.push(match part {
        "*" => Segment::Any,
        "**" => Segment::Rest,
        literal if literal.is_empty() || literal.contains(['{', '}', '*']) => return None,
        literal => Segment::Literal(literal.to_owned()),
    });
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_matches_by_segments() {
        let rows: [(&str, &str, Option<&[u8]>); 20] = [
            ("/a/b", "/a/b", Some(&[0, 0])),
            ("/a/b", "/a/b/", Some(&[0, 0])),
            ("/a/b", "/a/c", None),
            ("/a/b", "/a", None),
            ("/a/{x}", "/a/1", Some(&[0, 1])),
            ("/a/{x=*}", "/a/1", Some(&[0, 1])),
            ("/a/*", "/a/1", Some(&[0, 2])),
            ("/a/*", "/a/1/2", None),
            ("/a/*", "/a/", None),
            ("/a/**", "/a/1/2", Some(&[0, 3])),
            ("/a/**", "/a", Some(&[0, 3])),
            ("/a/**/z", "/a/1/2/z", Some(&[0, 3, 0])),
            ("/a/**/z", "/a/1/2", None),
            ("/{x.y=s/*}/b", "/s/1/b", Some(&[0, 2, 0])),
            ("/a/{x}:go", "/a/1:go", Some(&[0, 1])),
            ("/a/{x}:go", "/a/1", None),
            ("/a:go", "/a:go", Some(&[0])),
            ("/", "/", Some(&[])),
            ("/**", "/anything/else", Some(&[3])),
            ("/a", "a", None),
        ];
        for (template, path, rank) in rows {
            let parsed = UriTemplate::parse(template).unwrap();
            assert_eq!(parsed.rank(path.as_bytes()).as_deref(), rank, "{template} {path}");
        }
        for invalid in
            ["a", "/a//b", "/{x", "/{x={y}}", "/**/*", "/**/**", "/{}", "/a{x}", "/a:", "/{=*}", "/{x}y"]
        {
            assert_eq!(UriTemplate::parse(invalid), None, "{invalid}");
        }
    }
}
