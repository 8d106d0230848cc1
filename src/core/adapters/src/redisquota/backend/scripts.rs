//! The scripts that allocate and lease, and how they are called.

use std::sync::LazyLock;

use redis::{Script, ScriptInvocation};

use super::lease;

/// The texts of scripts.
pub(super) const FIXED: &str = concat!(
    include_str!("scripts/time.lua"),
    include_str!("scripts/fixed_state.lua"),
    include_str!("scripts/fixed_allocate.lua")
);
pub(super) const ROLLING: &str = concat!(
    include_str!("scripts/time.lua"),
    include_str!("scripts/rolling_state.lua"),
    include_str!("scripts/rolling_allocate.lua")
);
pub(super) const LEASE_FIXED: &str = concat!(
    include_str!("scripts/time.lua"),
    include_str!("scripts/fixed_state.lua"),
    include_str!("scripts/lease.lua")
);
pub(super) const LEASE_ROLLING: &str = concat!(
    include_str!("scripts/time.lua"),
    include_str!("scripts/rolling_state.lua"),
    include_str!("scripts/lease.lua")
);

/// The scripts of all handlers.
pub(super) static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| Scripts {
    fixed: Script::new(FIXED),
    rolling: Script::new(ROLLING),
    lease_fixed: Script::new(LEASE_FIXED),
    lease_rolling: Script::new(LEASE_ROLLING),
});

/// Most steps of a rolling window, each of which Redis stores.
const MAX_STEPS: i64 = 1024;

pub(super) struct Scripts {
    fixed: Script,
    rolling: Script,
    lease_fixed: Script,
    lease_rolling: Script,
}

impl Scripts {
    /// Their texts.
    pub(super) fn all(&self) -> [&'static str; 4] {
        [FIXED, ROLLING, LEASE_FIXED, LEASE_ROLLING]
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

    fn step(self) -> i64 {
        match self {
            Window::Fixed => 0,
            Window::Rolling(step) => step,
        }
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
    /// The call of its script, whose answer is that of [`allocated_of`].
    pub(super) fn invocation(&self) -> ScriptInvocation<'static> {
        let script = match self.window {
            Window::Fixed => &SCRIPTS.fixed,
            Window::Rolling(_) => &SCRIPTS.rolling,
        };
        let mut call = script.prepare_invoke();
        call.key(&self.keys.meta).key(&self.keys.answer);
        if let Window::Rolling(_) = self.window {
            call.key(&self.keys.data);
        }
        call.arg(self.max_amount)
            .arg(self.length)
            .arg(self.window.step())
            .arg(i64::from(self.best_effort))
            .arg(self.amount);
        call
    }
}

impl Allocation {
    /// The answer as far as it can be one to this allocation: anybody who writes to the same Redis can write answers. That to an earlier call with
    /// the id may be more than is asked for now.
    pub(super) fn bounded(&self, answer: Allocated) -> Allocated {
        let limit = self.max_amount.max(0);
        let most = if answer.left.is_some() { self.amount.clamp(0, limit) } else { limit };
        Allocated {
            granted: answer.granted.clamp(self.amount.min(0), most),
            valid: answer.valid.min(self.length.max(0)),
            left: answer.left.map(|(left, lasts)| (left.min(limit), lasts)),
        }
    }
}

/// The answer to an allocation. Times are in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Allocated {
    pub(super) granted: i64,
    pub(super) valid: i64,
    /// What is left of the window, and for how long it lasts; `None` in a repeated answer.
    pub(super) left: Option<(i64, u64)>,
}

/// The answer to an allocation; `None` if it is none.
pub(super) fn allocated_of(numbers: &[i64]) -> Option<Allocated> {
    let (granted, valid, left) = match *numbers {
        [granted, valid] => (granted, valid, None),
        [granted, valid, left, lasts] => {
            (granted, valid, Some((left.max(0), u64::try_from(lasts).unwrap_or(0))))
        }
        _ => return None,
    };
    Some(Allocated { granted, valid: valid.max(0), left })
}

/// A window of which shares are leased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeasedWindow {
    /// The state of the window.
    pub(super) meta: Vec<u8>,
    /// The amounts of the steps of a rolling window.
    pub(super) data: Vec<u8>,
    /// The leases.
    pub(super) leases: Vec<u8>,
    pub(super) window: Window,
    /// In nanoseconds.
    pub(super) length: i64,
    pub(super) max_amount: i64,
    /// How long a share lasts, in nanoseconds.
    pub(super) lease: u64,
}

impl LeasedWindow {
    /// The exchange of a request of the lease with this id.
    pub(super) fn invocation(&self, id: &str, request: &lease::Request) -> ScriptInvocation<'static> {
        let script = match self.window {
            Window::Fixed => &SCRIPTS.lease_fixed,
            Window::Rolling(_) => &SCRIPTS.lease_rolling,
        };
        let mut call = script.prepare_invoke();
        call.key(&self.meta).key(&self.leases);
        if let Window::Rolling(_) = self.window {
            call.key(&self.data);
        }
        call.arg(self.max_amount).arg(self.length).arg(self.window.step()).arg(id).arg(request.number);
        call.arg(request.spent).arg(request.acknowledged).arg(request.keep).arg(request.window);
        call.arg(request.need).arg(request.least).arg(request.extra).arg(self.lease);
        call
    }
}

/// The answer to an exchange; `None` if the request was overtaken.
pub(super) fn answer_of(numbers: &[i64]) -> Option<lease::Answer> {
    let [granted, kept, window, valid, available] = *numbers else { return None };
    let valid = u64::try_from(valid).unwrap_or(0);
    Some(lease::Answer { granted, kept, window, valid, available })
}
