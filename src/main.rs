//! The `mixer` binary: parses the command line and runs the command.

use std::process::ExitCode;

#[cfg(feature = "profiling")]
#[global_allocator]
static ALLOCATOR: mixer_profile::SampledAllocator = mixer_profile::SampledAllocator;

fn main() -> ExitCode {
    match mixer::cmd::parse(std::env::args_os()) {
        Ok(invocation) => ExitCode::from(invocation.run(&mut mixer::cmd::Io::process())),
        Err(shown) => shown.print(),
    }
}
