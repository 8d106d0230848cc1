//! The functions of the language, shared by all modes: pure, over byte strings, with results in the arena of the bag.
//!
//! Error texts are those of Istio Mixer, because operators match on them.

mod dns;
mod email;
mod glob;
mod ip;
mod regex;
mod text;
mod time;
mod uri;

pub use dns::{dns_name, dns_name_equal};
pub use email::{email, email_equal};
pub use glob::glob_match;
pub use ip::{ip, ip_equal};
pub use regex::{
    MAX_OF_CONFIGURATION, Pattern, PatternSize, Regex, RegexFacts, RegexSet, TOO_LARGE_TOGETHER, TooCostly,
    pattern_cost, pattern_size,
};
pub(crate) use regex::{PatternError, computed_error, matches, search};
pub(crate) use text::made_by_lower;
pub use text::to_lower;
pub use time::timestamp;
pub use uri::{scheme_and_port, uri, uri_equal};

/// What reading a text as a URI counts, in bytes that are made: it takes about twice as long as to copy one in small letters.
pub(crate) fn read_as_uri(text: &[u8]) -> usize {
    text.len().saturating_mul(2)
}

/// Likewise for an address of e-mail, whose words may be encoded.
pub(crate) fn read_as_email(text: &[u8]) -> usize {
    text.len().saturating_mul(8)
}
