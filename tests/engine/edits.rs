//! Random edits with one mistake: whom the configuration before and the one that is meant refuse is refused, and whom both allow is
//! allowed. Mended, what is meant serves.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mixer_config::Severity;
use mixer_engine::runtime::OnConfigError;

use crate::draft::{Draft, MISTAKES, USERS};
use crate::refill::QUIET;
use crate::schedules::{self, Random};
use crate::stage::{Answer, Files, Stage};

/// Schedules without `MIXER_SCHEDULES`.
const SCHEDULES: u64 = 200;
/// Edits of a schedule.
const STEPS: usize = 4;

type Answers = [Answer; USERS.len()];

fn answers(stage: &Stage) -> Answers {
    USERS.map(|user| stage.check(user))
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
        let hide = random.below(12);
        if hide < 3 {
            mistakes.clear();
            files = draft.files(&mistakes);
        }
        let hidden = match hide {
            0 => {
                files.unreadable.push(file(id));
                "unreadable"
            }
            1 => {
                files.changing.push(file(id));
                "changing"
            }
            2 => {
                files.put(&file(id), "");
                "empty"
            }
            _ => "",
        };
        // What is not read leaves the rest as it is written.
        if !hidden.is_empty() {
            let mut rest = draft.files(&BTreeMap::new());
            rest.put(&file(id), now.texts.get(&file(id)).map_or("", |text| text));
            allowed.extend(meant(&mut fresh, &rest));
        }
        let what = if hidden.is_empty() { MISTAKES[mistake].0 } else { hidden };
        // The file with the mistake is saved first.
        if hidden.is_empty() && random.below(3) == 0 {
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
        let is_wrong =
            (0..USERS.len()).any(|user| !allowed.iter().any(|answers| answers[user] == seen[user]));
        if is_wrong {
            let opens = (0..USERS.len()).any(|user| {
                seen[user] == Answer::Allowed && allowed.iter().all(|answers| answers[user] == Answer::Denied)
            });
            wrong.push(format!(
                "{} MIXER_SEED={seed} MIXER_SCHEDULES=1\n{trail}before {now:#?}\nafter {files:#?}\nkept {:#?}",
                if opens { "OPENS" } else { "CLOSES" },
                stage.kept(),
            ));
            return wrong;
        }
        now = files;
        if random.below(6) == 0 {
            stage.start(&now);
            let again = answers(&stage);
            if again != seen {
                wrong.push(format!("MIXER_SEED={seed} restart {seen:?} {again:?} {trail}{now:#?}"));
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
    let mut wrong: Vec<String> = found.into_iter().flatten().collect();
    wrong.sort_by_key(|text| !text.starts_with("OPENS"));
    let opens = wrong.iter().filter(|text| text.starts_with("OPENS")).count();
    println!("{opens} open");
    let shown: Vec<String> = wrong.iter().take(4).cloned().collect();
    assert!(wrong.is_empty(), "{} of {schedules}: {}", wrong.len(), shown.join("\n"));
}
