//! The attribute of the caller's principal.

use mixer_attribute::{AttributeBag, Value};
use mixer_engine::decision::CALLER_PRINCIPAL;
use mixer_engine::runtime::Published;

/// Sets the attribute of the caller's principal if there is one and the vocabulary has the attribute. `principal` is that of
/// [`CallInfo`](super::CallInfo). Returns whether it was set: answers then depend on the caller and must not be cached.
pub fn set_principal(principal: Option<&str>, published: &Published, bag: &mut AttributeBag<'_>) -> bool {
    let Some(principal) = principal else { return false };
    let vocabulary = &published.routes.snapshot().vocabulary;
    let Some(slot) = vocabulary.slot(CALLER_PRINCIPAL.as_bytes()) else { return false };
    let principal = bag.arena().alloc_slice_copy(principal.as_bytes());
    bag.set(slot, Value::String(principal));
    true
}
