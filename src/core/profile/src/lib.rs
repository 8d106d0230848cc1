//! CPU and heap profiles of the running process in the pprof format.
//!
//! The binary links this crate only with its feature `profiling`: the CPU profiler unwinds in a signal handler, and the heap
//! profiler is a global allocator.
//!
//! ```ignore
//! #[global_allocator]
//! static ALLOCATOR: mixer_profile::SampledAllocator = mixer_profile::SampledAllocator;
//! let router = router.merge(mixer_profile::routes());
//! ```

mod caller;
mod cpu;
mod heap;
mod pprof;

pub use heap::{SampledAllocator, sample_continuously};
pub use pprof::routes;
