//! `/debug/pprof/`: profiles in the form that the pprof tool reads.
//!
//! The CPU profile is taken by the timer of the process: a hundred times a second of CPU time the stack of the running thread is
//! noted, and nothing at all while no profile is asked for. What the originals show of Go's heap, locks and goroutines has no
//! counterpart here, and the paths say so.
//! Spec: cli-operations.md section 5.

mod profile;

use std::time::Duration;

use axum::Router;
use axum::response::Response;
use axum::routing::any;
use http::{HeaderValue, StatusCode, Uri, header};

use super::http::answer;

/// Stacks noted a second of CPU time; no divisor of round numbers, so that periodic work is not missed.
const FREQUENCY: i32 = 99;
/// Seconds of a profile unless asked otherwise. compat(1.3).
const DEFAULT_SECONDS: u64 = 30;
/// The longest profile.
const MAX_SECONDS: u64 = 300;

/// What plain answers are.
const PLAIN: &str = "text/plain; charset=utf-8";

/// Profiles of the originals that this program does not have, and where to look instead.
const ABSENT: &[(&str, &str)] = &[
    ("allocs", "allocations are not sampled; `valgrind --tool=dhat` or `heaptrack` show them"),
    ("block", "threads do not wait for each other on the way of a request; see ControlZ, Latency"),
    ("goroutine", "there are no goroutines; SIGQUIT writes threads and tasks to standard error"),
    ("heap", "the heap is not sampled; /memj/ on the ControlZ port and mixer_process_* tell its size"),
    ("mutex", "locks are not sampled"),
    ("threadcreate", "threads are made at the start; SIGQUIT lists them"),
    ("trace", "execution is not traced; take a CPU profile, or spans with --trace_zipkin_url"),
];

/// The routes below `/debug/pprof/`.
pub(super) fn routes() -> Router {
    let mut routes = Router::new()
        .route("/debug/pprof/", any(async || answer(StatusCode::OK, PLAIN, index())))
        .route("/debug/pprof/cmdline", any(async || answer(StatusCode::OK, PLAIN, command_line())))
        // Names are in the profiles themselves: there is nothing to look up.
        .route("/debug/pprof/symbol", any(async || answer(StatusCode::OK, PLAIN, "num_symbols: 1\n")))
        .route("/debug/pprof/profile", any(cpu));
    for (name, instead) in ABSENT {
        let text = format!("there is no profile `{name}`: {instead}\n");
        let path = format!("/debug/pprof/{name}");
        routes = routes.route(&path, any(async move || answer(StatusCode::NOT_IMPLEMENTED, PLAIN, text)));
    }
    routes
}

fn index() -> String {
    let mut text = "profiles:\ncmdline\nprofile?seconds=30\nsymbol\n\nnot here:\n".to_owned();
    for (name, instead) in ABSENT {
        text.push_str(&format!("{name}: {instead}\n"));
    }
    text
}

/// The arguments of the process, separated by NUL.
fn command_line() -> String {
    let arguments: Vec<_> = std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect();
    arguments.join("\0")
}

/// How long a profile is asked to last.
fn seconds(uri: &Uri) -> Result<Duration, String> {
    let given = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
        .find(|(name, _)| name == "seconds")
        .map(|(_, value)| value.into_owned());
    let seconds = match given {
        None => DEFAULT_SECONDS,
        Some(text) => text
            .parse::<u64>()
            .ok()
            .filter(|seconds| (1..=MAX_SECONDS).contains(seconds))
            .ok_or_else(|| format!("seconds: `{text}` is no number from 1 to {MAX_SECONDS}\n"))?,
    };
    Ok(Duration::from_secs(seconds))
}

/// Takes a CPU profile, one at a time.
async fn cpu(uri: Uri) -> Response {
    let length = match seconds(&uri) {
        Ok(length) => length,
        Err(text) => return answer(StatusCode::BAD_REQUEST, PLAIN, text),
    };
    let taken = tokio::task::spawn_blocking(move || take(length)).await;
    match taken.unwrap_or_else(|error| Err(error.to_string())) {
        Ok(bytes) => {
            let mut response = answer(StatusCode::OK, "application/octet-stream", bytes);
            let name = HeaderValue::from_static("attachment; filename=\"profile\"");
            response.headers_mut().insert(header::CONTENT_DISPOSITION, name);
            response
        }
        Err(error) => {
            let text = format!("Could not enable CPU profiling: {error}\n");
            answer(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, text)
        }
    }
}

/// Notes stacks for that long; gives the compressed profile. Errors: one is being taken already.
fn take(length: Duration) -> Result<Vec<u8>, String> {
    let guard = pprof::ProfilerGuardBuilder::default()
        .frequency(FREQUENCY)
        // Stacks that are inside these when the timer strikes cannot be walked safely.
        .blocklist(&["libc", "libgcc", "pthread", "vdso"])
        .build()
        .map_err(|_| "cpu profiling already in use".to_owned())?;
    std::thread::sleep(length);
    let report = guard.report().build().map_err(|error| error.to_string())?;
    drop(guard);
    profile::encode(&report).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_bounded() {
        let of = |query: &str| seconds(&format!("/debug/pprof/profile{query}").parse().unwrap());
        assert_eq!(of(""), Ok(Duration::from_secs(30)));
        assert_eq!(of("?seconds=2"), Ok(Duration::from_secs(2)));
        for bad in ["?seconds=0", "?seconds=301", "?seconds=x", "?seconds=-1"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_busy_thread_is_seen_and_profiles_do_not_overlap() {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stopped = std::sync::Arc::clone(&stop);
        let busy = std::thread::spawn(move || {
            let mut sum = 0_u64;
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                for number in 0..100_000_u64 {
                    sum = std::hint::black_box(sum.wrapping_add(number));
                }
            }
        });
        let other = std::thread::spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            take(Duration::from_secs(1))
        });
        let taken = take(Duration::from_secs(1)).unwrap();
        assert_eq!(other.join().unwrap(), Err("cpu profiling already in use".to_owned()));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        busy.join().unwrap();
        let profile = profile::decode(&taken);
        assert!(profile.sample.iter().map(|s| s.value.first().copied().unwrap_or(0)).sum::<i64>() > 10);
        assert!(profile.string_table.iter().any(|s| s.contains("a_busy_thread_is_seen")));
    }
}
