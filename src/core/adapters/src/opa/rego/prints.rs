//! What `print` of a policy writes: in the log at level debug, without what is secret in the input by its name.

use mixer_base::secrets::{KnownSecrets, MASKED, Window, is_secret};
use regorus::Value;

/// Longest line, in bytes.
const MAX_LINE: usize = 1 << 10;
/// Most lines of an evaluation.
const MAX_LINES: usize = 64;
/// Most values of an input that are looked at, and most bytes of its secrets. Nothing is shown of what is printed about another one.
const MAX_VALUES: usize = 4096;
const MAX_SECRETS: usize = 16 << 10;

/// Logs what an evaluation printed about its input.
pub(super) fn log(input: &Value, lines: &[String]) {
    for line in shown(input, lines) {
        tracing::debug!(target: "adapters", "print: {line}");
    }
}

fn shown(input: &Value, lines: &[String]) -> Vec<String> {
    if lines.is_empty() {
        return Vec::new();
    }
    let mut found = Found { secrets: KnownSecrets::default(), values: MAX_VALUES, bytes: MAX_SECRETS };
    let is_whole = found.read(input, false).is_some();
    let shown = |line: &String| match is_whole {
        true => {
            let beginning = Window::of(line.as_bytes(), MAX_LINE).without(&found.secrets);
            if beginning.goes_on { beginning.text + "…" } else { beginning.text }
        }
        false => MASKED.to_owned(),
    };
    let mut all: Vec<String> = lines.iter().take(MAX_LINES).map(shown).collect();
    if lines.len() > MAX_LINES {
        all.push(format!("({} more lines)", lines.len() - MAX_LINES));
    }
    all
}

/// The secrets of an input.
struct Found {
    secrets: KnownSecrets,
    /// What more may be looked at.
    values: usize,
    bytes: usize,
}

impl Found {
    /// `None`: there is more than is looked at.
    fn read(&mut self, value: &Value, is_of_secret: bool) -> Option<()> {
        self.values = self.values.checked_sub(1)?;
        match value {
            Value::Object(members) => members.iter().try_for_each(|(name, value)| {
                let is_named = matches!(name, Value::String(name) if is_secret(name));
                self.read(value, is_of_secret || is_named)
            }),
            Value::Array(items) => items.iter().try_for_each(|item| self.read(item, is_of_secret)),
            Value::Set(items) => items.iter().try_for_each(|item| self.read(item, is_of_secret)),
            value if is_of_secret => self.add(value),
            _ => Some(()),
        }
    }

    fn add(&mut self, value: &Value) -> Option<()> {
        // As it is, and as a document has it.
        let document = value.to_string();
        let text = match value {
            Value::String(text) => text,
            _ => document.as_str(),
        };
        self.bytes = self.bytes.checked_sub(text.len() + document.len())?;
        self.secrets.add(text.as_bytes());
        let inner = document.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        if let Some(inner) = inner.filter(|inner| *inner != text) {
            self.secrets.add(inner.as_bytes());
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(input: &str, lines: &[&str]) -> Vec<String> {
        let lines: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
        shown(&Value::from_json_str(input).unwrap(), &lines)
    }

    #[test]
    fn what_is_secret_in_the_input_is_not_printed() {
        let input =
            r#"{"headers": {"x-token": "hunter2\"x", "accept": "*/*"}, "password": ["geheim99", 123456]}"#;
        let lines = ["got hunter2\"x of */*", input, "geheim99 123456", "accept"];
        let shown = of(input, &lines);
        assert_eq!(shown[0], "got *** of */*");
        assert!(!shown[1].contains("hunter2") && !shown[1].contains("geheim"), "{}", shown[1]);
        assert_eq!(shown[2..], ["*** ***", "accept"]);
    }

    #[test]
    fn lines_and_inputs_have_bounds() {
        let shown = of("{}", &["x"; 100]);
        assert_eq!((shown.len(), shown.last().unwrap().as_str()), (65, "(36 more lines)"));
        assert_eq!(of("{}", &[&"x".repeat(2000)]), ["x".repeat(1024) + "…"]);
        assert_eq!(of(&format!("[{}1]", "1,".repeat(5000)), &["x"]), [MASKED]);
        assert_eq!(of(&format!(r#"{{"token": "{}"}}"#, "t".repeat(20_000)), &["x"]), [MASKED]);
        assert!(of("{}", &[]).is_empty());
    }
}
