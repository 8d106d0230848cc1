//! Delivery: one mechanism for everything that sends items somewhere.
//!
//! Whoever produces items hands them over ([`Delivery::accept`]) and is done: it never waits, and what becomes of it later makes no
//! difference. From then on the delivery owns the items: a courier gathers them to batches and gives the batches to a sink.
//!
//! ```text
//! producers -- accept --> queue -- a batch is due --> in flight -- sink --> delivered
//!                 |                                       |
//!                 +--> dropped: full, closed     again <--+--> dropped: failed
//! ```
//!
//! | type | subject |
//! | --- | --- |
//! | [`Delivery`] | the handle of the producers |
//! | [`BlockingSink`], [`AsyncSink`] | where batches go: on a thread of its own, or in a task |
//! | [`Items`], [`List`] | the container of items: queue and batch alike |
//! | [`Addition`] | what is added to a container at once |
//! | [`Settings`] | bounds and memory, when a batch is due, what is dropped when there is no room |
//! | [`Retry`] | which batches are tried again: back-off with jitter, budget, circuit breaker |
//! | [`Spill`] | items that are kept on disk while there is no room in memory or the sink fails |
//! | [`DeliveryStatus`] | what became of all items |
//! | [`list`], [`DeliveryCollector`] | all deliveries of the process: for ControlZ and metrics |
//! | [`tell_losses`] | what the log says of those with losses when the process ends |
//! | [`left_on_disk`] | what deliveries that are gone left on disk, and nobody sends |
//! | [`Survey`], [`left_beside`] | find what those of earlier processes left there |
//!
//! Every item is counted once. At any moment, also after a panic of the sink and when a sink took a part of a batch only:
//!
//! ```text
//! accepted = delivered + full + failed + closed + waiting
//! ```
//!
//! The queue stays within its bounds, and together with the batch in flight within the memory that the share of the server has. All
//! decisions are those of a state machine without clock, lock or thread (`queue.rs`), which its tests drive with a virtual clock; the
//! couriers (`thread.rs`, `task.rs`) ask it what to do next. Couriers are supervised ([`mixer_base::task`]): a panic of a sink costs
//! the items that it had begun, and the next start goes on with the rest.

mod backlog;
mod delivery;
mod directories;
mod items;
mod queue;
mod registry;
mod retry;
mod settings;
mod shared;
mod sink;
mod spill;
mod spool;
mod survey;
mod task;
mod thread;

pub use delivery::{Delivery, Dropped, HandedOver};
pub use directories::{LeftOnDisk, left_on_disk};
pub use items::{Addition, Item, Items, List};
pub use queue::{DeliveryStatus, NotAccepted};
pub use registry::{DeliveryCollector, DeliveryReport, list, tell_losses};
pub use retry::Retry;
pub use settings::{Batching, Bounds, Holds, LossCounters, Settings, WhenFull};
pub use sink::{AsyncSink, BlockingSink, Tally};
pub use spill::{Spill, StoredItem, StoredItems, prepare};
pub use spool::Owner;
pub use survey::{Survey, left_beside};
