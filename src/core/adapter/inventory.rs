//! The one table of adapters.

use std::marker::PhantomData;

use super::ErasedAdapter;
use super::erased::Erase;

/// Every adapter, in name order.
pub static INVENTORY: &[&dyn ErasedAdapter] = &[&Erase::<super::denier::Denier>(PhantomData)];

/// The adapter with this name.
pub fn find(name: &str) -> Option<&'static dyn ErasedAdapter> {
    INVENTORY.iter().copied().find(|a| a.info().name == name)
}
