//! The callers beside the chaos, who know what they must be answered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::support::bag::{self, Attribute, Attributes, Words};
use crate::support::rpc::{Client, mixer};

/// What callers see: the fault that is being injected, and what it excuses.
#[derive(Default)]
pub(crate) struct Stage {
    pub(crate) fault: Mutex<String>,
    /// The server is being started again: calls may fail, but none may be allowed that must be denied.
    pub(crate) restarts: AtomicBool,
    pub(crate) stop: AtomicBool,
    pub(crate) calls: AtomicU64,
    /// Numbers with which user `switch` may be denied; `None`: allowed.
    pub(crate) switch: Mutex<BTreeSet<Option<u64>>>,
    /// Wrong answers by fault and caller: how many, and the first.
    pub(crate) violations: Mutex<BTreeMap<String, (u64, String)>>,
}

impl Stage {
    pub(crate) fn violation(&self, who: &str, text: String) {
        let fault = self.fault.lock().expect("no caller panics").clone();
        let mut violations = self.violations.lock().expect("no caller panics");
        violations.entry(format!("{fault}: {who}")).or_insert((0, text)).0 += 1;
    }
}

fn request(user: &str, service: &str) -> mixer::CheckRequest {
    let text = |text: &str| Attribute::Text(text.to_owned());
    let attributes = Attributes::from([
        ("source.user".to_owned(), text(user)),
        ("destination.service".to_owned(), text(service)),
    ]);
    let attributes = bag::encode_alone(&attributes, Words::of_message());
    mixer::CheckRequest { attributes: Some(attributes), ..Default::default() }
}

/// The code and text of an answer. Errors: the text of a failed call.
pub(crate) fn ask(client: &mut Client, user: &str, service: &str) -> Result<(i32, String), String> {
    let answer = client.check(&request(user, service), None).map_err(|status| status.to_string())?;
    let status = answer.precondition.unwrap_or_default().status.unwrap_or_default();
    Ok((status.code, status.message))
}

/// The number with which a user is denied; `None`: allowed.
pub(crate) fn number(answer: Result<(i32, String), String>) -> Result<Option<u64>, String> {
    match answer? {
        (0, _) => Ok(None),
        (_, text) => text.rsplit(' ').next().and_then(|word| word.parse().ok()).map(Some).ok_or(text),
    }
}

/// A round of calls.
type Act = Box<dyn Fn(&mut Client, &Stage) + Send>;

/// Starts the callers.
pub(crate) fn callers(stage: &Arc<Stage>, address: &str) -> Vec<JoinHandle<()>> {
    let fixed = [
        ("mallory", "shop", true),
        ("mallory", "vault", true),
        ("eve", "vault", true),
        ("linked", "shop", true),
        ("ann", "shop", false),
        ("ann", "vault", false),
    ];
    let caller = |act: Act| {
        let (stage, address) = (Arc::clone(stage), address.to_owned());
        std::thread::spawn(move || {
            let mut client = Client::new(&address).expect("a client");
            while !stage.stop.load(Ordering::Relaxed) {
                act(&mut client, &stage);
                // The rate of the calls.
                std::thread::sleep(Duration::from_millis(2));
            }
        })
    };
    let all = caller(Box::new(move |client, stage| {
        for (user, service, is_denied) in fixed {
            let restarts = stage.restarts.load(Ordering::Acquire);
            let answer = ask(client, user, service);
            stage.calls.fetch_add(1, Ordering::Relaxed);
            let restarts = restarts || stage.restarts.load(Ordering::Acquire);
            let is_right = match &answer {
                Ok((0, _)) => !is_denied,
                Ok(_) => is_denied || restarts,
                Err(_) => restarts,
            };
            if !is_right {
                stage.violation(&format!("{user} at {service}"), format!("{answer:?}"));
            }
        }
    }));
    let switch = caller(Box::new(move |client, stage| {
        let expected = || stage.switch.lock().expect("no caller panics").clone();
        let (before, restarts) = (expected(), stage.restarts.load(Ordering::Acquire));
        let answer = number(ask(client, "switch", "shop"));
        stage.calls.fetch_add(1, Ordering::Relaxed);
        let restarts = restarts || stage.restarts.load(Ordering::Acquire);
        let after = expected();
        let is_right = match &answer {
            Ok(number) => before.contains(number) || after.contains(number),
            Err(_) => restarts,
        };
        if !is_right {
            stage.violation("switch", format!("{answer:?}, not one of {before:?} or {after:?}"));
        }
    }));
    vec![all, switch]
}
