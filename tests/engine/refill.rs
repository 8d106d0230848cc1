//! A directory that was emptied and is filled again, slowly.

use std::time::Duration;

use mixer_engine::runtime::OnConfigError;

use crate::refusal::{BESIDE, HANDLER, INSTANCE, MANIFEST, RULE, deny, good};
use crate::stage::{Answer, Files, Stage};

/// Longer than a directory that was empty is expected to change again.
pub(crate) const QUIET: Duration = Duration::from_secs(6);

/// The first file of [`good`].
fn first() -> Files {
    let mut files = Files::default();
    files.put("/conf/words.yaml", MANIFEST);
    files
}

#[test]
fn a_directory_that_is_filled_again_opens_nothing() {
    for policy in [OnConfigError::KeepLast, OnConfigError::Refuse] {
        for lost in [false, true] {
            let mut stage = Stage::new(policy, false);
            stage.start(&good());
            let gone = if lost { Files { lost: true, ..good() } } else { Files::default() };
            stage.change(&gone);
            stage.pass(QUIET);
            assert_eq!(stage.check("bob"), Answer::Denied);
            stage.change(&first());
            let why = "no-bob.rule.istio-system: the configuration was empty, and is being filled again; it counts as \
                       deleted when nothing changed for 5 s, or after 300 s";
            let kept = stage.kept();
            assert!(kept.len() == 3 && kept.contains(&why.to_owned()), "{policy:?} {lost}: {kept:?}");
            // Each change starts the time anew; what refuses more serves.
            let mut condition = "(source.user | \"\") == \"carol\"".to_owned();
            for user in ["carol", "dave", "erin"] {
                stage.pass(Duration::from_secs(3));
                assert_eq!(stage.check("bob"), Answer::Denied, "{policy:?} {lost}");
                let mut files = first();
                condition += &format!(" || (source.user | \"\") == \"{user}\"");
                files.put(
                    "/conf/beside.yaml",
                    BESIDE.replace("(source.user | \"\") == \"carol\"", &condition),
                );
                stage.change(&files);
                assert_eq!(stage.check(user), Answer::Denied, "{policy:?} {lost}");
            }
            // What refuses less waits for what may still come.
            let mut files = first();
            files.put("/conf/beside.yaml", BESIDE);
            stage.change(&files);
            let keeps = policy == OnConfigError::KeepLast;
            assert_eq!(stage.check("dave") == Answer::Denied, keeps, "{policy:?} {lost}: {:?}", stage.kept());
            let mut files = good();
            files.put("/conf/beside.yaml", BESIDE);
            stage.change(&files);
            assert_eq!((stage.check("bob"), stage.kept()), (Answer::Denied, Vec::new()), "{policy:?} {lost}");
            // Later, deletions take effect at once.
            stage.pass(QUIET);
            stage.change(&first());
            assert_eq!(
                (stage.check("bob"), stage.kept()),
                (Answer::Allowed, Vec::new()),
                "{policy:?} {lost}"
            );
        }
    }
}

#[test]
fn a_first_configuration_does_not_serve_while_its_directory_is_filled() {
    for policy in [OnConfigError::KeepLast, OnConfigError::Refuse] {
        for lost in [false, true] {
            let mut stage = Stage::new(policy, false);
            stage.start(&Files { lost, ..Files::default() });
            assert_eq!(stage.check("bob"), Answer::Unavailable);
            stage.pass(QUIET * 100);
            stage.change(&first());
            assert_eq!(stage.check("bob"), Answer::Unavailable, "{policy:?} {lost}");
            let why = stage.published().withheld.clone().unwrap();
            assert_eq!(
                &*why,
                "the configuration was empty or not read yet, and may still be being filled: it serves when nothing has changed for 5 s, or after 300 s"
            );
            stage.pass(Duration::from_secs(3));
            stage.change(&good());
            stage.pass(Duration::from_secs(3));
            assert_eq!(stage.check("bob"), Answer::Unavailable, "each change starts the time anew");
            stage.pass(Duration::from_secs(3));
            assert_eq!(stage.check("bob"), Answer::Denied, "{policy:?} {lost}");
            // Later, changes take effect at once.
            stage.change(&first());
            assert_eq!(stage.check("bob"), Answer::Allowed, "{policy:?} {lost}");
        }
    }
}

/// As Istio Mixer does, and where an empty configuration is meant.
#[test]
fn a_first_configuration_serves_at_once_where_an_empty_one_serves() {
    for (policy, allow_empty) in [(OnConfigError::ServeValid, false), (OnConfigError::KeepLast, true)] {
        let mut stage = Stage::new(policy, false);
        stage.allow_empty = allow_empty;
        stage.start(&Files::default());
        assert_eq!(stage.check("bob"), Answer::Allowed);
        stage.change(&good());
        assert_eq!(stage.check("bob"), Answer::Denied, "{policy:?}");
    }
}

#[test]
fn what_does_not_come_back_counts_as_deleted() {
    let mut stage = Stage::new(OnConfigError::KeepLast, true);
    stage.start(&good());
    stage.change(&Files::default());
    // However long it is empty.
    stage.pass(QUIET * 100);
    stage.change(&first());
    stage.pass(Duration::from_secs(4));
    assert_eq!((stage.check("bob"), stage.kept().len()), (Answer::Denied, 3));
    stage.pass(Duration::from_secs(2));
    assert_eq!((stage.check("bob"), stage.kept()), (Answer::Allowed, Vec::new()));
    // As a restart with the cache does, whose directory was empty.
    stage.change(&good());
    stage.stop();
    stage.start(&Files::default());
    stage.change(&first());
    assert_eq!((stage.check("bob"), stage.kept().len()), (Answer::Denied, 3));
    stage.pass(QUIET);
    assert_eq!((stage.check("bob"), stage.kept()), (Answer::Allowed, Vec::new()));
}

/// A process that starts while the directory is being filled cannot tell what is missing from what was deleted.
#[test]
fn a_restart_with_a_cache_while_the_directory_is_filled_opens_nothing() {
    for policy in [OnConfigError::KeepLast, OnConfigError::Refuse] {
        let mut stage = Stage::new(policy, true);
        stage.start(&good());
        stage.stop();
        stage.start(&first());
        assert_eq!((stage.check("bob"), stage.kept().len()), (Answer::Denied, 3), "{policy:?}");
        // What was removed before the start may be the beginning of an emptying.
        stage.pass(Duration::from_secs(3));
        stage.change(&Files::default());
        stage.pass(QUIET);
        assert_eq!(stage.check("bob"), Answer::Denied, "{policy:?}");
        stage.change(&first());
        assert_eq!((stage.check("bob"), stage.kept().len()), (Answer::Denied, 3), "{policy:?}");
        stage.pass(QUIET);
        assert_eq!((stage.check("bob"), stage.kept()), (Answer::Allowed, Vec::new()), "{policy:?}");
    }
}

/// A rule was deleted while the server was down for long, and the directory is being filled when it starts: nobody can tell the two apart, so that all of it
/// stays until the directory is quiet, and what was deleted goes then.
#[test]
fn after_a_long_downtime_a_slow_directory_loses_only_what_was_deleted() {
    for policy in [OnConfigError::KeepLast, OnConfigError::Refuse] {
        // Also in a server that runs, whose directory was emptied: the same state.
        for is_down in [true, false] {
            let mut stage = Stage::new(policy, true);
            let mut all = good();
            all.put("/conf/beside.yaml", BESIDE);
            stage.start(&all);
            assert_eq!(
                ["ann", "bob", "carol"].map(|user| stage.check(user)),
                [Answer::Allowed, Answer::Denied, Answer::Denied]
            );
            let gone = || format!("{policy:?}, down: {is_down}");
            match is_down {
                true => {
                    stage.stop();
                    stage.advance(90 * 24 * 3600);
                    stage.start(&first());
                }
                false => {
                    stage.change(&Files::default());
                    stage.pass(QUIET * 1000);
                    stage.change(&first());
                }
            }
            // A file every four seconds; what denies carol was deleted.
            let mut files = first();
            for number in 0..5 {
                stage.pass(Duration::from_secs(4));
                let answers = ["ann", "bob", "carol"].map(|user| stage.check(user));
                assert_eq!(answers, [Answer::Allowed, Answer::Denied, Answer::Denied], "{} {number}", gone());
                files.put(
                    &format!("/conf/{number}.yaml"),
                    format!("# {number}\n---\n{}", BESIDE.replace("carol", &format!("user-{number}"))),
                );
                stage.change(&files);
                assert_eq!(stage.check(&format!("user-{number}")), Answer::Denied, "{} {number}", gone());
            }
            files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, RULE]));
            stage.change(&files);
            stage.pass(Duration::from_secs(4));
            assert_eq!(
                (stage.check("bob"), stage.check("carol")),
                (Answer::Denied, Answer::Denied),
                "{}",
                gone()
            );
            stage.pass(Duration::from_secs(2));
            assert_eq!(
                (stage.check("bob"), stage.check("carol")),
                (Answer::Denied, Answer::Allowed),
                "{}",
                gone()
            );
            assert_eq!(stage.kept(), Vec::<String>::new(), "{}", gone());
            // What was deleted does not come back with the next start.
            stage.stop();
            stage.start(&files);
            assert_eq!((stage.check("carol"), stage.kept()), (Answer::Allowed, Vec::new()), "{}", gone());
        }
    }
}

#[test]
fn a_restart_whose_directory_is_complete_deletes_at_once() {
    let mut stage = Stage::new(OnConfigError::KeepLast, true);
    stage.start(&good());
    stage.stop();
    stage.start(&good());
    stage.change(&first());
    assert_eq!((stage.check("bob"), stage.kept()), (Answer::Allowed, Vec::new()));
    // Without a cache a start knows nothing that could be missing.
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    stage.start(&first());
    assert_eq!((stage.check("bob"), stage.kept()), (Answer::Allowed, Vec::new()));
}

/// The mount point of a volume that is mounted later is empty at a start, or has no configuration.
#[test]
fn a_restart_deletes_nothing_of_a_directory_that_is_empty() {
    let directory = || vec!["/conf/sub".to_owned()];
    let empty = Files { always_empty: directory(), ..first() };
    let bare = Files { always_bare: directory(), ..first() };
    let cases = [
        (empty, "/conf/sub is empty since the start"),
        (bare, "/conf/sub has no configuration since the start"),
    ];
    for (policy, (unmounted, why)) in [OnConfigError::KeepLast, OnConfigError::Refuse]
        .into_iter()
        .flat_map(|policy| cases.clone().map(|case| (policy, case)))
    {
        let mut mounted = first();
        mounted.put("/conf/sub/deny.yaml", deny([HANDLER, INSTANCE, RULE]));
        let mut stage = Stage::new(policy, true);
        stage.start(&mounted);
        for _ in 0..2 {
            stage.stop();
            stage.start(&unmounted);
            stage.pass(QUIET * 100);
            let kept = stage.kept();
            let is_told = kept.iter().any(|kept| kept.contains(why));
            assert!(stage.check("bob") == Answer::Denied && is_told, "{policy:?}: {kept:?}");
            let mut problems = stage.published().diagnostics.clone();
            problems.retain(|problem| problem.code == "store-unmounted");
            assert_eq!(problems.len(), 1, "{policy:?}");
        }
        stage.change(&mounted);
        assert_eq!((stage.check("bob"), stage.kept()), (Answer::Denied, Vec::new()), "{policy:?}");
        // A directory that is gone was deleted with its files.
        stage.stop();
        stage.start(&unmounted);
        stage.pass(QUIET);
        assert_eq!(stage.check("bob"), Answer::Denied, "{policy:?}");
        stage.change(&first());
        assert_eq!((stage.check("bob"), stage.kept()), (Answer::Allowed, Vec::new()), "{policy:?}");
        // Nothing is known of an empty directory.
        stage.stop();
        stage.start(&unmounted);
        assert_eq!((stage.check("bob"), stage.kept()), (Answer::Allowed, Vec::new()), "{policy:?}");
    }
}

/// Such as those of `.git`. A change that looked at all resources for each directory would take minutes.
#[test]
fn directories_without_configuration_do_not_hold_up_a_change() {
    let bare = (0..200_000).map(|number| format!("/conf/.git/objects/{number}")).collect();
    let mut files = Files { always_bare: bare, ..first() };
    let other =
        |number| INSTANCE.replacen("metadata: {name: ", &format!("metadata: {{name: other-{number}-"), 1);
    let others: Vec<String> = (0..1_000).map(other).collect();
    files.put("/conf/others.yaml", others.join("---\n"));
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    stage.start(&files);
    assert_eq!(stage.check("bob"), Answer::Allowed);
    files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, RULE]));
    stage.change(&files);
    assert_eq!((stage.check("bob"), stage.kept()), (Answer::Denied, Vec::new()));
}

/// Edits of other files do not hold what is missing for ever.
#[test]
fn what_is_missing_from_a_busy_directory_counts_as_deleted_in_the_end() {
    for with_cache in [false, true] {
        let mut stage = Stage::new(OnConfigError::KeepLast, with_cache);
        stage.start(&good());
        if with_cache {
            stage.stop();
        } else {
            stage.change(&Files::default());
        }
        let mut files = first();
        match with_cache {
            true => stage.start(&files),
            false => stage.change(&files),
        }
        let (step, limit) = (4, 300);
        for passed in (step..=limit + step).step_by(step) {
            stage.pass(Duration::from_secs(step as u64));
            files.put("/conf/beside.yaml", BESIDE.replace("\"carol\"", &format!("\"user-{passed}\"")));
            stage.change(&files);
            let expected = if passed < limit { Answer::Denied } else { Answer::Allowed };
            assert_eq!(stage.check("bob"), expected, "after {passed} s, cache: {with_cache}");
        }
        assert_eq!(stage.kept(), Vec::<String>::new());
    }
}

#[test]
fn with_serve_valid_an_empty_directory_is_empty() {
    let mut stage = Stage::new(OnConfigError::ServeValid, false);
    stage.start(&good());
    stage.change(&Files::default());
    assert_eq!(stage.check("bob"), Answer::Allowed);
    let mut files = first();
    files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, RULE]));
    stage.change(&files);
    assert_eq!((stage.check("bob"), stage.kept()), (Answer::Denied, Vec::new()));
}

/// Files with comments alone.
#[test]
fn what_changes_no_resource_starts_the_time_anew() {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    stage.start(&good());
    stage.change(&Files::default());
    stage.change(&first());
    for _ in 0..4 {
        stage.pass(Duration::from_secs(3));
        assert_eq!(stage.check("bob"), Answer::Denied);
        stage.touch();
    }
    stage.pass(Duration::from_secs(4));
    assert_eq!((stage.check("bob"), stage.kept().len()), (Answer::Denied, 3));
    stage.pass(Duration::from_secs(2));
    assert_eq!((stage.check("bob"), stage.kept()), (Answer::Allowed, Vec::new()));
}

/// It may have been started again, and still be reading its files.
#[test]
fn what_a_source_lacks_that_was_connected_again_may_still_come() {
    for policy in [OnConfigError::KeepLast, OnConfigError::Refuse] {
        let mut stage = Stage::new(policy, false);
        stage.start(&good());
        stage.change(&Files { lapses: 1, ..first() });
        let why = "no-bob.rule.istio-system: the source was connected again, and had less than before: it may still be reading its \
                   configuration; it counts as deleted when nothing changed for 5 s, or after 300 s";
        let kept = stage.kept();
        assert!(kept.len() == 3 && kept.contains(&why.to_owned()), "{policy:?}: {kept:?}");
        stage.pass(Duration::from_secs(4));
        assert_eq!(stage.check("bob"), Answer::Denied, "{policy:?}");
        // All is there again, and later deletions take effect at once.
        stage.change(&Files { lapses: 2, ..good() });
        assert_eq!((stage.check("bob"), stage.kept()), (Answer::Denied, Vec::new()), "{policy:?}");
        stage.pass(QUIET);
        stage.change(&Files { lapses: 2, ..first() });
        assert_eq!((stage.check("bob"), stage.kept()), (Answer::Allowed, Vec::new()), "{policy:?}");
        // What does not come back was deleted.
        stage.change(&Files { lapses: 2, ..good() });
        stage.change(&Files { lapses: 3, ..first() });
        stage.pass(Duration::from_secs(4));
        assert_eq!(stage.check("bob"), Answer::Denied, "{policy:?}");
        stage.pass(Duration::from_secs(2));
        assert_eq!((stage.check("bob"), stage.kept()), (Answer::Allowed, Vec::new()), "{policy:?}");
    }
}
