//! `/debug/pprof/profile` and `/debug/pprof/heap`, in the format that the pprof tool reads.
//!
//! The CPU profile is sampled by a CPU-time timer, see [`cpu`]; the heap profile is a sample of live allocations, see [`heap`].

mod profile;
mod symbols;

use std::time::{Duration, SystemTime};

use axum::Router;
use axum::response::Response;
use axum::routing::any;
use http::{HeaderValue, StatusCode, Uri, header};

use crate::caller::{self, Caller};
use crate::{cpu, heap};
use mixer_net::http::answer;

/// Samples per second of CPU time; not a divisor of round numbers, so that sampling does not run in step with periodic work.
const FREQUENCY: u32 = 99;
/// Default length of a CPU profile. compat(1.3).
const DEFAULT_SECONDS: u64 = 30;
/// Default length of a heap profile without continuous sampling.
const DEFAULT_HEAP_SECONDS: u64 = 10;
/// Upper limit of `seconds`.
const MAX_SECONDS: u64 = 300;

/// compat(1.3): the text of Go.
const IN_USE: &str = "Could not enable CPU profiling: cpu profiling already in use";

/// Content type of error texts.
const PLAIN: &str = "text/plain; charset=utf-8";

/// The routes of both profiles. Query: `seconds`, 1 to 300. Errors: 400 for an invalid length, 500 while a profile of the same type
/// is being taken.
pub fn routes() -> Router {
    Router::new().route("/debug/pprof/profile", any(cpu_time)).route("/debug/pprof/heap", any(heap_in_use))
}

/// The query parameter `seconds`.
fn seconds(uri: &Uri) -> Result<Option<Duration>, String> {
    let given = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
        .find(|(name, _)| name == "seconds")
        .map(|(_, value)| value.into_owned());
    let parsed = given.map(|text| {
        let number = text.parse::<u64>().ok().filter(|seconds| (1..=MAX_SECONDS).contains(seconds));
        number.ok_or_else(|| format!("seconds: `{text}` is not a number from 1 to {MAX_SECONDS}\n"))
    });
    Ok(parsed.transpose()?.map(Duration::from_secs))
}

async fn cpu_time(uri: Uri) -> Response {
    let default = Duration::from_secs(DEFAULT_SECONDS);
    profile_of(&uri, "profile", move |length, caller| take_cpu(length.unwrap_or(default), caller)).await
}

/// All live samples with continuous sampling and no `seconds`; otherwise the live allocations made within that time.
async fn heap_in_use(uri: Uri) -> Response {
    profile_of(&uri, "heap", take_heap).await
}

async fn profile_of(
    uri: &Uri,
    name: &str,
    take: impl FnOnce(Option<Duration>, &Caller) -> Result<Vec<u8>, String> + Send + 'static,
) -> Response {
    let length = match seconds(uri) {
        Ok(length) => length,
        Err(text) => return answer(StatusCode::BAD_REQUEST, PLAIN, text),
    };
    // Dropped with this future, when the caller leaves.
    let (_presence, caller) = caller::arrive();
    let taken = tokio::task::spawn_blocking(move || take(length, &caller)).await;
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

fn take_heap(length: Option<Duration>, caller: &Caller) -> Result<Vec<u8>, String> {
    let began = SystemTime::now();
    let length = match length {
        None if heap::is_sampled_continuously() => None,
        other => Some(other.unwrap_or(Duration::from_secs(DEFAULT_HEAP_SECONDS))),
    };
    let live = match length {
        None => heap::in_use(),
        Some(length) => heap::in_use_since(length, caller)
            .ok_or_else(|| "a heap profile is already being taken".to_owned())?,
    };
    let profile = heap::quietly(|| profile::encode_heap(&live, began, length.unwrap_or_default()));
    profile.map_err(|error| error.to_string())
}

/// Samples for `length` and encodes the profile. Errors: a CPU profile is already being taken.
fn take_cpu(length: Duration, caller: &Caller) -> Result<Vec<u8>, String> {
    let began = SystemTime::now();
    let stacks = cpu::profile(length, FREQUENCY, caller).ok_or_else(|| IN_USE.to_owned())?;
    profile::encode_cpu(&stacks, FREQUENCY, began, length).map_err(|error| error.to_string())
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
        let (_presence, caller) = caller::arrive();
        let first = std::thread::spawn(move || take_cpu(Duration::from_secs(2), &caller));
        while !cpu::is_sampling() {
            std::thread::yield_now();
        }
        let (_other, second) = caller::arrive();
        assert_eq!(take_cpu(Duration::ZERO, &second), Err(IN_USE.to_owned()));
        let taken = first.join().unwrap().unwrap();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        busy.join().unwrap();
        let profile = profile::decode(&taken);
        assert!(profile.sample.iter().map(|s| s.value.first().copied().unwrap_or(0)).sum::<i64>() > 10);
        assert!(profile.string_table.iter().any(|s| s.contains("a_busy_thread_is_seen")));
        a_profile_ends_when_its_caller_leaves();
    }

    /// Part of the test above: profiles of one process do not overlap.
    fn a_profile_ends_when_its_caller_leaves() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let request = cpu_time("/debug/pprof/profile?seconds=300".parse().unwrap());
            let sampling = async {
                while !cpu::is_sampling() {
                    tokio::task::yield_now().await;
                }
            };
            tokio::pin!(request);
            tokio::pin!(sampling);
            std::future::poll_fn(|context| {
                assert!(request.as_mut().poll(context).is_pending());
                sampling.as_mut().poll(context)
            })
            .await;
        });
        // The request was dropped; the thread that samples ends long before its 300 seconds, and the runtime waits for it.
        drop(runtime);
        assert!(!cpu::is_sampling());
    }
}
