//! Environment variables.

use std::borrow::Cow;
use std::collections::BTreeSet;

use parking_lot::RwLock;

use super::{MASKED, mask_value};

/// The environment variables from which the configuration has credentials. That of the process, as the environment is.
static VARIABLES: RwLock<BTreeSet<String>> = RwLock::new(BTreeSet::new());

/// The configuration has a credential from this environment variable, whatever its name is.
pub fn declare_variable(name: &str) {
    // One that is not there has nothing to be masked.
    if std::env::var_os(name).is_some() && !VARIABLES.read().contains(name) {
        VARIABLES.write().insert(name.to_owned());
    }
}

/// The value of an environment variable as it may be shown.
pub fn mask_variable<'v>(name: &str, value: &'v str) -> Cow<'v, str> {
    let is_declared = !value.is_empty() && VARIABLES.read().contains(name);
    if is_declared { Cow::Borrowed(MASKED) } else { mask_value(name, value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_with_a_credential_is_masked_whatever_its_name_is() {
        // Cargo sets it.
        let name = "CARGO_PKG_NAME";
        let value = std::env::var(name).unwrap();
        assert_eq!(mask_variable(name, &value), value);
        declare_variable(name);
        assert_eq!(mask_variable(name, &value), MASKED);
        assert_eq!(mask_variable(name, ""), "");
        declare_variable("NO_SUCH_VARIABLE");
        assert_eq!(mask_variable("NO_SUCH_VARIABLE", "value"), "value");
    }
}
