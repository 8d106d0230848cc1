//! What a start serves whose configuration is late, broken or cached.

use std::sync::Arc;
use std::time::Duration;

use mixer_engine::runtime::OnConfigError;
use mixer_expr::Language;
use parking_lot::Mutex;

use crate::refill::QUIET;
use crate::refusal::{HANDLER, INSTANCE, MANIFEST, RULE, deny, good};
use crate::stage::{Answer, Files, Stage};

#[test]
fn a_damaged_cache_is_reported_and_ignored() {
    let mut stage = Stage::new(OnConfigError::KeepLast, true);
    stage.start(&good());
    stage.stop();
    if let Some(bytes) = stage.cache.bytes.lock().as_mut() {
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
    }
    stage.start(&Files::default());
    assert_eq!(stage.check("bob"), Answer::Unavailable);
    let published = stage.published();
    let found: Vec<_> = published.diagnostics.iter().map(|d| (d.code, d.message.as_str())).collect();
    assert_eq!(
        found[1],
        (
            "config-cache",
            "the configuration cache cache is ignored: it is damaged: its checksum does not match"
        )
    );
    stage.change(&good());
    stage.pass(QUIET);
    assert_eq!(stage.check("bob"), Answer::Denied);
}

/// Of a rule whose instance is there but invalid, what is told is what is wrong with the instance: that is to be mended.
#[test]
fn what_is_withheld_names_the_cause() {
    const LIMIT: &str = "kind: instance\nmetadata: {name: calls, namespace: istio-system}\n\
        spec: {compiledTemplate: quota, params: {dimensions: {user: source.usr}}}\n\
        ---\nkind: handler\nmetadata: {name: limits, namespace: istio-system}\n\
        spec: {compiledAdapter: memquota, params: {quotas: [{name: calls.instance.istio-system, maxAmount: 1, validDuration: 1s}]}}\n\
        ---\nkind: rule\nmetadata: {name: limit, namespace: istio-system}\n\
        spec: {actions: [{handler: limits, instances: [calls]}]}\n";
    let mut files = good();
    files.put("/conf/limit.yaml", LIMIT);
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    stage.start(&files);
    let published = stage.published();
    let why = published.withheld.as_deref().unwrap_or_default();
    assert!(why.contains("calls.instance.istio-system: ") && why.contains("source.usr"), "{why}");
}

/// Whenever the process ends, a restart serves nothing older than what served last.
#[test]
fn a_configuration_is_in_the_cache_before_it_serves() {
    let mut stage = Stage::new(OnConfigError::KeepLast, true);
    let open =
        Files { texts: [("/conf/open.yaml".to_owned(), MANIFEST.to_owned())].into(), ..Files::default() };
    stage.start(&open);
    assert_eq!(stage.check("bob"), Answer::Allowed);
    let (runtime, first) = (stage.runtime(), stage.published().id());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let ids = Arc::clone(&seen);
    stage.cache.watch(move || ids.lock().push(runtime.load().id()));
    stage.change(&good());
    assert_eq!(stage.check("bob"), Answer::Denied);
    assert_eq!(*seen.lock(), [first], "the one before served when it was written");
    // Killed now, with a store that is broken afterwards.
    stage.start(&Files { lost: true, ..Files::default() });
    assert_eq!(stage.check("bob"), Answer::Denied);
}

/// A full disk leaves no older configuration for the next start, and is tried again without another change.
#[test]
fn a_cache_that_cannot_be_written_is_removed_and_written_later() {
    let mut stage = Stage::new(OnConfigError::KeepLast, true);
    let open =
        Files { texts: [("/conf/open.yaml".to_owned(), MANIFEST.to_owned())].into(), ..Files::default() };
    stage.start(&open);
    stage.cache.toggle_full();
    // What the cache has is what serves: it stays.
    stage.start(&open);
    assert!(stage.cache.bytes.lock().is_some());
    let told = "the configuration cache cache cannot be written: no storage space; it has what serves";
    assert_eq!(stage.published().cache_trouble.as_deref(), Some(told));
    stage.change(&good());
    assert!(stage.cache.bytes.lock().is_none(), "it would allow bob");
    let told = "the configuration cache cache cannot be written: no storage space; the older one is removed";
    assert_eq!(stage.published().cache_trouble.as_deref(), Some(told));
    let problems = &stage.published().diagnostics;
    assert!(problems.iter().any(|problem| problem.code == "config-cache" && problem.message == told));
    stage.cache.toggle_full();
    stage.pass(Duration::from_secs(5));
    assert!(stage.cache.bytes.lock().is_some(), "tried again");
    let published = stage.published();
    assert_eq!(published.cache_trouble, None);
    assert!(published.diagnostics.iter().all(|problem| problem.code != "config-cache"));
    drop(published);
    stage.start(&Files { lost: true, ..Files::default() });
    assert_eq!(stage.check("bob"), Answer::Denied);
}

/// Its texts mean something else in another language.
#[test]
fn a_cache_of_another_language_is_ignored() {
    let mut stage = Stage::new(OnConfigError::KeepLast, true);
    stage.start(&good());
    stage.stop();
    stage.language = Some(Language::Cel);
    stage.start(&Files { lost: true, ..Files::default() });
    assert_eq!(stage.check("bob"), Answer::Unavailable);
    let published = stage.published();
    let found = published.diagnostics.iter().find(|problem| problem.code == "config-cache");
    let text = "the configuration cache cache is ignored: it was written without ISTIO_LANG, and this server runs \
                with ISTIO_LANG=CEL";
    assert_eq!(found.map(|problem| problem.message.as_str()), Some(text));
    drop(published);
    stage.stop();
    stage.language = None;
    stage.start(&Files { lost: true, ..Files::default() });
    assert_eq!(stage.check("bob"), Answer::Denied, "the same language");
}

/// Rules of the mesh are off if the flag names another namespace, also one in which something is: the cache knows the right one.
#[test]
fn a_cache_of_another_default_namespace_withholds() {
    let mut files = good();
    files.put("/conf/beside.yaml", MANIFEST.replace("istio-system", "shop"));
    for policy in [OnConfigError::KeepLast, OnConfigError::Refuse] {
        let mut stage = Stage::new(policy, true);
        stage.start(&files);
        stage.stop();
        let written = stage.cache.bytes.lock().clone();
        stage.named_namespace = Some("shop".to_owned());
        stage.start(&files);
        assert_eq!(stage.check("bob"), Answer::Unavailable, "{policy:?}");
        let why = "the configuration cache cache is not used: it is of the default namespace istio-system, and this server has \
                   shop; it is not replaced (correct --config-default-namespace; or, if this server has another one now, choose \
                   another --config-cache, or delete the file, and start it again)";
        assert_eq!(stage.published().withheld.as_deref(), Some(why), "{policy:?}");
        let mut changed = files.clone();
        changed.put("/conf/more.yaml", "# A change does not open it either.\n");
        stage.change(&changed);
        assert_eq!(stage.check("bob"), Answer::Unavailable, "{policy:?}");
        assert_eq!(*stage.cache.bytes.lock(), written, "{policy:?}: it is kept");
        stage.named_namespace = None;
        stage.start(&Files { lost: true, ..Files::default() });
        assert_eq!((stage.check("bob"), stage.check("ann")), (Answer::Denied, Answer::Allowed), "{policy:?}");
    }
}

/// What serves stays an edit away from a namespace without resources: only a first configuration is withheld, and with `refuse` any.
#[test]
fn a_default_namespace_without_resources_withholds_a_first_configuration() {
    let namespaced = Files {
        texts: good()
            .texts
            .into_iter()
            .map(|(file, text)| (file, text.replace("istio-system", "shop")))
            .collect(),
        ..Files::default()
    };
    for (named, policy, is_withheld) in [
        ("mesh", OnConfigError::KeepLast, true),
        ("mesh", OnConfigError::Refuse, true),
        ("mesh", OnConfigError::ServeValid, false),
        // Nobody named it: the rules may be meant for their own namespaces.
        ("istio-system", OnConfigError::KeepLast, false),
        ("shop", OnConfigError::KeepLast, false),
    ] {
        let mut stage = Stage::new(policy, false);
        stage.named_namespace = Some(named.to_owned());
        stage.start(&namespaced);
        let published = stage.published();
        let why = published.withheld.as_deref().unwrap_or_default();
        assert_eq!(!why.is_empty(), is_withheld, "{named}, {policy:?}: {why}");
        let told =
            "nothing is in the default namespace `mesh`: no rule applies to the calls of every namespace";
        assert_eq!(why.starts_with(told), is_withheld, "{why}");
        assert_eq!(stage.check("bob") == Answer::Unavailable, is_withheld, "{named}, {policy:?}");
    }
}

#[test]
fn a_start_whose_store_hangs_serves_the_cache() {
    for (policy, uses_cache) in [(OnConfigError::KeepLast, true), (OnConfigError::Refuse, true)] {
        let mut stage = Stage::new(policy, uses_cache);
        stage.start(&good());
        stage.stop();
        assert!(stage.start_hanging(), "{policy:?}");
        assert_eq!((stage.check("bob"), stage.check("ann")), (Answer::Denied, Answer::Allowed), "{policy:?}");
        assert_eq!(stage.kept().len(), 4, "{:?}", stage.kept());
        // The store answers: what is in it serves, without what is not.
        let mut files = good();
        files.put("/conf/deny.yaml", INSTANCE);
        stage.change(&files);
        assert_eq!(
            (stage.kept().len(), stage.check("bob")),
            (2, Answer::Denied),
            "{policy:?}: it may be filled"
        );
        stage.pass(QUIET);
        assert_eq!((stage.kept(), stage.check("bob")), (Vec::new(), Answer::Allowed), "{policy:?}");
    }
}

#[test]
fn a_start_without_cache_waits_for_the_store() {
    for (policy, uses_cache) in [(OnConfigError::KeepLast, true), (OnConfigError::ServeValid, true)] {
        let mut stage = Stage::new(policy, uses_cache);
        if policy == OnConfigError::ServeValid {
            stage.start(&good());
            stage.stop();
        }
        assert!(!stage.start_hanging(), "{policy:?}");
        assert_eq!(stage.check("ann"), Answer::Unavailable, "{policy:?}");
        stage.change(&good());
        assert_eq!(stage.check("bob"), Answer::Denied, "{policy:?}");
    }
}

#[test]
fn handlers_of_a_withheld_configuration_leave_no_task() {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    let mut files = good();
    files.put("/conf/cut.yaml", "kind: [rule");
    for change in 0..10 {
        // It has a task that refreshes the list.
        let list = "providerUrl: 'http://127.0.0.1:1/list', refreshInterval: 1s, ttl: 10s, ";
        let params = format!("params: {{{list}cachingInterval: {}s, ", change + 1);
        files.put("/conf/deny.yaml", deny([&HANDLER.replace("params: {", &params), INSTANCE, RULE]));
        match change {
            0 => stage.start(&files),
            _ => stage.change(&files),
        }
        assert_eq!(stage.check("bob"), Answer::Unavailable);
    }
    assert!(stage.tasks_end(0));
}

#[test]
fn the_reason_of_a_withheld_start_is_the_first_error() {
    let mut files = good();
    let rules =
        [HANDLER, INSTANCE, RULE, &RULE.replace("no-bob", "a-rule").replace("closed-list", "closed-lsit")];
    files.put("/conf/deny.yaml", rules.join("---\n"));
    let unknown = "/conf/deny.yaml:15: a-rule.rule.istio-system: Handler not found: handler='closed-lsit' (did you mean \
                   `closed-list`?)";
    let mut handler = good();
    let misspelt = HANDLER.replace("istio-system}", "istio-system, annotations: {mixer.dev/on-eror: deny}}");
    handler.put("/conf/deny.yaml", deny([&misspelt, INSTANCE, RULE]));
    let annotation = "/conf/deny.yaml:2: closed-list.handler.istio-system: annotation mixer.dev/on-eror is not supported \
                      on a handler (did you mean `mixer.dev/on-error`?)";
    let mut unbuilt = good();
    unbuilt.put(
        "/conf/deny.yaml",
        deny([&HANDLER.replace("params: {", "params: {cachingUseCount: -1, "), INSTANCE, RULE]),
    );
    let mut unread = good();
    unread.put("/conf/more.yaml", "kind: rule\nmetadata: {rule");
    let empty = "the store has no configuration: check the path in --config-store-url, that the names of the files end in .yaml or .yml, and that their resources are of kinds of this server; only if every call is to be allowed, --allow-empty-config serves it";
    for mode in [OnConfigError::KeepLast, OnConfigError::Refuse] {
        let withheld = |files: &Files| {
            let mut stage = Stage::new(mode, false);
            stage.start(files);
            let published = stage.published();
            let found = published.diagnostics.iter().filter(|problem| problem.code == "config-withheld");
            let lines: Vec<_> = found.map(|problem| problem.span.map(|span| span.start.line)).collect();
            let others = published.diagnostics.iter().filter(|problem| problem.code == "config-kept").count();
            assert_eq!((lines.len(), others), (1, 0), "{mode:?}: {:?}", published.diagnostics);
            (published.withheld.as_deref().unwrap_or_default().to_owned(), lines[0])
        };
        assert_eq!(withheld(&files), (unknown.to_owned(), Some(15)), "{mode:?}");
        assert_eq!(withheld(&handler), (annotation.to_owned(), Some(2)), "{mode:?}");
        let (why, _) = withheld(&unbuilt);
        assert!(why.contains("closed-list.handler.istio-system: "), "{mode:?}: {why}");
        let (why, line) = withheld(&unread);
        assert!(why.starts_with("/conf/more.yaml:") && line.is_some(), "{mode:?}: {why}");
        assert_eq!(withheld(&Files::default()), (empty.to_owned(), None), "{mode:?}");
        let lost = Files { lost: true, ..Files::default() };
        assert_eq!(withheld(&lost).0, "open /conf: permission denied", "{mode:?}");
    }
}
