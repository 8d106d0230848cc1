//! The adapters of a program, and the checks of what they claim.

use super::{AdapterInfo, ErasedAdapter, Handler};
use crate::template::{self, Variety};

/// The adapters that configuration may name, in name order.
#[derive(Debug, Clone, Copy, Default)]
pub struct Inventory(pub &'static [&'static dyn ErasedAdapter]);

impl Inventory {
    /// The adapter with this name.
    pub fn find(self, name: &str) -> Option<&'static dyn ErasedAdapter> {
        self.0.iter().copied().find(|a| a.info().name == name)
    }

    /// Names of all adapters, in order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|a| a.info().name)
    }

    /// Compares the claims of every adapter with the templates that exist; the server calls it before anything else. Whether a
    /// handler implements what its adapter claims is checked with every build.
    ///
    /// Errors: the first defect.
    pub fn self_check(self) -> Result<(), InventoryError> {
        let infos: Vec<&'static AdapterInfo> = self.0.iter().map(|a| a.info()).collect();
        check_infos(&infos)
    }
}

/// A defect of the program: an adapter that claims what it does not keep.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InventoryError {
    /// Names must be unique, and the table in name order.
    #[error("adapter `{0}` stands in the inventory twice or out of name order")]
    Order(&'static str),
    /// An adapter without templates could never be used.
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
    /// The handler cannot be asked what its adapter claims.
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

fn check_infos(infos: &[&'static AdapterInfo]) -> Result<(), InventoryError> {
    let mut previous = "";
    for info in infos {
        if info.name <= previous {
            return Err(InventoryError::Order(info.name));
        }
        previous = info.name;
        if info.templates.is_empty() {
            return Err(InventoryError::NoTemplates(info.name));
        }
        if let Some(template) = info.templates.iter().find(|t| template::find(t).is_none()) {
            return Err(InventoryError::UnknownTemplate { adapter: info.name, template });
        }
    }
    Ok(())
}

/// Compares the traits of a built handler with the templates that its adapter claims.
pub(super) fn check_handler(info: &'static AdapterInfo, handler: &dyn Handler) -> Result<(), InventoryError> {
    for name in info.templates {
        let Some(template) = template::find(name) else {
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
