//! Cores of a server whose latencies are measured: it has one half of them, its clients the other.

use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// The number of cores, once this process was moved to a half of them.
static ALL: Mutex<usize> = Mutex::new(0);

/// The cores of the server and of everybody else; all of them unless latencies are measured.
pub(crate) struct Cores {
    server: Option<String>,
}

impl Cores {
    /// Moves this process to the second half of the cores, if latencies are measured.
    pub(crate) fn split(is_measured: bool) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if !is_measured {
            return Self { server: None };
        }
        // This process may have been moved by the test before.
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        *all = cores.max(*all);
        if *all < 2 {
            return Self { server: None };
        }
        let own = format!("{}-{}", *all / 2, *all - 1);
        run("taskset", &["--all-tasks", "--cpu-list", "--pid", &own, &std::process::id().to_string()]);
        Self { server: Some(format!("taskset --cpu-list 0-{}", *all / 2 - 1)) }
    }

    /// The core of the server, if it has one of its own.
    pub(crate) fn only_of_server() -> Option<usize> {
        let is_alone = *ALL.lock().unwrap_or_else(PoisonError::into_inner) / 2 == 1;
        is_alone.then_some(0)
    }

    /// What runs a command on the cores of the server.
    pub(crate) fn of_server(&self) -> &str {
        self.server.as_deref().unwrap_or_default()
    }
}

/// Moves the calling thread to a core.
pub(crate) fn move_to(core: usize) {
    run("taskset", &["--cpu-list", "--pid", &core.to_string(), &thread_id()]);
}

/// Lets the calling thread run only when others do not.
pub(crate) fn yield_to_others() {
    run("chrt", &["--idle", "--pid", "0", &thread_id()]);
}

/// Lets the calling thread run at once whenever it can run.
pub(crate) fn at_once() {
    run("chrt", &["--fifo", "--pid", "1", &thread_id()]);
}

fn thread_id() -> String {
    let thread = std::fs::read_link("/proc/thread-self").expect("this is Linux");
    thread.file_name().and_then(|id| id.to_str()).expect("a number").to_owned()
}

fn run(program: &str, arguments: &[&str]) {
    let succeeds = || {
        let ended = Command::new(program).args(arguments).stdout(Stdio::null()).status();
        ended.is_ok_and(|status| status.success())
    };
    // A thread of an earlier attack may end between its listing and its move.
    assert!((0..5).any(|_| succeeds()), "{program} {arguments:?}");
}
