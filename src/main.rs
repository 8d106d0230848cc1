//! The `mixer` binary: parses the command line and runs the command.

use std::process::ExitCode;

use mixer_base::allocation::CountingAllocator;
use mixer_base::build_info::set_checkout;

#[cfg(not(feature = "profiling"))]
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new(std::alloc::System);

#[cfg(feature = "profiling")]
#[global_allocator]
static ALLOCATOR: CountingAllocator<mixer_profile::SampledAllocator> =
    CountingAllocator::new(mixer_profile::SampledAllocator);

fn main() -> ExitCode {
    set_checkout(option_env!("MIXER_CHECKOUT_REVISION"), option_env!("MIXER_CHECKOUT_STATUS"));
    match mixer::cmd::parse(std::env::args_os()) {
        Ok(invocation) => ExitCode::from(invocation.run(&mut mixer::cmd::Io::process())),
        Err(shown) => shown.print(),
    }
}
