//! URLs, e-mail addresses, DNS names, IP addresses and timestamps: equality is reflexive and symmetric, functions agree on what
//! is valid, and comparison is case-insensitive where required.

use bumpalo::Bump;
use mixer_attribute::{Timestamp, text};
use mixer_expr::functions::{
    dns_name, dns_name_equal, email, email_equal, glob_match, ip, ip_equal, timestamp, to_lower, uri,
    uri_equal,
};

use crate::input::Input;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let one = input.short();
    let other = input.rest();
    let arena = Bump::new();
    for text in [one, other] {
        check_dns_name(text, &arena);
        check_email(text, &arena);
        check_uri(text, &arena);
        check_ip(text, &arena);
        check_time(text, &arena);
        check_lower(text, &arena);
    }
    symmetric("dns names", dns_name_equal(one, other, &arena).ok(), dns_name_equal(other, one, &arena).ok());
    symmetric("e-mails", email_equal(one, other, &arena).ok(), email_equal(other, one, &arena).ok());
    symmetric("URIs", uri_equal(one, other, &arena).ok(), uri_equal(other, one, &arena).ok());
    assert_eq!(ip_equal(one, other), ip_equal(other, one));
    let expected = match (other.strip_suffix(b"*"), other.strip_prefix(b"*")) {
        (Some(prefix), _) => one.starts_with(prefix),
        (None, Some(suffix)) => one.ends_with(suffix),
        (None, None) => one == other,
    };
    assert_eq!(glob_match(one, other), expected);
}

fn symmetric(what: &str, there: Option<bool>, back: Option<bool>) {
    assert_eq!(there, back, "{what} compared in both directions");
}

/// Registration and look-up have different rules (IDNA), so either may reject what the other accepts.
fn check_dns_name(name: &[u8], arena: &Bump) {
    let Ok(normal) = dns_name(name, arena) else { return };
    assert_eq!(dns_name(normal, arena), Ok(normal), "{}", name.escape_ascii());
    assert_ne!(dns_name_equal(name, name, arena), Ok(false), "{}", name.escape_ascii());
    assert_ne!(dns_name_equal(normal, name, arena), Ok(false), "{}", name.escape_ascii());
    if name.is_ascii() {
        let upper = name.to_ascii_uppercase();
        assert_ne!(dns_name_equal(name, &upper, arena), Ok(false), "{}", name.escape_ascii());
    }
}

fn check_email(text: &[u8], arena: &Bump) {
    let Ok(kept) = email(text, arena) else { return };
    assert_eq!(kept, text);
    assert_ne!(email_equal(text, text, arena), Ok(false), "{}", text.escape_ascii());
}

fn check_uri(text: &[u8], arena: &Bump) {
    let Ok(kept) = uri(text, arena) else { return };
    assert_eq!(kept, text);
    // A host need not be a DNS name; only comparison detects that.
    if let Ok(same) = uri_equal(text, text, arena) {
        assert!(same, "{}", text.escape_ascii());
    }
}

fn check_ip(address: &[u8], arena: &Bump) {
    let Ok(bytes) = ip(address, arena) else { return };
    assert!(ip_equal(bytes, bytes));
    let shown = text::ip_text(bytes).to_string();
    assert_eq!(ip(shown.as_bytes(), arena), Ok(bytes), "{shown}");
}

fn check_time(written: &[u8], arena: &Bump) {
    let Ok(instant) = timestamp(written, arena) else { return };
    let mut shown = Vec::new();
    text::push_text(&mut shown, mixer_attribute::Value::Timestamp(instant));
    let again: Option<Timestamp> = timestamp(&shown, arena).ok();
    assert_eq!(again, Some(instant), "{}", shown.escape_ascii());
}

fn check_lower(text: &[u8], arena: &Bump) {
    let lower = to_lower(text, arena);
    if text.is_ascii() {
        assert_eq!(lower, text.to_ascii_lowercase());
    }
}
