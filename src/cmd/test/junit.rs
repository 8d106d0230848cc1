//! Test results as JUnit XML.

use std::fmt::Write as _;

use super::session::{FinishedTest, TestRun};

/// The document; one test suite per file.
pub(super) fn document(session: &TestRun) -> String {
    let mut files: Vec<&str> = Vec::new();
    for ran in &session.ran {
        if !files.contains(&ran.file.as_str()) {
            files.push(&ran.file);
        }
    }
    let mut xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    let (tests, failures) = (session.ran.len(), session.failed());
    let time = session.took.as_secs_f64();
    // Writing to a String cannot fail.
    let _ = writeln!(xml, "<testsuites tests=\"{tests}\" failures=\"{failures}\" time=\"{time:.6}\">");
    for file in files {
        let cases: Vec<&FinishedTest> = session.ran.iter().filter(|ran| ran.file == file).collect();
        let failures = cases.iter().filter(|ran| !ran.result.passed()).count();
        let time: f64 = cases.iter().map(|ran| ran.result.took.as_secs_f64()).sum();
        let _ = writeln!(
            xml,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"0\" time=\"{time:.6}\">",
            escape(file),
            cases.len()
        );
        cases.iter().for_each(|case| write_case(&mut xml, case));
        xml.push_str("  </testsuite>\n");
    }
    xml.push_str("</testsuites>\n");
    xml
}

fn write_case(xml: &mut String, case: &FinishedTest) {
    let (name, file) = (escape(&case.name), escape(&case.file));
    let time = case.result.took.as_secs_f64();
    let head = format!(
        "    <testcase name=\"{name}\" classname=\"{file}\" file=\"{file}\" line=\"{}\" time=\"{time:.6}\"",
        case.line
    );
    if case.result.passed() {
        let _ = writeln!(xml, "{head}/>");
        return;
    }
    let _ = writeln!(xml, "{head}>");
    for failure in &case.result.failures {
        let message = format!("{}: expected {}, found {}", failure.field, failure.expected, failure.found);
        let place = format!("{}:{}:{}", case.file, failure.location.line, failure.location.column);
        let rules = if failure.rules.is_empty() { "none".to_owned() } else { failure.rules.join(", ") };
        let _ = writeln!(
            xml,
            "      <failure type=\"expectation\" message=\"{}\">{}\nrules: {}</failure>",
            escape(&message),
            escape(&place),
            escape(&rules)
        );
    }
    xml.push_str("    </testcase>\n");
}

/// Escapes text for elements and attributes; characters that are invalid in XML become U+FFFD.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            '\r' => out.push_str("&#13;"),
            c if (c as u32) < 0x20 || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("a<b> & \"c\"\n\u{1}"), "a&lt;b&gt; &amp; &quot;c&quot;&#10;\u{fffd}");
    }
}
