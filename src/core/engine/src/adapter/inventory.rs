//! The table of adapters.

use super::claims::{InventoryError, check_infos};
use super::{AdapterInfo, ErasedAdapter};

/// The built-in adapters, in name order. The default is empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct Inventory {
    adapters: &'static [&'static dyn ErasedAdapter],
}

impl Inventory {
    /// An inventory of adapters in name order; [`self_check`](Self::self_check) verifies the order.
    pub const fn new(adapters: &'static [&'static dyn ErasedAdapter]) -> Self {
        Self { adapters }
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
