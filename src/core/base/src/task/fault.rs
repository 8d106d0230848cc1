//! Injected panics and hangs, for tests of the supervision and of file systems that hang: in debug builds only, and only with
//! `MIXER_FAULTS=1` in the environment.

#[cfg(debug_assertions)]
mod enabled {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::sync::Notify;

    /// The fault of one task.
    #[derive(Debug, Default)]
    pub(in super::super) struct Fault {
        is_injected: AtomicBool,
        notify: Notify,
    }

    impl Fault {
        pub(in super::super) fn inject(&self) {
            self.is_injected.store(true, Ordering::Relaxed);
            self.notify.notify_one();
        }

        /// Panics once for each fault.
        #[expect(clippy::panic, reason = "a test asked for it")]
        pub(in super::super) fn check(&self) {
            if self.is_injected.swap(false, Ordering::Relaxed) {
                panic!("injected fault");
            }
        }

        /// Panics when a fault is injected, and never completes.
        pub(in super::super) async fn injected(&self) {
            loop {
                self.notify.notified().await;
                self.check();
            }
        }
    }
}

#[cfg(not(debug_assertions))]
mod enabled {
    /// Nothing: a release build injects no faults.
    #[derive(Debug, Default)]
    pub(in super::super) struct Fault(());

    impl Fault {
        pub(in super::super) fn inject(&self) {}

        #[inline]
        pub(in super::super) fn check(&self) {}

        pub(in super::super) async fn injected(&self) {
            std::future::pending().await
        }
    }
}

pub(super) use enabled::Fault;

/// Blocks this thread while the file that `MIXER_FAULT_HANG` names exists, as a read does on a file system that hangs. Nothing unless faults
/// are [enabled](is_injection_enabled).
#[inline]
pub fn hang_if_injected() {
    if !is_injection_enabled() {
        return;
    }
    let Some(file) = std::env::var_os("MIXER_FAULT_HANG") else { return };
    while std::path::Path::new(&file).exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Whether [`inject_panic`] and [`hang_if_injected`] have an effect: never in a release build.
pub fn is_injection_enabled() -> bool {
    cfg!(debug_assertions) && std::env::var_os("MIXER_FAULTS").is_some_and(|value| value == "1")
}

/// Makes every live task with this name panic. Returns how many there are; 0 unless faults are [enabled](is_injection_enabled).
pub fn inject_panic(name: &str) -> usize {
    if is_injection_enabled() { super::entry::inject(name) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::is_injection_enabled;

    /// In a release build (`cargo test --release -p mixer-base`) it has no effect, whatever the environment says.
    #[test]
    fn a_release_build_injects_no_faults() {
        let is_asked_for = std::env::var_os("MIXER_FAULTS").is_some_and(|value| value == "1");
        assert_eq!(is_injection_enabled(), is_asked_for && cfg!(debug_assertions));
        if !cfg!(debug_assertions) {
            assert_eq!(std::mem::size_of::<super::Fault>(), 0, "there is nothing to inject into");
        }
    }
}
