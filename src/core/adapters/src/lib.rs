//! The in-process adapters, one file or folder each, and their inventory.
//!
//! Only the inventory is meant for the server. Modules are public for benchmarks and tests.

mod any;
mod bypass;
mod causes;
pub mod denier;
mod drill;
mod list;
mod memquota;
mod noop;
mod options;
pub mod prometheus;
pub mod stdio;
#[cfg(test)]
mod testing;

use mixer_engine::adapter::{Erase, Inventory};
pub use options::AdapterOptions;

/// Every adapter, in name order.
pub const INVENTORY: Inventory = Inventory::new(&[
    &Erase::<bypass::Bypass>::new(),
    &Erase::<denier::Denier>::new(),
    &Erase::<drill::Drill>::new(),
    &Erase::<list::ListChecker>::new(),
    &Erase::<memquota::Memquota>::new(),
    &Erase::<noop::Noop>::new(),
    &Erase::<prometheus::Prometheus>::new(),
    &Erase::<stdio::Stdio>::new(),
]);

#[cfg(test)]
mod tests {
    use super::INVENTORY;
    use crate::testing::test_env;
    use mixer_config::FieldPath;

    #[test]
    fn the_inventory_is_consistent() {
        assert_eq!(INVENTORY.self_check(), Ok(()));
    }

    #[tokio::test]
    async fn every_handler_implements_what_its_adapter_claims() {
        for adapter in INVENTORY.iter() {
            let (params, errors) = adapter.decode(None, FieldPath::root());
            assert!(errors.is_empty());
            // The build itself refuses a handler that lacks a trait.
            let handler = adapter.build(&params, Vec::new(), test_env("h.istio-system")).await;
            let handler = handler.unwrap_or_else(|e| panic!("{}: {e}", adapter.info().name));
            handler.close(std::time::Duration::from_secs(5)).await.unwrap();
        }
    }
}
