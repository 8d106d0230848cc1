//! Profiles of the running process in the pprof format: CPU by sampling, heap by a sampling allocator.

mod cpu;
pub mod heap;
pub mod pprof;
