//! Random schedules of edits, mistakes, deletions, renames, unreadable files, full disks and restarts, over a virtual clock.
//!
//! No call that the last good configuration denied is allowed, and none that it allowed is denied or fails, unless the text says so
//! that can be read. After every event, the answer to each user is what the last good configuration answers or what the text of the
//! user's rule says; a rule counts as deleted only while every file and document is read. With `refuse` nothing changes while there is
//! an error. When everything is valid, the answer is what the text says, and nothing is kept.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mixer_config::Severity;
use mixer_engine::runtime::OnConfigError;

use crate::refill::QUIET;
use crate::schedules::{self, Random};
use crate::stage::{Answer, Files, Stage};
use crate::world::{Consequence, USERS, World};

/// Schedules without `MIXER_SCHEDULES`: as many as reach every state.
const SCHEDULES: u64 = 300;
/// Events of a schedule; after the last one everything is mended.
const EVENTS: usize = 12;

/// States that schedules are meant to reach.
const STATES: [&str; 14] = [
    "a resource serves in its previous version",
    "a mistake would have opened a door",
    "a mistake would have closed a door",
    "a deletion waits until everything is read",
    "a rule is deleted for real",
    "a rule is expected back",
    "a rule did not come back",
    "a text opens a door",
    "a text closes a door",
    "a first configuration is withheld",
    "a first configuration serves",
    "a restart serves the cache instead of what is broken",
    "a restart without a cache, because the last configuration could not be written",
    "everything is valid again",
];

/// How often events happened and states were reached.
#[derive(Default)]
struct Tally {
    events: BTreeMap<&'static str, u64>,
    states: BTreeMap<&'static str, u64>,
}

impl Tally {
    fn reach(&mut self, state: &'static str) {
        debug_assert!(STATES.contains(&state), "{state}");
        *self.states.entry(state).or_default() += 1;
    }

    fn add(&mut self, other: Self) {
        let into = |into: &mut BTreeMap<_, u64>, from: BTreeMap<_, u64>| {
            from.into_iter().for_each(|(name, count)| *into.entry(name).or_default() += count);
        };
        into(&mut self.events, other.events);
        into(&mut self.states, other.states);
    }
}

/// A schedule under way.
struct Run {
    seed: u64,
    policy: OnConfigError,
    stage: Stage,
    world: World,
    /// What the last good configuration answers; `None` if there is none.
    good: Option<Vec<Answer>>,
    /// What the configuration in the cache answers.
    cached: Option<Vec<Answer>>,
    /// The events, with the answers that followed.
    trail: Vec<(&'static str, Vec<Answer>)>,
}

impl Run {
    fn new(seed: u64, random: &mut Random) -> Self {
        let policy = if seed % 5 == 4 { OnConfigError::Refuse } else { OnConfigError::KeepLast };
        let (mut world, mut stage) = (World::new(random), Stage::new(policy, true));
        world.note_read(true);
        stage.start(&world.files());
        let mut run = Self { seed, policy, stage, world, good: None, cached: None, trail: Vec::new() };
        let answers = run.answers();
        run.remember("start", answers);
        run
    }

    fn answers(&self) -> Vec<Answer> {
        (0..USERS).map(|user| self.stage.check(&format!("u{user}"))).collect()
    }

    /// Notes what serves now.
    fn remember(&mut self, event: &'static str, answers: Vec<Answer>) {
        let serves = !answers.contains(&Answer::Unavailable);
        if serves && self.stage.cache.take_written() {
            self.cached = Some(answers.clone());
        }
        if self.stage.cache.bytes.lock().is_none() {
            self.cached = None;
        }
        if let (true, Some(cached)) = (serves, &self.cached) {
            assert!(
                *cached == answers,
                "the cache is older than what serves: {cached:?}\n{}",
                self.place(event, &self.world.files(), &answers)
            );
        }
        self.good = serves.then(|| answers.clone());
        self.trail.push((event, answers));
    }

    fn step(&mut self, random: &mut Random, is_last: bool, tally: &mut Tally) {
        self.stage.advance(1 + random.below(1000) as u64);
        // A directory that is being filled changes quickly, or pauses.
        if !self.world.is_refilled() || random.below(4) == 0 {
            self.stage.pass(QUIET);
            self.world.was_quiet();
            let (files, after) = (self.world.files(), self.answers());
            self.judge("quiet", &files, &after);
            self.count(false, &after, tally);
            self.remember("quiet", after);
        }
        let (event, consequence) = self.world.event(random);
        *tally.events.entry(event).or_default() += 1;
        if is_last {
            self.world.mend(random);
        }
        let files = self.world.files();
        let is_restart = match consequence {
            Consequence::Change => false,
            Consequence::CacheDisk => {
                self.stage.cache.toggle_full();
                false
            }
            Consequence::Restart(in_order) | Consequence::RestartWithoutCache(in_order) => {
                match in_order {
                    true => self.stage.stop(),
                    false => self.stage.kill(),
                }
                // What serves may have been written since the last event: the disk is free again.
                if self.good.is_some() && self.stage.cache.take_written() {
                    self.cached.clone_from(&self.good);
                }
                if matches!(consequence, Consequence::RestartWithoutCache(_)) {
                    self.stage.cache.clear();
                    self.cached = None;
                } else if self.cached.is_none() && self.good.is_some() {
                    tally.reach(
                        "a restart without a cache, because the last configuration could not be written",
                    );
                }
                self.good.clone_from(&self.cached);
                true
            }
        };
        self.world.note_read(is_restart);
        match is_restart {
            true => {
                self.stage.start(&files);
                self.world.was_restarted();
            }
            false => self.stage.change(&files),
        }
        if self.world.is_valid() {
            self.stage.pass(QUIET);
            self.world.was_quiet();
        }
        let after = self.answers();
        self.judge(event, &files, &after);
        self.count(is_restart, &after, tally);
        self.remember(event, after);
    }

    /// Asserts that the answers after an event are right.
    fn judge(&self, event: &str, files: &Files, after: &[Answer]) {
        let is_valid = self.world.is_valid();
        let serves = !after.contains(&Answer::Unavailable);
        assert!(!after.contains(&Answer::Failed), "a call fails\n{}", self.place(event, files, after));
        assert!(
            serves || after.iter().all(|answer| *answer == Answer::Unavailable),
            "some calls are answered\n{}",
            self.place(event, files, after)
        );
        if self.good.is_some() || is_valid {
            assert!(serves, "no configuration is served\n{}", self.place(event, files, after));
        }
        if !serves {
            return;
        }
        for (user, answer) in after.iter().enumerate() {
            let says = self.world.says(user);
            let expected = match &self.good {
                _ if is_valid => says.into_iter().collect(),
                Some(good) if self.policy == OnConfigError::Refuse && self.world.is_refused() => {
                    vec![good[user]]
                }
                Some(good) => [good[user]].into_iter().chain(says).chain(self.world.said(user)).collect(),
                None => self.world.says_at_first(user),
            };
            assert!(
                expected.contains(answer),
                "u{user} is {answer:?}, expected {expected:?}\n{}",
                self.place(event, files, after)
            );
        }
        if is_valid {
            let published = self.stage.published();
            let errors = published.diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
            assert!(
                published.kept.is_empty() && errors == 0,
                "everything is valid\n{}",
                self.place(event, files, after)
            );
        }
    }

    fn count(&self, is_restart: bool, after: &[Answer], tally: &mut Tally) {
        let published = self.stage.published();
        let keeps = !published.kept.is_empty();
        if keeps {
            tally.reach("a resource serves in its previous version");
        }
        if self.world.is_valid() {
            tally.reach("everything is valid again");
        }
        let Some(good) = &self.good else {
            return tally.reach(match published.withheld {
                Some(_) => "a first configuration is withheld",
                None => "a first configuration serves",
            });
        };
        if is_restart && keeps {
            tally.reach("a restart serves the cache instead of what is broken");
        }
        for (user, answer) in after.iter().enumerate() {
            let says = self.world.says(user);
            match (good[user], *answer) {
                (Answer::Denied, Answer::Denied) if self.world.is_expected(user) => {
                    tally.reach("a rule is expected back");
                }
                (Answer::Denied, Answer::Allowed) if self.world.is_away(user) => {
                    tally.reach("a rule did not come back");
                }
                (Answer::Denied, Answer::Denied) if self.world.is_deleted(user) => {
                    tally.reach("a deletion waits until everything is read");
                }
                (Answer::Denied, Answer::Denied) if says.is_none() => {
                    tally.reach("a mistake would have opened a door");
                }
                (Answer::Allowed, Answer::Allowed) if says.is_none() => {
                    tally.reach("a mistake would have closed a door");
                }
                (Answer::Denied, Answer::Allowed) if self.world.is_deleted(user) => {
                    tally.reach("a rule is deleted for real");
                }
                (Answer::Denied, Answer::Allowed) => tally.reach("a text opens a door"),
                (Answer::Allowed, Answer::Denied) => tally.reach("a text closes a door"),
                _ => {}
            }
        }
    }

    /// Everything that a failure needs to be understood.
    fn place(&self, event: &str, files: &Files, after: &[Answer]) -> String {
        let mut text = format!("MIXER_SEED={} MIXER_SCHEDULES=1, {:?}\n", self.seed, self.policy);
        for (event, answers) in &self.trail {
            let _ = writeln!(text, "{event}: {answers:?}");
        }
        let published = self.stage.published();
        let _ = writeln!(text, "{event}: {after:?}\ngood {:?}, cached {:?}", self.good, self.cached);
        let _ = writeln!(text, "{:#?}\n{files:#?}\nkept {:#?}", self.world, self.stage.kept());
        let _ = writeln!(text, "withheld {:?}", published.withheld);
        for problem in &published.diagnostics {
            let _ = writeln!(text, "{:?} {} {}", problem.severity, problem.code, problem.message);
        }
        text
    }
}

fn run(seed: u64, tally: &mut Tally) {
    let mut random = Random(seed);
    let mut run = Run::new(seed, &mut random);
    for step in 0..EVENTS {
        run.step(&mut random, step + 1 == EVENTS, tally);
    }
}

#[test]
fn no_schedule_of_mistakes_opens_a_door_or_closes_one() {
    let schedules = schedules::count(SCHEDULES);
    let mut tally = Tally::default();
    schedules::run(schedules, run).into_iter().for_each(|counted| tally.add(counted));
    println!("{schedules} schedules, {} events", tally.events.values().sum::<u64>());
    for (name, count) in tally.events.iter().chain(&tally.states) {
        println!("{count:>9} {name}");
    }
    if schedules >= SCHEDULES {
        let missing: Vec<_> = STATES.iter().filter(|state| !tally.states.contains_key(*state)).collect();
        assert!(missing.is_empty(), "never reached: {missing:?}");
    }
}
