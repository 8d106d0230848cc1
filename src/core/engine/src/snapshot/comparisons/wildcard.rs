//! Stars that stand for themselves.

use super::Notation;
use mixer_expr::TextTestKind;

/// Whether texts with stars, such as `*/*`, are values of this attribute or entry.
pub(super) fn may_be_value(attribute: &str, key: Option<&str>) -> bool {
    let is_body = attribute.ends_with(".raw") || attribute.ends_with(".text");
    // Values of headers, claims and parameters are free; those of labels and pseudo headers are not.
    is_body || key.is_some_and(|key| !attribute.ends_with(".labels") && !key.starts_with(':'))
}

/// The pattern of `match` that a constant was probably meant to be, if a star in it stands for itself.
pub(super) fn pattern(kind: TextTestKind, constant: &str) -> Option<String> {
    if !constant.contains('*') {
        return None;
    }
    Some(match kind {
        TextTestKind::Equal | TextTestKind::NotEqual => constant.to_owned(),
        TextTestKind::Start => format!("{}*", constant.trim_end_matches('*')),
        TextTestKind::End => format!("*{}", constant.trim_start_matches('*')),
        TextTestKind::Contains => format!("*{}*", constant.trim_matches('*')),
        TextTestKind::Glob => {
            let middle = constant.strip_suffix('*').or_else(|| constant.strip_prefix('*'));
            return middle.unwrap_or(constant).contains('*').then(|| constant.to_owned());
        }
        // Its stars are no text.
        TextTestKind::Regex { .. } => return None,
    })
}

/// How a pattern of `match` with stars anywhere is written.
pub(super) fn written(notation: Notation, subject: &str, pattern: &str) -> String {
    let collapsed = collapsed(pattern);
    let stars = collapsed.matches('*').count();
    let is_prefix = stars == 1 && collapsed.ends_with('*') && collapsed.len() > 1;
    let is_suffix = stars == 1 && collapsed.starts_with('*') && collapsed.len() > 1;
    // A path with its query ends with the query.
    let subject = if subject == "request.path" && !is_prefix { "request.url_path" } else { subject };
    let regex = collapsed.split('*').map(escaped).collect::<Vec<_>>().join(".*");
    match notation {
        Notation::Clause if is_prefix => format!("prefix: {}", collapsed.trim_end_matches('*')),
        Notation::Clause => format!("regex: '{}'", regex.replace('\'', "''")),
        _ if notation != Notation::Entry && (is_prefix || is_suffix) => {
            format!("match({subject}, {collapsed:?})")
        }
        _ => call(notation, subject, &format!("^{regex}$")),
    }
}

/// How a test with a regular expression is written.
pub(super) fn call(notation: Notation, subject: &str, regex: &str) -> String {
    let is_to_the_end = regex.ends_with('$') && !regex.ends_with(".*$");
    let subject = if subject == "request.path" && is_to_the_end { "request.url_path" } else { subject };
    let quoted = regex.replace('\\', "\\\\").replace('"', "\\\"");
    match notation {
        Notation::Clause => format!("regex: '{}'", regex.replace('\'', "''")),
        Notation::Entry => regex.to_owned(),
        Notation::Classic => format!("\"{quoted}\".matches({subject})"),
        Notation::Cel => format!("{subject}.matches(\"{quoted}\")"),
    }
}

/// The pattern with one star for several in a row.
fn collapsed(pattern: &str) -> String {
    let mut text = String::with_capacity(pattern.len());
    for c in pattern.chars() {
        if c != '*' || !text.ends_with('*') {
            text.push(c);
        }
    }
    text
}

/// A text as a regular expression for itself.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if "\\.+?()|[]{}^$*".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
