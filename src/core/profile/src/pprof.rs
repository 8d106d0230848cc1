//! `/debug/pprof/`: profiles in the form that the pprof tool reads.
//!
//! The CPU profile is made of stacks that the timer of the process has noted, see [`cpu`]. The heap profile is a sample of
//! allocations that are in use, see [`heap`]. What the originals show of Go's locks and goroutines has no counterpart here, and
//! the paths say so.
//! Spec: cli-operations.md section 5.

mod profile;
mod symbols;

use std::time::{Duration, SystemTime};

use axum::Router;
use axum::response::Response;
use axum::routing::any;
use http::{HeaderValue, StatusCode, Uri, header};

use super::{cpu, heap};
use mixer_net::http::answer;

/// Stacks noted a second of CPU time; no divisor of round numbers, so that periodic work is not missed.
const FREQUENCY: u32 = 99;
/// Seconds of a profile unless asked otherwise. compat(1.3).
const DEFAULT_SECONDS: u64 = 30;
/// Seconds of a heap profile unless asked otherwise, where allocations are not sampled for good.
const DEFAULT_HEAP_SECONDS: u64 = 10;
/// The longest profile.
const MAX_SECONDS: u64 = 300;

/// As in the originals.
const IN_USE: &str = "Could not enable CPU profiling: cpu profiling already in use";

/// What plain answers are.
const PLAIN: &str = "text/plain; charset=utf-8";

/// Profiles of the originals that this program does not have, and where to look instead.
const ABSENT: &[(&str, &str)] = &[
    ("allocs", "memory that was freed again is not noted; see heap"),
    ("block", "threads do not wait for each other on the way of a request; see ControlZ, Latency"),
    ("goroutine", "there are no goroutines; SIGQUIT writes threads and tasks to standard error"),
    ("mutex", "locks are not sampled"),
    ("threadcreate", "threads are made at the start; SIGQUIT lists them"),
    ("trace", "execution is not traced; take a CPU profile, or spans with --trace_zipkin_url"),
];

/// The routes below `/debug/pprof/`.
pub fn routes() -> Router {
    let mut routes = Router::new()
        .route("/debug/pprof/", any(async || answer(StatusCode::OK, PLAIN, index())))
        .route("/debug/pprof/cmdline", any(async || answer(StatusCode::OK, PLAIN, command_line())))
        // Names are in the profiles themselves: there is nothing to look up.
        .route("/debug/pprof/symbol", any(async || answer(StatusCode::OK, PLAIN, "num_symbols: 1\n")))
        .route("/debug/pprof/profile", any(cpu_time))
        .route("/debug/pprof/heap", any(heap_in_use));
    for (name, instead) in ABSENT {
        let text = format!("there is no profile `{name}`: {instead}\n");
        let path = format!("/debug/pprof/{name}");
        routes = routes.route(&path, any(async move || answer(StatusCode::NOT_IMPLEMENTED, PLAIN, text)));
    }
    routes
}

fn index() -> String {
    let mut text =
        "profiles:\ncmdline\nheap?seconds=10\nprofile?seconds=30\nsymbol\n\nnot here:\n".to_owned();
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

/// How long a profile is asked to last; `None` if that is not said.
fn seconds(uri: &Uri) -> Result<Option<Duration>, String> {
    let given = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
        .find(|(name, _)| name == "seconds")
        .map(|(_, value)| value.into_owned());
    let parsed = given.map(|text| {
        let number = text.parse::<u64>().ok().filter(|seconds| (1..=MAX_SECONDS).contains(seconds));
        number.ok_or_else(|| format!("seconds: `{text}` is no number from 1 to {MAX_SECONDS}\n"))
    });
    Ok(parsed.transpose()?.map(Duration::from_secs))
}

/// Takes a CPU profile, one at a time.
async fn cpu_time(uri: Uri) -> Response {
    profile_of(&uri, "profile", |length| take(length.unwrap_or(Duration::from_secs(DEFAULT_SECONDS)))).await
}

/// Tells what memory is in use: all that is known if allocations are sampled for good, else, or if a length of time is asked for,
/// what was allocated within that time.
async fn heap_in_use(uri: Uri) -> Response {
    profile_of(&uri, "heap", take_heap).await
}

async fn profile_of(
    uri: &Uri,
    name: &str,
    take: impl FnOnce(Option<Duration>) -> Result<Vec<u8>, String> + Send + 'static,
) -> Response {
    let length = match seconds(uri) {
        Ok(length) => length,
        Err(text) => return answer(StatusCode::BAD_REQUEST, PLAIN, text),
    };
    let taken = tokio::task::spawn_blocking(move || take(length)).await;
    match taken.unwrap_or_else(|error| Err(error.to_string())) {
        Ok(bytes) => {
            let mut response = answer(StatusCode::OK, "application/octet-stream", bytes);
            if let Ok(name) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
                response.headers_mut().insert(header::CONTENT_DISPOSITION, name);
            }
            response
        }
        Err(error) => answer(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, format!("{error}\n")),
    }
}

fn take_heap(length: Option<Duration>) -> Result<Vec<u8>, String> {
    let began = SystemTime::now();
    let length = match length {
        None if heap::is_sampled_for_good() => None,
        other => Some(other.unwrap_or(Duration::from_secs(DEFAULT_HEAP_SECONDS))),
    };
    let held = match length {
        None => heap::in_use(),
        Some(length) => {
            heap::in_use_since(length).ok_or_else(|| "a heap profile is being taken already".to_owned())?
        }
    };
    let profile = heap::quietly(|| profile::encode_heap(&held, began, length.unwrap_or_default()));
    profile.map_err(|error| error.to_string())
}

/// Notes stacks for that long; gives the compressed profile. Errors: one is being taken already.
fn take(length: Duration) -> Result<Vec<u8>, String> {
    let began = SystemTime::now();
    let seen = cpu::profile(length, FREQUENCY).ok_or_else(|| IN_USE.to_owned())?;
    profile::encode(&seen, FREQUENCY, began, length).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_bounded() {
        let of = |query: &str| seconds(&format!("/debug/pprof/profile{query}").parse().unwrap());
        assert_eq!(of(""), Ok(None));
        assert_eq!(of("?seconds=2"), Ok(Some(Duration::from_secs(2))));
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
        let first = std::thread::spawn(|| take(Duration::from_secs(2)));
        while !cpu::is_taking() {
            std::thread::yield_now();
        }
        assert_eq!(take(Duration::ZERO), Err(IN_USE.to_owned()));
        let taken = first.join().unwrap().unwrap();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        busy.join().unwrap();
        let profile = profile::decode(&taken);
        assert!(profile.sample.iter().map(|s| s.value.first().copied().unwrap_or(0)).sum::<i64>() > 10);
        assert!(profile.string_table.iter().any(|s| s.contains("a_busy_thread_is_seen")));
    }
}
