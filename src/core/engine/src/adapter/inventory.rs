//! The table of adapters.

use super::claims::{InventoryError, check_infos};
use super::{AdapterInfo, ErasedAdapter};

/// The built-in adapters, in name order. The default is empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct Inventory {
    adapters: &'static [&'static dyn ErasedAdapter],
    external: Option<&'static dyn ErasedAdapter>,
}

impl Inventory {
    /// An inventory of adapters in name order; [`self_check`](Self::self_check) verifies the order.
    pub const fn new(adapters: &'static [&'static dyn ErasedAdapter]) -> Self {
        Self { adapters, external: None }
    }

    /// The same, with the adapter that calls those out of process. Its parameters are an
    /// [`ExternalHandler`](crate::snapshot::ExternalHandler); it has no name of its own.
    #[must_use]
    pub const fn with_external(self, external: &'static dyn ErasedAdapter) -> Self {
        Self { external: Some(external), ..self }
    }

    /// The adapter that calls those out of process, if there is one.
    pub(crate) fn external(self) -> Option<&'static dyn ErasedAdapter> {
        self.external
    }

    /// All adapters, in name order.
    pub fn iter(self) -> impl Iterator<Item = &'static dyn ErasedAdapter> {
        self.adapters.iter().copied()
    }

    /// The adapter with this name.
    pub fn find(self, name: &str) -> Option<&'static dyn ErasedAdapter> {
        self.iter().find(|a| a.info().name == name)
    }

    /// Names of all adapters, in order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        self.iter().map(|a| a.info().name)
    }

    /// Checks the declared templates of every adapter. Whether a handler implements them is checked when it is built.
    ///
    /// Errors: the first defect.
    pub fn self_check(self) -> Result<(), InventoryError> {
        let infos: Vec<&'static AdapterInfo> = self.iter().map(|a| a.info()).collect();
        check_infos(&infos)
    }
}
