//! `/debug/pprof/`: the paths of Go's pprof handler. CPU and heap profiles need the Cargo feature `profiling`.

use std::ffi::OsString;

use axum::Router;
use axum::routing::any;
use http::StatusCode;

use mixer_base::secrets::mask_arguments;
use mixer_net::http::answer;

/// Content type of every answer here.
const PLAIN: &str = "text/plain; charset=utf-8";

/// Profiles of Go's runtime without a counterpart, and the alternative to each.
const ABSENT: &[(&str, &str)] = &[
    ("allocs", "freed memory is not recorded; see heap"),
    ("block", "request threads do not block on each other; see ControlZ, Latency"),
    ("goroutine", "there are no goroutines; SIGQUIT writes threads and tasks to standard error"),
    ("mutex", "lock contention is not sampled"),
    ("threadcreate", "threads are created at start; SIGQUIT lists them"),
    ("trace", "execution is not traced; take a CPU profile, or spans with --trace_zipkin_url"),
];

/// The profiles that the feature `profiling` adds.
const PROFILES: &[&str] = &["heap?seconds=10", "profile?seconds=30"];

/// Answer to a profile request in a build without the profiler.
#[cfg(not(feature = "profiling"))]
const NO_PROFILER: &str =
    "this build has no profiler; build it with `cargo build --release --features profiling`\n";

/// The routes below `/debug/pprof/`.
pub fn routes() -> Router {
    let mut routes = Router::new()
        .route("/debug/pprof/", any(async || answer(StatusCode::OK, PLAIN, index())))
        .route(
            "/debug/pprof/cmdline",
            any(async || answer(StatusCode::OK, PLAIN, command_line(std::env::args_os()))),
        )
        // Profiles contain their symbols, so there is nothing to look up.
        .route("/debug/pprof/symbol", any(async || answer(StatusCode::OK, PLAIN, "num_symbols: 1\n")));
    for (name, alternative) in ABSENT {
        let text = format!("there is no profile `{name}`: {alternative}\n");
        let path = format!("/debug/pprof/{name}");
        routes = routes.route(&path, any(async move || answer(StatusCode::NOT_IMPLEMENTED, PLAIN, text)));
    }
    routes.merge(profiles())
}

#[cfg(feature = "profiling")]
fn profiles() -> Router {
    mixer_profile::routes()
}

#[cfg(not(feature = "profiling"))]
fn profiles() -> Router {
    let refused = async || answer(StatusCode::NOT_IMPLEMENTED, PLAIN, NO_PROFILER);
    Router::new().route("/debug/pprof/profile", any(refused)).route("/debug/pprof/heap", any(refused))
}

/// Starts continuous heap sampling, one allocation per `rate` bytes on average.
#[cfg(feature = "profiling")]
pub fn sample_heap(rate: u64) {
    mixer_profile::sample_continuously(rate);
}

/// Warns that this build cannot sample the heap.
#[cfg(not(feature = "profiling"))]
pub fn sample_heap(_rate: u64) {
    tracing::warn!(
        "--heap-profile-rate has no effect: this build has no profiler (Cargo feature `profiling`)"
    );
}

fn index() -> String {
    let mut text = "profiles:\ncmdline\n".to_owned();
    let mut list = |names: &[&str]| names.iter().for_each(|name| text.extend([*name, "\n"]));
    if cfg!(feature = "profiling") {
        list(PROFILES);
        list(&["symbol"]);
    } else {
        list(&["symbol", "", "not in this build (Cargo feature `profiling`):"]);
        list(PROFILES);
    }
    text.push_str("\nnot available:\n");
    for (name, alternative) in ABSENT {
        text.extend([*name, ": ", *alternative, "\n"]);
    }
    text
}

/// The arguments of the process, separated by NUL; secret values are masked.
fn command_line(arguments: impl IntoIterator<Item = OsString>) -> String {
    let arguments = arguments.into_iter().map(|argument| argument.to_string_lossy().into_owned());
    mask_arguments(arguments).join("\0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_on_the_command_line_are_masked() {
        let arguments =
            ["mixer", "server", "--configStoreURL", "https://ann:hunter2@host/x", "--api-token=abc"];
        assert_eq!(
            command_line(arguments.map(OsString::from)),
            "mixer\0server\0--configStoreURL\0https://***@host/x\0--api-token=***"
        );
    }
}
