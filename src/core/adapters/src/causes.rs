//! Error texts with all their causes.

use std::error::Error;

/// Appends the causes of an error to its text, on one line. A cause whose text the error already ends with is left out.
pub(crate) fn with_causes(mut text: String, error: &dyn Error) -> String {
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
