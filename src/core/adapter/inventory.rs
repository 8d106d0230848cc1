//! The one table of adapters, and the checks of what it claims.

use std::marker::PhantomData;

use super::erased::Erase;
use super::{AdapterInfo, ErasedAdapter, Handler};
use crate::core::template::{self, Variety};

/// Every adapter, in name order.
pub static INVENTORY: &[&dyn ErasedAdapter] = &[
    &Erase::<super::bypass::Bypass>(PhantomData),
    &Erase::<super::denier::Denier>(PhantomData),
    &Erase::<super::drill::Drill>(PhantomData),
    &Erase::<super::list::ListChecker>(PhantomData),
    &Erase::<super::memquota::Memquota>(PhantomData),
    &Erase::<super::noop::Noop>(PhantomData),
    &Erase::<super::prometheus::Prometheus>(PhantomData),
    &Erase::<super::stdio::Stdio>(PhantomData),
];

/// The adapter with this name.
pub fn find(name: &str) -> Option<&'static dyn ErasedAdapter> {
    INVENTORY.iter().copied().find(|a| a.info().name == name)
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

/// Compares the claims of every adapter with the templates that exist; the server calls it before anything else. Whether a
/// handler implements what its adapter claims is checked with every build.
///
/// Errors: the first defect.
pub fn self_check() -> Result<(), InventoryError> {
    let infos: Vec<&'static AdapterInfo> = INVENTORY.iter().map(|a| a.info()).collect();
    check_infos(&infos)
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
    use crate::core::adapter::testing::test_env;
    use crate::core::config::FieldPath;

    #[test]
    fn the_inventory_keeps_its_claims() {
        assert_eq!(self_check(), Ok(()));
    }

    #[tokio::test]
    async fn every_handler_implements_what_its_adapter_claims() {
        for adapter in INVENTORY {
            let (params, errors) = adapter.decode(None, FieldPath::root());
            assert!(errors.is_empty());
            // The build itself refuses a handler that lacks a trait.
            let handler = adapter.build(&params, Vec::new(), test_env("h.istio-system")).await;
            let handler = handler.unwrap_or_else(|e| panic!("{}: {e}", adapter.info().name));
            handler.close(std::time::Duration::from_secs(5)).await.unwrap();
        }
    }

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
