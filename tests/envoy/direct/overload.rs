//! The pool, load shedding and deadlines of calls.

use std::time::Duration;

use mixer_wire::envoy::service::auth::v3::CheckResponse;
use prost::Message as _;

use super::{AUTHORIZATION, Setting, check, check_request, limit, log};

#[test]
fn calls_past_the_pool_and_its_queue_are_refused() {
    let setting = Setting::start(&["--apiWorkerPoolSize=1", "--api-queue-length=0"]);
    let slow: Vec<_> = (0..4)
        .map(|number| {
            let mut client = setting.client();
            // Different paths: none is answered from the cache.
            std::thread::spawn(move || check(&mut client, &format!("/slow/{number}"), "ann"))
        })
        .collect();
    let (mut answered, mut refused) = (0, 0);
    for caller in slow {
        match caller.join().expect("it does not panic") {
            Ok(code) => {
                assert_eq!(code, 0);
                answered += 1;
            }
            Err(status) => {
                assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status}");
                refused += 1;
            }
        }
    }
    assert!(answered >= 1 && refused >= 1, "{answered} answered, {refused} refused");
    // Synchronous calls bypass the pool.
    assert_eq!(check(&mut setting.client(), "/", "ann").expect("an answer"), 0);
}

#[test]
fn calls_are_shed() {
    let arguments = ["--loadsheddingMode=enforce", "--maxRequestsPerSecond=0.001", "--burstSize=2"];
    let setting = Setting::start(&arguments);
    let mut client = setting.client();
    assert_eq!(check(&mut client, "/", "ann").expect("within the burst"), 0);
    let mut refused = 0;
    for _ in 0..3 {
        let answers = [check(&mut client, "/", "ann").map(drop), limit(&mut client, "b").map(drop)];
        for status in answers.into_iter().filter_map(Result::err) {
            assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status}");
            refused += 1;
        }
    }
    assert!(refused >= 4, "{refused} of 6");
    let status = log(&mut client, &["ann"]).expect_err("refused too");
    assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status}");
}

#[test]
fn the_deadline_of_a_call_bounds_its_handlers() {
    let setting = Setting::start(&[]);
    let mut client = setting.client();
    let started = std::time::Instant::now();
    let answer = client.call(AUTHORIZATION, check_request("/hang", "ann"), Some(Duration::from_millis(300)));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    // INTERNAL, or an ended call: the failure mode of the proxy applies.
    match answer {
        Ok(answer) => {
            let response = CheckResponse::decode(answer).expect("a response");
            assert_eq!(response.status.expect("a status").code, 13);
        }
        // Client or server, whichever notices first.
        Err(status) => {
            let ended = [tonic::Code::DeadlineExceeded, tonic::Code::Cancelled];
            assert!(ended.contains(&status.code()), "{status}");
        }
    }
}
