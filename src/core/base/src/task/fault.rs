//! Injected panics, for tests of the supervision: in debug builds only, and only with `MIXER_FAULTS=1` in the environment.

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

/// Whether [`inject_panic`] has an effect.
pub fn is_injection_enabled() -> bool {
    cfg!(debug_assertions) && std::env::var_os("MIXER_FAULTS").is_some_and(|value| value == "1")
}

/// Makes every live task with this name panic. Returns how many there are; 0 unless faults are [enabled](is_injection_enabled).
pub fn inject_panic(name: &str) -> usize {
    if is_injection_enabled() { super::entry::inject(name) } else { 0 }
}
