//! The pod or host of the server.

use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// The name of the pod, if the environment tells it, or else of the host.
pub(super) fn pod() -> String {
    ["POD_NAME", "MY_POD_NAME"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|pod| !pod.trim().is_empty()))
        .unwrap_or_else(host_name)
}

/// The host name.
pub(super) fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// Tells this process from others at the same address.
pub(super) fn process() -> u128 {
    static ID: LazyLock<u128> =
        LazyLock::new(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros());
    *ID
}
