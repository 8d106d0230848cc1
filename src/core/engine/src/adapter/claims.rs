//! Checks of the templates that adapters declare.

use super::{AdapterInfo, Handler};
use crate::template::{self, Variety};

/// An invalid adapter declaration: a programming error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InventoryError {
    /// Names must be unique and sorted.
    #[error("adapter `{0}` is duplicated or out of name order in the inventory")]
    Order(&'static str),
    /// An adapter without templates cannot be used.
    #[error("adapter `{0}` supports no template")]
    NoTemplates(&'static str),
    /// The template does not exist.
    #[error("adapter `{adapter}` claims template `{template}`, which does not exist")]
    UnknownTemplate {
        /// The adapter.
        adapter: &'static str,
        /// The name.
        template: &'static str,
    },
    /// The handler does not implement the trait of a declared template.
    #[error("adapter `{adapter}` claims template `{template}`, but its handler does not implement {variety}")]
    NotImplemented {
        /// The adapter.
        adapter: &'static str,
        /// The template.
        template: &'static str,
        /// The variety, for example `check`.
        variety: &'static str,
    },
}

/// Checks that adapters are sorted and declare existing templates.
///
/// Errors: the first defect.
pub(super) fn check_infos(infos: &[&'static AdapterInfo]) -> Result<(), InventoryError> {
    let mut previous = "";
    for info in infos {
        if info.name <= previous {
            return Err(InventoryError::Order(info.name));
        }
        previous = info.name;
        if info.templates.is_empty() {
            return Err(InventoryError::NoTemplates(info.name));
        }
        if let Some(template) = info.templates.iter().find(|t| template::built_in(t).is_none()) {
            return Err(InventoryError::UnknownTemplate { adapter: info.name, template });
        }
    }
    Ok(())
}

/// Checks that a handler implements the traits of the templates that its adapter declares.
pub(super) fn check_handler(info: &'static AdapterInfo, handler: &dyn Handler) -> Result<(), InventoryError> {
    for name in info.templates {
        let Some(template) = template::built_in(name) else {
            return Err(InventoryError::UnknownTemplate { adapter: info.name, template: name });
        };
        let implemented = match template.variety {
            Variety::Check | Variety::CheckWithOutput => handler.as_check().is_some(),
            Variety::Report => handler.as_report().is_some(),
            Variety::Quota => handler.as_quota().is_some(),
            Variety::AttributeGenerator => handler.as_generate().is_some(),
        };
        if !implemented {
            let variety = template.variety.short_name();
            return Err(InventoryError::NotImplemented { adapter: info.name, template: name, variety });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defects_are_named() {
        static ONE: AdapterInfo = AdapterInfo { name: "one", about: "", templates: &["quota"] };
        static NONE: AdapterInfo = AdapterInfo { name: "two", about: "", templates: &[] };
        static ODD: AdapterInfo = AdapterInfo { name: "two", about: "", templates: &["quotas"] };
        assert_eq!(check_infos(&[&ONE, &ONE]), Err(InventoryError::Order("one")));
        assert_eq!(check_infos(&[&ONE, &NONE]), Err(InventoryError::NoTemplates("two")));
        assert_eq!(
            check_infos(&[&ONE, &ODD]).unwrap_err().to_string(),
            "adapter `two` claims template `quotas`, which does not exist"
        );
        struct Idle;
        impl Handler for Idle {}
        assert_eq!(
            check_handler(&ONE, &Idle).unwrap_err().to_string(),
            "adapter `one` claims template `quota`, but its handler does not implement quota"
        );
    }
}
