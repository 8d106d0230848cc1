//! The libFuzzer driver: runs the target that `MIXER_FUZZ_TARGET` names.
#![no_main]

use std::sync::LazyLock;

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("MIXER_FUZZ_TARGET").expect("MIXER_FUZZ_TARGET names the target");
    mixer_fuzz::target(&name).unwrap_or_else(|| panic!("unknown target `{name}`"))
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| TARGET(data));
