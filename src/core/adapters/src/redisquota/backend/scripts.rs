//! The scripts that allocate, and how they are called.

use std::sync::LazyLock;

use redis::{Script, ScriptInvocation};

const FIXED: &str = include_str!("fixed_window.lua");
const ROLLING: &str = include_str!("rolling_window.lua");

/// The scripts of all handlers.
pub(super) static SCRIPTS: LazyLock<Scripts> =
    LazyLock::new(|| Scripts { fixed: Script::new(FIXED), rolling: Script::new(ROLLING) });

/// Most steps of a rolling window, each of which Redis stores.
const MAX_STEPS: i64 = 1024;

pub(super) struct Scripts {
    fixed: Script,
    rolling: Script,
}

impl Scripts {
    /// Their texts.
    pub(super) fn all(&self) -> [&'static str; 2] {
        [FIXED, ROLLING]
    }
}

/// A window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Window {
    Fixed,
    /// With the length of its steps, in nanoseconds.
    Rolling(i64),
}

impl Window {
    /// A rolling window of `length` with steps of `step`, in nanoseconds. Its steps are longer where there would be too many.
    pub(super) fn rolling(length: i64, step: i64) -> Self {
        Window::Rolling(step.max(length / MAX_STEPS + 1))
    }
}

/// An allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Allocation {
    pub(super) keys: Keys,
    pub(super) window: Window,
    /// In nanoseconds.
    pub(super) length: i64,
    pub(super) max_amount: i64,
    pub(super) amount: i64,
    pub(super) best_effort: bool,
}

/// The keys of an allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Keys {
    /// The state of the window.
    pub(super) meta: Vec<u8>,
    /// The amounts of the steps of a rolling window.
    pub(super) data: Vec<u8>,
    /// The answer to the deduplication id.
    pub(super) answer: Vec<u8>,
}

impl Allocation {
    /// The call of its script, which returns the granted amount and for how many nanoseconds it is valid.
    pub(super) fn invocation(&self) -> ScriptInvocation<'static> {
        let (script, step) = match self.window {
            Window::Fixed => (&SCRIPTS.fixed, 0),
            Window::Rolling(step) => (&SCRIPTS.rolling, step),
        };
        let mut call = script.prepare_invoke();
        call.key(&self.keys.meta).key(&self.keys.answer);
        if let Window::Rolling(_) = self.window {
            call.key(&self.keys.data);
        }
        call.arg(self.max_amount)
            .arg(self.length)
            .arg(step)
            .arg(i64::from(self.best_effort))
            .arg(self.amount);
        call
    }
}
