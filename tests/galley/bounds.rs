//! What API servers and registries may have the process take, in an address space of 1 GB.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::RULE;
use crate::admission::{create, post};
use crate::support::galley::Galley;
use crate::support::{DEADLINE, wait_for};

/// The address space, in KiB, and the most resident memory, in MiB.
const ADDRESS_SPACE: u64 = 1 << 20;
const BOUND: u64 = 256;
/// How long a good review may take beside others: what a person waits for without a thought, and a debug build on a busy machine.
const PROMPT: Duration = Duration::from_secs(2);

/// The process has lived, within the bound.
#[track_caller]
fn assert_within(galley: &mut Galley, what: &str) {
    let peak = galley.peak_kib() >> 10;
    println!("{what}: {peak} MiB");
    assert!(peak > 0, "{what}: it has ended: {}", galley.log());
    assert!(peak <= BOUND, "{what} takes {peak} MiB, more than {BOUND}");
    galley.signal("TERM");
    assert_eq!(galley.end(), Some(0), "{}", galley.log());
}

fn handler(adapter: &str, params: &Value) -> Value {
    json!({
        "apiVersion": "config.istio.io/v1alpha2", "kind": "handler", "metadata": {"name": "h", "namespace": "n"},
        "spec": {"compiledAdapter": adapter, "params": params},
    })
}

/// Eight times the same review at once, and a good one beside them. Returns how long that took, and the other answers.
fn beside_eight(galley: &Galley, object: &Value) -> (Duration, Vec<Result<Value, String>>) {
    let certificate = std::fs::read(galley.path("cert.pem")).expect("a file");
    let url = format!("https://localhost:{}/validate", galley.webhook);
    let good = handler("denier", &json!({"status": {"code": 7, "message": "no"}}));
    let (good, review) = (create(&good), create(object));
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    runtime.block_on(async {
        let (url, certificate) = (&*url, &*certificate);
        let asked: Vec<_> = (0..8).map(|_| post(url, certificate, &review)).collect();
        let good = async {
            // The others have arrived.
            tokio::time::sleep(Duration::from_millis(300)).await;
            let asked = Instant::now();
            let answer = post(url, certificate, &good).await.expect("an answer");
            assert_eq!(answer["response"]["allowed"], true, "{answer}");
            asked.elapsed()
        };
        let (took, answers) = tokio::join!(good, futures_util::future::join_all(asked));
        (took, answers)
    })
}

fn webhook() -> Galley {
    let arguments = ["--enable-validation", "--validation-depth=deep"];
    let galley = Galley::within(ADDRESS_SPACE, &[("rule.yaml", RULE)], &arguments);
    galley.synced();
    galley
}

#[test]
fn large_reviews_at_once_share_a_bound() {
    let mut galley = webhook();
    let limit = |number: usize| json!({"dimensions": {"a": format!("x{number}")}, "maxAmount": 1});
    let overrides: Vec<Value> = (0..15_000).map(limit).collect();
    let quota = json!({"name": "r", "maxAmount": 1, "validDuration": "1s", "overrides": overrides});
    let (took, answers) = beside_eight(&galley, &handler("memquota", &json!({"quotas": [quota]})));
    assert!(took <= PROMPT, "a good review takes {took:?}");
    for answer in &answers {
        match answer {
            Ok(answer) => assert_eq!(answer["response"]["allowed"], true, "{answer}"),
            Err(why) => assert!(why.contains("other large reviews took longer than 5s; try again"), "{why}"),
        }
    }
    assert!(answers.iter().any(Result::is_ok), "{answers:?}");
    assert_within(&mut galley, "8 reviews of 15 000 limits");
}

#[test]
fn good_reviews_do_not_wait_for_patterns() {
    let mut galley = webhook();
    let patterns: Vec<String> =
        (0..2_000).map(|number| format!("a{number:x}[b-z]{{1,200}}.*x\\w{{100}}")).collect();
    let list =
        handler("listchecker", &json!({"entryType": "REGEX", "blacklist": true, "overrides": patterns}));
    let (took, _) = beside_eight(&galley, &list);
    assert!(took <= PROMPT, "a good review takes {took:?}");
    assert_within(&mut galley, "8 reviews of 2 000 patterns");
}

/// A Eureka server that answers everything with `small`, and with `large` once it is told to.
fn eureka(small: String, large: String) -> (String, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}/eureka", listener.local_addr().expect("an address"));
    let is_large = Arc::new(AtomicBool::new(false));
    let answers_large = Arc::clone(&is_large);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let body = if answers_large.load(Ordering::Relaxed) { &large } else { &small };
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        }
    });
    (address, is_large)
}

fn applications(count: usize) -> String {
    let one = |number: usize| {
        format!(
            "{{\"name\":\"A{number}\",\"instance\":[{{\"instanceId\":\"i{number}\",\"ipAddr\":\"10.0.0.1\",\"status\":\"UP\",\
             \"port\":{{\"$\":80,\"@enabled\":\"true\"}}}}]}}"
        )
    };
    let all: Vec<String> = (0..count).map(one).collect();
    format!("{{\"applications\":{{\"apps__hashcode\":\"UP_{count}_\",\"application\":[{}]}}}}", all.join(","))
}

#[test]
fn a_large_answer_of_a_registry_is_refused_and_the_last_one_serves() {
    let (address, is_large) = eureka(applications(3), applications(300_000));
    let address = format!("--eureka-address={address}");
    let arguments = [address.as_str(), "--eureka-refresh=200ms"];
    let mut galley = Galley::within(ADDRESS_SPACE, &[("rule.yaml", RULE)], &arguments);
    galley.synced();
    is_large.store(true, Ordering::Relaxed);
    let wanted = "the instances take more than 33554432 bytes: register fewer of them, or less metadata";
    let told = wait_for(DEADLINE, || galley.document("/sourcej/").to_string().contains(wanted).then_some(()));
    assert!(told.is_some(), "{} {}", galley.document("/sourcej/"), galley.log());
    assert_eq!(crate::registries::entries(&galley).len(), 3, "what was read before is served");
    assert_within(&mut galley, "an answer of 300 000 applications");
}
