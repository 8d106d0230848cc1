//! ControlZ of galley, as an operator reads it: three sinks, of which one refuses and one is slow, and files with errors.

use std::sync::atomic::Ordering;

use crate::sinks::RunningSink;
use crate::support::browser::Browser;
use crate::support::galley::Galley;
use crate::support::{DEADLINE, wait_for};
use crate::{GATEWAY, RULE};

#[track_caller]
fn until(galley: &Galley, what: &str, is_so: impl Fn() -> bool) {
    let found = wait_for(DEADLINE, || is_so().then_some(()));
    let (status, sinks) = (galley.document("/statusj/"), galley.document("/sinkj/"));
    assert!(found.is_some(), "{what}: {status}\n{sinks}\n{}", galley.log());
}

/// Node and state of all sinks, in the order in which they are shown.
fn sinks(galley: &Galley) -> Vec<(String, String)> {
    let sinks = galley.document("/sinkj/");
    let text = |sink: &serde_json::Value, name: &str| sink[name].as_str().unwrap_or_default().to_owned();
    sinks.as_array().into_iter().flatten().map(|sink| (text(sink, "node"), text(sink, "state"))).collect()
}

fn are(galley: &Galley, expected: &[(&str, &str)]) -> bool {
    let expected = expected.iter().map(|(node, state)| ((*node).to_owned(), (*state).to_owned()));
    sinks(galley) == expected.collect::<Vec<_>>()
}

#[test]
fn pages_tell_which_sinks_lag_and_what_is_held_back() {
    let galley = Galley::of_files(&[("rule.yaml", RULE), ("gateway.yaml", GATEWAY)], &[]);
    galley.synced();
    let (good, slow, picky) = (
        RunningSink::named(&galley, "good"),
        RunningSink::named(&galley, "slow"),
        RunningSink::named(&galley, "picky"),
    );
    until(&galley, "all have it", || {
        let sinks = sinks(&galley);
        sinks.len() == 3 && sinks.iter().all(|(_, state)| state == "in sync")
    });
    picky.refuses.store(true, Ordering::Relaxed);
    slow.is_held.store(true, Ordering::Relaxed);
    galley.write("rule.yaml", &RULE.replace("'true'", "'false'"));
    // Those that need an operator come first.
    until(&galley, "one refuses, one is behind", || {
        are(&galley, &[("picky", "refuses"), ("slow", "behind"), ("good", "in sync")])
    });

    let browser = Browser::start();
    let open = |path: &str| {
        browser.open(&format!("http://{}{path}", galley.address()));
        browser.text("main")
    };
    let overview = open("/");
    assert!(overview.contains("2 not in sync") && overview.contains("all in order"), "{overview}");
    let order = overview.find("refuses").zip(overview.find("behind"));
    assert!(order.is_some_and(|(refuses, behind)| refuses < behind), "{overview}");
    // What lags says since when, once that is a while ago.
    let page = wait_for(DEADLINE, || Some(open("/sinkz/")).filter(|page| page.contains(" ago")));
    let page = page.unwrap_or_else(|| open("/sinkz/"));
    // What lags is open: the versions, since when, and each line of the refusal.
    assert_eq!(browser.run("return document.querySelectorAll('#sinks > details[open]').length"), 2);
    assert!(page.contains("not today\nhandler: nor this"), "{page}");
    assert!(page.contains("outstanding") && page.contains(" ago"), "{page}");
    let since = "return [...document.querySelectorAll('#sinks > details[open] td[data-label=Since]')].map(c => c.textContent)";
    let since = browser.run(since);
    let since = since.as_array().cloned().unwrap_or_default();
    assert!(since.len() == 2 && since.iter().all(|text| text.as_str() != Some("")), "{since:?}");

    // An error that concerns its resource alone is told; one that decides about requests holds everything back.
    galley.write("gateway.yaml", &GATEWAY.replace("80", "eighty"));
    until(&galley, "it is skipped", || {
        let sources = galley.document("/sourcej/");
        sources.as_array().into_iter().flatten().any(|source| source["skipped"] == 1)
    });
    assert!(open("/").contains("1 resource skipped"), "{}", browser.text("main"));
    galley.write("rule.yaml", &RULE.replace("match", "mtch"));
    let is_withheld = || {
        let sources = galley.document("/sourcej/");
        sources.as_array().into_iter().flatten().any(|source| source["isWithheld"] == true)
    };
    until(&galley, "it is held back", is_withheld);
    let degraded = || galley.metrics().contains("mixer_component_degraded{component=\"sources\"} 1");
    until(&galley, "it is degraded", degraded);
    let overview = open("/");
    let why = "the configuration is not published, and the last one stays";
    assert!(overview.contains("Degraded") && overview.contains(why), "{overview}");
    assert!(overview.contains("1 not in order"), "{overview}");
    let sources = open("/sourcez/");
    assert!(sources.contains("not published") && sources.contains("mtch"), "{sources}");
    assert!(open("/configz/?collection=istio/policy/v1beta1/rules").contains("istio-system/close"));

    galley.write("rule.yaml", RULE);
    picky.refuses.store(false, Ordering::Relaxed);
    slow.is_held.store(false, Ordering::Relaxed);
    until(&galley, "it is mended", || !is_withheld() && !degraded());
    until(&galley, "all have it", || sinks(&galley).iter().all(|(_, state)| state == "in sync"));
    let sources = open("/sourcez/");
    assert!(!sources.contains("not published"), "{sources}");
    let overview = open("/");
    assert!(overview.contains("0 not in sync") && !overview.contains("Degraded"), "{overview}");
    drop(slow);
    until(&galley, "one is gone", || sinks(&galley).last().is_some_and(|(_, state)| state == "gone"));
    let page = open("/sinkz/");
    assert!(page.contains("gone") && page.contains(", ended "), "{page}");
    assert_eq!(browser.run("return document.querySelectorAll('#sinks > details[open]').length"), 0);
    assert!(open("/argz/").contains("config-on-error"), "{}", browser.text("main"));

    // No page is wider than a phone.
    browser.resize(390, 844, "dark");
    for path in ["/", "/sinkz/", "/sourcez/", "/configz/", "/eventz/", "/admissionz/", "/argz/"] {
        open(path);
        let fits = browser.run("return document.documentElement.scrollWidth <= innerWidth");
        assert_eq!(fits, true, "{path}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
    drop((good, picky));
}
