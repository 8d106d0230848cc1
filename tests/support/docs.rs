//! Blocks of a page of docs/.

/// What a page has in a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item<'p> {
    /// A comment of its own line, without `<!-- ` and ` -->`.
    Comment(&'p str),
    /// A fenced block.
    Fence {
        /// The comment right above it, or "".
        comment: &'p str,
        language: &'p str,
        content: &'p str,
    },
}

/// The comments and fenced blocks of a section, and of the sections in it, in their order.
pub(crate) fn items<'p>(page: &'p str, section: &str) -> Vec<Item<'p>> {
    let start = page.find(&format!("\n## {section}\n")).expect("the section exists") + 1;
    let rest = &page[start..];
    let mut rest = rest[3..].find("\n## ").map_or(rest, |end| &rest[..end + 4]);
    let (mut found, mut comment) = (Vec::new(), "");
    while let Some((line, after)) = rest.split_once('\n') {
        rest = after;
        if let Some(language) = line.strip_prefix("```") {
            let end = rest.find("```\n").expect("the block ends");
            found.push(Item::Fence { comment, language, content: &rest[..end] });
            rest = &rest[end + 4..];
            comment = "";
        } else if let Some(text) = line.strip_prefix("<!-- ").and_then(|text| text.strip_suffix(" -->")) {
            found.push(Item::Comment(text));
            comment = text;
        } else if !line.is_empty() {
            comment = "";
        }
    }
    found
}

/// The commands of a console, after `$`, and what they print.
pub(crate) fn commands(console: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in console.lines() {
        match (line.strip_prefix("$ "), found.last_mut()) {
            (Some(command), _) => found.push((command.to_owned(), String::new())),
            (None, Some((_, printed))) => *printed += &format!("{line}\n"),
            (None, None) => panic!("a console begins with a command: {line}"),
        }
    }
    found
}
