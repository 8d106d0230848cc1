//! What a caller with long texts costs the others.

use super::*;

/// Long paths take as long as there is time.
const SLOW_IF_LONG: &str = "package gate
default open := false
open if input.action.method == \"GET\"
n := numbers.range(1, 3000)
open if { count(input.action.path) > 5000; count([1 | n[_] * n[_] * n[_] == 17]) > 1000000 }
";

fn short_time(policy: &str) -> Params {
    Params { evaluation_timeout: SignedDuration::from_nanos(20_000_000), ..params(policy) }
}

#[tokio::test]
async fn a_slow_long_input_sends_no_short_one_to_another_thread() {
    let handler = built(short_time(SLOW_IF_LONG)).await.unwrap();
    let long = "/a".repeat(10_000);
    let Reply::Later(answer) = reply(&*handler, ["", "PUT", &long]) else {
        panic!("evaluated on this thread")
    };
    assert!(answer.await.is_err());
    assert!(matches!(reply(&*handler, ["", "PUT", &long]), Reply::Later(_)), "it is known to be slow");
    let Reply::Ready(answer) = reply(&*handler, ["", "GET", "/a"]) else {
        panic!("it waits behind long ones")
    };
    assert_eq!(answer, Ok(CheckResult::default()));
}

#[tokio::test]
async fn a_long_input_is_refused() {
    let handler = built(params("package gate\ndefault open := true\n")).await.unwrap();
    let of_length = |length: usize| "a".repeat(length - "annGET".len());
    let at_the_bound = check(&*handler, ["ann", "GET", &of_length(64 << 10)]).await.unwrap();
    assert_eq!(at_the_bound.status.code, 0);
    let beyond = check(&*handler, ["ann", "GET", &of_length((64 << 10) + 1)]).await.unwrap();
    let text = "opa: the input has 65537 bytes of text, and at most 65536 are evaluated";
    assert_eq!((beyond.status.code, &*beyond.status.message), (3, text));
}

#[tokio::test]
async fn the_bound_of_the_input_is_a_setting() {
    for (kilobytes, is_valid) in [(0, false), (-1, false), (1, true), (1024, true), (1025, false)] {
        let params = Params { max_input_kilobytes: kilobytes, ..params(V1) };
        let text = format!("maxInputKilobytes: must be from 1 to 1024, it is {kilobytes}");
        let wanted = if is_valid { Vec::new() } else { vec![text] };
        assert_eq!(problems::<Opa>(&params), wanted);
    }
    let small = Params { max_input_kilobytes: 1, ..params(V1) };
    let path = "a".repeat(1 << 10);
    let handler = built(small.clone()).await.unwrap();
    assert_eq!(check(&*handler, ["ann", "GET", &path]).await.unwrap().status.code, 3);
    // Istio Mixer has no bound.
    let env = test_env("h.istio-system");
    env.commons.insert(Arc::new(AdapterOptions { as_istio_mixer: true }));
    let handler = Opa::build(small, vec![bound()], env).await.unwrap();
    assert_eq!(check(&*handler, ["ann", "GET", &path]).await.unwrap().status.code, 0);
}

#[tokio::test]
async fn inputs_that_wait_have_their_share_of_memory() {
    use mixer_base::budget::{MemoryBudget, Purpose};
    use mixer_base::metrics::Family;

    let env = test_env("h.istio-system");
    env.commons.insert(Arc::new(MemoryBudget::new(16 << 20)));
    let budget = env.commons.get::<MemoryBudget>();
    let share = budget.share(Purpose::WaitingCalls);
    let handler = Opa::build(short_time(SLOW_IF_LONG), vec![bound()], env.clone()).await.unwrap();
    let long = "/a".repeat(10_000);
    let Reply::Later(answer) = reply(&*handler, ["", "PUT", &long]) else {
        panic!("evaluated on this thread")
    };
    assert!(share.used() >= 2 * long.len(), "{}", share.used());
    drop(answer);
    assert_eq!(share.used(), 0);
    // Nothing is left.
    let held = share.reserve(share.limit() - 1000).unwrap();
    let text = "opa: too much input of other calls waits for its evaluation";
    match reply(&*handler, ["", "PUT", &long]) {
        // No failure that `errorMode: open` allows: those who call can bring it about.
        Reply::Ready(answer) => assert_eq!(answer, Err(HandlerError::of_request(text))),
        Reply::Later(_) => panic!("it waits"),
    }
    // Not enough is left for the evaluation.
    drop(held);
    let _held = share.reserve(share.limit() - 100_000).unwrap();
    let Reply::Later(answer) = reply(&*handler, ["", "PUT", &long]) else { panic!("it does not wait") };
    assert_eq!(answer.await, Err(HandlerError::of_request(text)));
    let counted = env.metrics.counter(Family::OpaUndecided, &["h.istio-system", "memory"]);
    assert_eq!(counted.get(), 2);
}

#[tokio::test]
async fn an_input_for_which_there_is_never_memory_is_refused() {
    use mixer_base::budget::{MemoryBudget, Purpose};
    use mixer_base::metrics::Family;

    for as_istio_mixer in [false, true] {
        let env = test_env("h.istio-system");
        env.commons.insert(Arc::new(AdapterOptions { as_istio_mixer }));
        env.commons.insert(Arc::new(MemoryBudget::new(16 << 20)));
        let share = Arc::clone(env.commons.get::<MemoryBudget>().share(Purpose::WaitingCalls));
        let params = Params { max_input_kilobytes: MAX_INPUT_KILOBYTES, ..short_time(SLOW_IF_LONG) };
        let handler = Opa::build(params, vec![bound()], env.clone()).await.unwrap();
        let longest = (share.limit() - (2 << 10)) / 34;
        let path = |length: usize| "a".repeat(length - "PUT".len());
        let at_the_bound = reply(&*handler, ["", "PUT", &path(longest)]);
        assert!(matches!(at_the_bound, Reply::Later(_)), "{longest} is too long");
        drop(at_the_bound);
        let Reply::Ready(beyond) = reply(&*handler, ["", "PUT", &path(longest + 1)]) else {
            panic!("it waits")
        };
        let text = format!(
            "opa: the input has {} bytes of text, and at most {longest} are evaluated for longer than 2ms",
            longest + 1
        );
        let status = beyond.unwrap().status;
        assert_eq!((status.code, status.message), (3, text));
        let counted = |why| env.metrics.counter(Family::OpaUndecided, &["h.istio-system", why]).get();
        assert_eq!([counted("input"), counted("memory")], [1, 0]);
        assert_eq!(share.used(), 0);
    }
}
