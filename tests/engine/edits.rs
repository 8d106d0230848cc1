//! Random edits with one mistake: whom the configuration before and the one that is meant refuse is refused, and whom both allow is
//! allowed. Mended, what is meant serves.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mixer_config::Severity;
use mixer_engine::runtime::OnConfigError;

use crate::draft::{Draft, MISTAKES, PATH, USERS};
use crate::refill::QUIET;
use crate::schedules::{self, Random};
use crate::stage::{Answer, Files, Stage};

/// Schedules without `MIXER_SCHEDULES`.
const SCHEDULES: u64 = 200;
/// Edits of a schedule.
const STEPS: usize = 4;

/// Makes a file unreadable in some way.
type Hide = fn(&mut Files, String);

/// What hides a file.
const HIDDEN: [(&str, Hide); 3] = [
    ("unreadable", |files, file| files.unreadable.push(file)),
    ("changing", |files, file| files.changing.push(file)),
    ("empty", |files, file| files.put(&file, "")),
];

/// Requests of each user, to a path that rules are about and to none.
const REQUESTS: usize = 2 * USERS.len();

type Answers = [Answer; REQUESTS];

fn answers(stage: &Stage) -> Answers {
    std::array::from_fn(|at| stage.check_at(USERS[at / 2], [None, Some(PATH)][at % 2]))
}

/// What a server answers that starts with these files, if they have no error.
fn meant(fresh: &mut Stage, files: &Files) -> Option<Answers> {
    fresh.start(files);
    let published = fresh.published();
    let has_errors = published.problems(Severity::Error) > 0 || published.withheld.is_some();
    (!has_errors).then(|| answers(fresh))
}

fn run(seed: u64) -> Vec<String> {
    let mut random = Random(seed);
    let mut fresh = Stage::new(OnConfigError::KeepLast, false);
    let mut stage = Stage::new(OnConfigError::KeepLast, true);
    let mut wrong = Vec::new();
    let mut draft = Draft::new(&mut random);
    let mut now = draft.files(&BTreeMap::new());
    let mut trail = String::new();
    if meant(&mut fresh, &now).is_none() {
        return vec![format!("seed {seed}: not valid: {now:#?}")];
    }
    stage.start(&now);
    let mut mistakes: BTreeMap<usize, usize> = BTreeMap::new();
    for _ in 0..STEPS {
        let before = draft.clone();
        let good = answers(&stage);
        let mut names = Vec::new();
        for _ in 0..1 + random.below(3) {
            names.push(draft.edit(&mut random));
        }
        let Some(intended) = meant(&mut fresh, &draft.files(&BTreeMap::new())) else {
            draft = before;
            continue;
        };
        // Old mistakes are mended, or stay.
        mistakes.retain(|_, _| random.below(2) == 0);
        let changed = before.changed(&draft);
        let changed: Vec<usize> = changed.into_iter().filter(|id| draft.text(*id).is_some()).collect();
        let ids = if random.below(5) == 0 || changed.is_empty() { draft.all() } else { changed };
        let (id, mistake) = (ids[random.below(ids.len())], random.below(MISTAKES.len()));
        mistakes.insert(id, mistake);
        mistakes.retain(|id, _| draft.text(*id).is_some());
        let mut allowed = vec![good, intended];
        let mut files = draft.files(&mistakes);
        let file = |id| format!("/conf/{}.yaml", draft.file(id).unwrap_or(0));
        let hidden = HIDDEN.get(random.below(4 * HIDDEN.len()));
        let mut is_certain = true;
        if let Some((_, hide)) = hidden {
            mistakes.clear();
            files = draft.files(&mistakes);
            hide(&mut files, file(id));
            // What is not read leaves the rest as it is written, unless it has an older mistake.
            let mut rest = draft.files(&mistakes);
            rest.put(&file(id), now.texts.get(&file(id)).map_or("", |text| text));
            let rest = meant(&mut fresh, &rest);
            is_certain = rest.is_some();
            allowed.extend(rest);
        }
        let what = hidden.map_or(MISTAKES[mistake].0, |(what, _)| what);
        // The file with the mistake is saved first.
        if hidden.is_none() && random.below(3) == 0 {
            let mut half = now.clone();
            half.put(&file(id), files.texts[&file(id)].as_str());
            let mut without = now.clone();
            without.put(&file(id), draft.files(&BTreeMap::new()).texts[&file(id)].as_str());
            if let Some(also) = meant(&mut fresh, &without) {
                allowed.push(also);
                stage.change(&half);
            }
        }
        stage.change(&files);
        let seen = answers(&stage);
        let _ = writeln!(
            trail,
            "{names:?}, {what} in {}: {good:?} -> {intended:?}, {seen:?}",
            draft.text(id).unwrap_or_default()
        );
        let is_wrong = (0..REQUESTS).any(|at| !allowed.iter().any(|answers| answers[at] == seen[at]));
        if is_wrong && is_certain {
            wrong.push(format!(
                "MIXER_SEED={seed} MIXER_SCHEDULES=1\n{trail}before {now:#?}\nafter {files:#?}\nkept {:#?}",
                stage.kept()
            ));
            return wrong;
        }
        now = files;
        if random.below(6) == 0 {
            stage.start(&now);
            let again = answers(&stage);
            // A restart knows nothing of a file that is not read: more may wait, and nothing less.
            let is_wrong = match hidden {
                None => again != seen,
                Some(_) => (0..REQUESTS).any(|at| !allowed.iter().any(|answers| answers[at] == again[at])),
            };
            if is_wrong && is_certain {
                wrong.push(format!(
                    "MIXER_SEED={seed} MIXER_SCHEDULES=1 restart {seen:?} {again:?}\n{trail}{now:#?}\nkept {:#?}",
                    stage.kept()
                ));
                return wrong;
            }
        }
        if random.below(2) == 0 {
            mistakes.clear();
            now = draft.files(&mistakes);
            stage.change(&now);
            stage.pass(QUIET);
            let (mended, kept) = (answers(&stage), stage.kept());
            if mended != intended || !kept.is_empty() {
                wrong.push(format!("MIXER_SEED={seed}: mended {mended:?} {kept:#?}\n{trail}{now:#?}"));
                return wrong;
            }
        }
    }
    wrong
}

#[test]
fn what_both_configurations_answer_is_answered_whatever_the_mistake() {
    let schedules = schedules::count(SCHEDULES);
    let found = schedules::run(schedules, |seed, wrong: &mut Vec<String>| wrong.extend(run(seed)));
    let wrong: Vec<String> = found.into_iter().flatten().collect();
    let shown: Vec<String> = wrong.iter().take(4).cloned().collect();
    assert!(wrong.is_empty(), "{} of {schedules}: {}", wrong.len(), shown.join("\n"));
}
