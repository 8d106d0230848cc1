//! Error texts of the engine.

/// The text of an error in one line: `FILE:LINE:COLUMN: what`, without the excerpt of the source.
pub(super) fn one_line(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    let mut place = None;
    let mut said = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix("--> ") {
            Some(at) => drop(place.get_or_insert(at)),
            // Lines of the excerpt: `12 | allow {`, `|`, `| ^`.
            None if is_excerpt(line) => {}
            None => said.push(line.strip_prefix("error: ").unwrap_or(line)),
        }
    }
    let said = said.join(" ");
    match place {
        Some(place) => format!("{place}: {said}"),
        None => said,
    }
}

fn is_excerpt(line: &str) -> bool {
    line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start().starts_with('|')
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn the_excerpt_is_left_out() {
        let text = "\n--> opa_policy.0:3:8\n  |\n3 | open = {{{\n  |        ^\nerror: expecting `}`";
        assert_eq!(one_line(&text), "opa_policy.0:3:8: expecting `}`");
        assert_eq!(one_line(&"not a valid rule path"), "not a valid rule path");
    }
}
