//! Policies that make far more of an input than its length: a bound for the memory of each evaluation, and of all together.

use mixer_base::allocation::CountingAllocator;
use mixer_base::budget::{MemoryBudget, Purpose};

use super::*;

/// Bodies of a rule that hold the square of an input, or more, by what they do with it.
const LARGE: [(&str, &str); 14] = [
    ("slices", "xs := [array.slice(parts, 0, i) | parts[i]]; count(xs) > 0"),
    ("pairs", "xs := [[a, b] | a := parts[_]; b := parts[_]]; count(xs) > 0"),
    ("pairs of numbers in a set", "xs := {[i, j] | parts[i]; parts[j]}; count(xs) > 0"),
    ("pairs as keys", "xs := {[i, j]: 1 | parts[i]; parts[j]}; count(xs) > 0"),
    ("prefixes", "xs := [concat(\"/\", array.slice(parts, 0, i)) | parts[i]]; count(xs) > 0"),
    ("formatted texts", "xs := [sprintf(\"%s%v\", [path, i]) | parts[i]]; count(xs) > 0"),
    ("written objects", "xs := [json.marshal({\"path\": path, \"at\": i}) | parts[i]]; count(xs) > 0"),
    ("replaced parts", "xs := [replace(path, \"/\", sprintf(\"%d\", [i])) | parts[i]]; count(xs) > 0"),
    ("splits", "xs := [split(path, \"/\") | parts[_]]; count(xs) > 0"),
    ("cases", "xs := [upper(sprintf(\"%d%s\", [i, path])) | parts[i]]; count(xs) > 0"),
    ("joined lists", "xs := [array.concat(parts, [i]) | parts[i]]; count(xs) > 0"),
    ("lists in sets", "xs := {array.concat([i], parts) | parts[i]}; count(xs) > 0"),
    ("ranges", "xs := [numbers.range(0, i) | parts[i]]; count(xs) > 0"),
    (
        "objects in objects",
        "xs := {i: object.union({\"path\": parts}, {sprintf(\"%d\", [i]): array.concat(parts, [i])}) | parts[i]}; count(xs) > 0",
    ),
];

fn policy(body: &str) -> String {
    format!(
        "package gate\ndefault open := false\nopen if {{ input.action.method == \"GET\" }}\n\
         open if {{ path := input.action.path; parts := split(path, \"/\"); {body} }}\n"
    )
}

fn within(kilobytes: i64, policy: &str) -> Params {
    Params { max_evaluation_kilobytes: kilobytes, ..params(policy) }
}

fn too_large(kilobytes: u32) -> String {
    format!(
        "opa: handler h.istio-system: the evaluation of data.gate.open takes more than {kilobytes} KiB of memory; make no list or \
         text in the policy that grows faster than the input, or raise maxEvaluationKilobytes"
    )
}

#[tokio::test]
async fn an_evaluation_that_takes_much_memory_ends() {
    let path = "/a".repeat(15_000);
    for (what, body) in LARGE {
        let env = test_env("h.istio-system");
        let share = Arc::clone(env.commons.get::<MemoryBudget>().share(Purpose::WaitingCalls));
        let counted = env.metrics.counter(Family::OpaUndecided, &["h.istio-system", "size"]);
        let handler = Opa::build(within(2 << 10, &policy(body)), vec![bound()], env).await.unwrap();
        // No failure that `errorMode: open` allows: those who call can bring it about.
        let answer = check(&*handler, ["", "PUT", &path]).await;
        assert_eq!(answer, Err(HandlerError::of_request(too_large(2 << 10))), "{what}");
        assert_eq!((counted.get(), share.used()), (1, 0), "{what}");
        // The next evaluation begins without what the last one left.
        let denied = check(&*handler, ["", "PUT", "/a"]).await.map(|answer| answer.status.code);
        let allowed = check(&*handler, ["", "GET", "/a"]).await.map(|answer| answer.status.code);
        assert_eq!(allowed, Ok(0), "{what}: {denied:?}");
    }
}

/// Set in a process of its own.
const IN_PROCESS: &str = "MIXER_TEST_PATTERNS";

/// The engine keeps compiled patterns for all evaluations, and bounds their number alone.
#[tokio::test]
async fn patterns_that_callers_choose_do_not_add_up() {
    let name = "patterns_that_callers_choose_do_not_add_up";
    if std::env::var_os(IN_PROCESS).is_some() {
        return match_many_patterns().await;
    }
    // Where nothing else takes memory.
    let (_, module) = module_path!().split_once("::").unwrap();
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("{module}::{name}")]).env(IN_PROCESS, "1");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

async fn match_many_patterns() {
    let resident = || {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() / 256
    };
    let policy = "package gate\ndefault open := false\nopen if glob.match(input.subject.user, [], \"abc\")\n";
    let handler = built(params(policy)).await.unwrap();
    let before = resident();
    // Each takes 4 MiB when it is compiled.
    for n in 0..30 {
        let pattern = format!("{n:06}{}", "{aaaa,bbbb}".repeat(5450));
        let answer = check(&*handler, [&pattern, "GET", "/a"]).await;
        assert_ne!(answer.map(|answer| answer.status.code), Ok(0));
    }
    let taken = resident().saturating_sub(before);
    assert!(taken < 80, "{taken} MiB");
    assert_eq!(check(&*handler, ["a*", "GET", "/a"]).await.map(|answer| answer.status.code), Ok(0));
}

#[tokio::test]
async fn what_stands_in_a_value_many_times_is_not_written_out() {
    // A list of two lists of two lists takes no memory, and 2^26 texts when it is written out.
    let doubled: String = (1..=26).map(|n| format!("x{n} := [x{}, x{}]; ", n - 1, n - 1)).collect();
    for written in
        ["json.marshal(x26)", "sprintf(\"%v\", [x26])", "json.marshal_with_options(x26, {\"indent\": \" \"})"]
    {
        let body = format!("x0 := path; {doubled} text := {written}; count(text) > 0");
        let handler = built(params(&policy(&body))).await.unwrap();
        let answer = check(&*handler, ["", "PUT", "/a"]).await;
        let is_bounded =
            |error: &HandlerError| error.is_of_request && error.message.contains("at most 16777216 bytes");
        assert!(answer.as_ref().is_err_and(is_bounded), "{written}: {answer:?}");
    }
}

#[tokio::test]
async fn what_follows_from_too_much_memory_is_that_of_too_much_time() {
    let (_, body) = LARGE[0];
    let path = "/a".repeat(15_000);
    let closed = Params { fail_close: true, ..within(1 << 10, &policy(body)) };
    let answer = check(&*built(closed).await.unwrap(), ["", "PUT", &path]).await.unwrap().status;
    let text = format!("opa: request was rejected. err: {}", too_large(1 << 10).trim_start_matches("opa: "));
    assert_eq!((answer.code, answer.message), (7, text));
    // Istio Mixer has no such bound: there is no answer to repeat that allows.
    let env = test_env("h.istio-system");
    env.commons.insert(Arc::new(AdapterOptions { as_istio_mixer: true }));
    let handler = Opa::build(within(1 << 10, &policy(body)), vec![bound()], env).await.unwrap();
    let answer = check(&*handler, ["", "PUT", &path]).await;
    assert_eq!(answer, Err(HandlerError::of_request(too_large(1 << 10))));
}

#[tokio::test]
async fn usual_policies_have_room() {
    // Each part of the longest input by default, several times.
    let body = "lower(path) == path; xs := {p | p := parts[_]}; ys := [upper(p) | p := parts[_]]; \
                zs := {i: p | p := parts[i]}; count(xs) + count(ys) + count(zs) > 0";
    let handler = built(params(&policy(body))).await.unwrap();
    let path: String = (0..8000).map(|n| format!("/p{n}")).collect();
    assert!(path.len() < 64 << 10);
    let answer = check(&*handler, ["", "PUT", &path]).await;
    assert_eq!(answer.map(|answer| answer.status.code), Ok(0));
}

#[tokio::test]
async fn all_evaluations_together_have_a_share_of_memory() {
    let (_, body) = LARGE[0];
    let env = test_env("h.istio-system");
    let share = Arc::clone(env.commons.get::<MemoryBudget>().share(Purpose::WaitingCalls));
    let counted = |why| env.metrics.counter(Family::OpaUndecided, &["h.istio-system", why]).get();
    // It waits for the memory of others, but not longer than calls do.
    let few_seconds = SignedDuration::from_secs(4);
    let params = Params { evaluation_timeout: few_seconds, ..params(&policy(body)) };
    let handler = Opa::build(params, vec![bound()], env.clone()).await.unwrap();
    // Of 16 MiB others hold 12.
    let held = share.reserve(12 << 20).unwrap();
    let path = "/a".repeat(15_000);
    let answer = check(&*handler, ["", "PUT", &path]).await;
    let text = "opa: the evaluation takes more memory than the share waiting-calls has left; make no list or \
                text in the policy that grows faster than the input, or raise --memory-limit";
    assert_eq!(answer, Err(HandlerError::of_request(text)));
    assert_eq!(([counted("memory"), counted("size")], share.used()), ([1, 0], 12 << 20));
    // A small evaluation needs little, but for what the first of a process makes once.
    let first = check(&*handler, ["", "GET", "/a"]).await;
    assert_eq!(first.map(|answer| answer.status.code), Ok(0));
    let all = share.reserve(share.limit() - share.used() - (64 << 10)).unwrap();
    let answer = check(&*handler, ["", "GET", "/a"]).await;
    assert_eq!(answer.map(|answer| answer.status.code), Ok(0));
    drop((held, all));
    assert_eq!(share.used(), 0);
}

/// A policy of which an evaluation holds ten million bytes.
const TEN: &str = "xs := [sprintf(\"%s%v\", [path, i]) | parts[i]]; count(xs) > 0";

#[tokio::test]
async fn evaluations_that_need_much_memory_wait_for_each_other() {
    let env = test_env("h.istio-system");
    let share = Arc::clone(env.commons.get::<MemoryBudget>().share(Purpose::WaitingCalls));
    let handler = Opa::build(params(&policy(TEN)), vec![bound()], env.clone()).await.unwrap();
    let path = "/a".repeat(2300);
    // Others hold so much that there is room for one, and not for two.
    let held = share.reserve(3 << 20).unwrap();
    let answers = futures_util::future::join_all((0..4).map(|_| check(&*handler, ["", "PUT", &path]))).await;
    let codes: Vec<_> = answers.into_iter().map(|answer| answer.map(|answer| answer.status.code)).collect();
    assert_eq!(codes, [Ok(0), Ok(0), Ok(0), Ok(0)]);
    // What they hold is let go of while it waits.
    let all = share.reserve(share.limit() - share.used() - (256 << 10)).unwrap();
    let release = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        drop((held, all));
    };
    let (answer, ()) = tokio::join!(check(&*handler, ["", "PUT", &path]), release);
    assert_eq!(answer.map(|answer| answer.status.code), Ok(0));
    let counted = env.metrics.counter(Family::OpaUndecided, &["h.istio-system", "memory"]);
    assert_eq!((counted.get(), share.used()), (0, 0));
}

#[tokio::test]
async fn an_evaluation_that_needs_more_than_the_share_fails_at_once() {
    let env = test_env("h.istio-system");
    env.commons.insert(Arc::new(MemoryBudget::new(64 << 20)));
    let handler = Opa::build(params(&policy(TEN)), vec![bound()], env.clone()).await.unwrap();
    let begun = std::time::Instant::now();
    let answer = check(&*handler, ["", "PUT", &"/a".repeat(2300)]).await;
    let is_told = |error: &HandlerError| error.message.contains("the share waiting-calls has left");
    assert!(answer.as_ref().is_err_and(is_told), "{answer:?}");
    assert!(begun.elapsed() < Duration::from_secs(5), "nothing is waited for");
}

/// One handler with slow evaluations does not hold up those of another one.
#[tokio::test]
async fn a_handler_has_a_thread_of_its_own() {
    let env = test_env("h.istio-system");
    let threads = env.commons.get::<super::super::rego::SlowThreads>();
    let path = "/a".repeat(2300);
    let _held = (threads.occupy(0).await, threads.occupy(path.len()).await);
    let handler = Opa::build(params(&policy(TEN)), vec![bound()], env).await.unwrap();
    let answer = check(&*handler, ["", "PUT", &path]).await;
    assert_eq!(answer.map(|answer| answer.status.code), Ok(0));
}

#[test]
fn the_bound_of_the_memory_is_a_setting() {
    for (kilobytes, is_valid) in
        [(0, false), (-1, false), (255, false), (256, true), (256 << 10, true), ((256 << 10) + 1, false)]
    {
        let params = Params { max_evaluation_kilobytes: kilobytes, ..params(V1) };
        let text = format!("maxEvaluationKilobytes: must be from 256 to 262144, it is {kilobytes}");
        let wanted = if is_valid { Vec::new() } else { vec![text] };
        assert_eq!(problems::<Opa>(&params), wanted);
    }
}

/// The allocator of the tests counts: without it nothing would be bounded.
#[test]
fn the_allocator_counts() {
    use mixer_base::allocation::{Bounds, metered};
    let _: CountingAllocator = crate::ALLOCATOR;
    let (text, usage) = metered(Bounds::of(1 << 20), || "a".repeat(1000));
    assert!(usage.left >= text.len());
}
