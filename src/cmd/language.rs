//! The language of every expression, if the environment selects one.

use std::ffi::OsStr;

use super::exit::Failure;
use mixer_base::quote::quoted;
use mixer_expr::Language;

/// The variable that selects the language of every expression.
const LANGUAGE: &str = "ISTIO_LANG";

/// The language of every expression, if `ISTIO_LANG` selects one: for commands that read configuration as a server does. Errors: it names none.
pub(crate) fn selected_language() -> Result<Option<Language>, Failure> {
    std::env::var_os(LANGUAGE).map(|value| named(&value)).transpose()
}

fn named(value: &OsStr) -> Result<Language, Failure> {
    let name = value.to_string_lossy();
    if let Some(language) = Language::known(&name) {
        return Ok(language);
    }
    let choices = Language::ALL.map(Language::name).join(", ");
    let what = format!("the environment variable {LANGUAGE} names no language: {}", quoted(name.as_bytes()));
    Err(Failure::usage(what).hint(format!(
        "the languages are {choices}; without {LANGUAGE} the annotations policy.istio.io/lang select them"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_is_named_exactly() {
        for known in ["CEL", "COMPAT", "CEXL"] {
            assert!(named(known.as_ref()).is_ok(), "{known}");
        }
        for unknown in ["cel", "CELL", "CEL ", ""] {
            assert!(named(unknown.as_ref()).is_err(), "{unknown:?}");
        }
    }
}
