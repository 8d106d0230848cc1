//! The names of secrets, with those that a configuration declares.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::{MASKED, is_secret, mask_text};

/// What is secret under a configuration: the names of [`is_secret`], and the attributes that are declared to be secret because of
/// where their values come from, such as a cookie.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecretNames {
    declared: BTreeSet<Box<str>>,
}

impl SecretNames {
    /// No declared name.
    pub const fn new() -> Self {
        Self { declared: BTreeSet::new() }
    }

    /// Whether no name is declared: [`is_secret`] alone tells.
    pub fn is_empty(&self) -> bool {
        self.declared.is_empty()
    }

    /// Whether the value of the attribute with this name must be masked; each entry of a map is.
    pub fn is_secret(&self, attribute: &str) -> bool {
        self.declared.contains(attribute) || is_secret(attribute)
    }

    /// Whether an expression names a secret.
    pub fn is_secret_in(&self, expression: &str) -> bool {
        self.declared.iter().any(|name| expression.contains(&**name)) || is_secret(expression)
    }

    /// The value as it may be shown under the name of its attribute.
    pub fn mask_value<'v>(&self, attribute: &str, value: &'v str) -> Cow<'v, str> {
        if !value.is_empty() && self.is_secret(attribute) { Cow::Borrowed(MASKED) } else { mask_text(value) }
    }
}

impl FromIterator<Box<str>> for SecretNames {
    fn from_iter<T: IntoIterator<Item = Box<str>>>(names: T) -> Self {
        Self { declared: names.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_names_are_secret_besides_those_that_say_so() {
        let names: SecretNames = ["request.session".into()].into_iter().collect();
        assert!(names.is_secret("request.session") && names.is_secret("request.api_key"));
        assert!(!names.is_secret("request.path") && !names.is_secret("session"));
        assert!(names.is_secret_in("toLower(request.session | \"\")") && !names.is_secret_in("request.path"));
        assert_eq!(names.mask_value("request.session", "abc"), MASKED);
        assert_eq!(names.mask_value("request.session", ""), "");
        assert_eq!(names.mask_value("request.path", "/?token=abc"), "/?token=***");
        assert!(SecretNames::new().is_empty() && !SecretNames::new().is_secret("request.session"));
    }
}
