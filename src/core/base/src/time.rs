//! Timestamps and durations with the ranges of protobuf, and the grammar, text forms and error texts of Go's `time` package; and moments that
//! this process saw.
//!
//! `jiff` and `humantime` accept other texts and print others; both forms are visible to users and pinned by conformance cases.

mod duration;
mod moment;
mod timestamp;

pub use duration::SignedDuration;
pub use moment::Moment;
pub use timestamp::{TextForm, Timestamp, TimestampText};

/// Appends `text` in double quotes the way Go's time package quotes user input in its error texts.
fn push_quoted(out: &mut String, text: &[u8]) {
    use std::fmt::Write as _;
    out.push('"');
    for &byte in text {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' '..=0x7f => out.push(char::from(byte)),
            // Writing to a String cannot fail.
            _ => drop(write!(out, "\\x{byte:02x}")),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests;
