//! The Mixer filter before requests of HTTP/2.

use std::sync::atomic::Ordering;

use crate::client::{Client, request};
use crate::host::Host;
use crate::proxy::wait_for;
use crate::scene::{Scene, mirror};

#[test]
fn requests_are_checked_and_answers_are_cached() {
    let mixer = Host::start(100);
    let scene = Scene::start_before(mirror(), mixer.port);
    let client = Client::connect(scene.checked);
    for _ in 0..10 {
        let answer = client.ask(request("POST", "/fine"), Some(b"abc"), None).unwrap();
        assert_eq!(answer.status, 200);
        assert!(answer.text().ends_with("abc"), "{}", answer.text());
    }
    let denied = client.get("/denied");
    assert_eq!((denied.status, denied.text().as_str()), (403, "PERMISSION_DENIED:no"));
    // A client that leaves cancels its check, and others go on.
    let mut waiting = client.send(request("GET", "/wait"), true).unwrap();
    wait_for("it is asked", || (mixer.waiting.load(Ordering::Relaxed) == 1).then_some(()));
    waiting.body.send_reset(h2::Reason::CANCEL);
    wait_for("it is cancelled", || (mixer.resets.load(Ordering::Relaxed) == 1).then_some(()));
    assert_eq!(client.get("/fine").status, 200);
    assert_eq!(scene.proxy.stat("http_mixer_filter.total_check_calls"), 13);
    assert_eq!(scene.proxy.stat("http_mixer_filter.total_check_cache_hits"), 10);
    drop((client, waiting));
    scene.wait_for_rest();
}
