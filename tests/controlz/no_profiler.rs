//! A build without the feature `profiling`.

use crate::stage::Stage;
use crate::support::http;

#[test]
fn a_build_without_profiler_says_how_to_get_one() {
    let stage = Stage::new(&["--heap-profile-rate=16384"]);
    let monitored = |path: &str| http("GET", &stage.server.monitoring_url(path), "").unwrap();
    for path in ["/debug/pprof/profile?seconds=1", "/debug/pprof/heap"] {
        let answer = monitored(path);
        let text = "this build has no profiler; build it with `cargo build --release --features profiling`\n";
        assert_eq!((answer.status, answer.body.as_str()), (501, text), "{path}");
    }
    assert!(monitored("/debug/pprof/").body.contains("not in this build (Cargo feature `profiling`):\nheap"));
    assert!(stage.server.log().contains("--heap-profile-rate has no effect"), "{}", stage.server.log());
}
