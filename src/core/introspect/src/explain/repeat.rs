//! Whether an explanation repeats a recorded refusal.

use std::borrow::Cow;

use maud::{Markup, html};

use super::super::format;
use super::lines::line;
use mixer_base::log::escaped;
use mixer_engine::denials::{Denial, DenialKind};
use mixer_engine::explain::Explanation;

/// Most names in a sentence.
const NAMED: usize = 8;

/// A refusal whose attributes are explained.
pub(super) enum Repeat {
    /// It is recorded.
    Recorded(Recorded),
    /// It was recorded: what its attributes lacked is no longer known.
    Gone(u64),
}

/// A recorded refusal, and what the form has of its attributes.
pub(super) struct Recorded {
    denial: Denial,
    /// Those that are as they were recorded, cut or masked.
    lost: Vec<String>,
}

impl Repeat {
    /// The refusal with the number `asked`, as far as it is still recorded. `text` has the attributes of the form; those that are written anew are
    /// not lost.
    pub(super) fn of(asked: Option<u64>, denial: Option<Denial>, text: &str) -> Option<Self> {
        let Some(denial) = denial else { return asked.map(Self::Gone) };
        let is_lost = |name: &String| denial.cut.contains(name) || denial.masked.contains(name);
        let as_recorded = |name: &str, value: &str| {
            let line = line(name, value);
            text.lines().any(|known| known.trim() == line.trim())
        };
        let recorded = denial.attributes.iter().flatten().filter(|(name, _)| is_lost(name));
        let lost = recorded.filter(|(name, value)| as_recorded(name, value)).map(|(name, _)| name.clone());
        let lost = lost.collect();
        Some(Self::Recorded(Recorded { denial, lost }))
    }

    /// The number of the refusal.
    pub(super) fn id(&self) -> u64 {
        match self {
            Self::Recorded(Recorded { denial, .. }) => denial.id,
            Self::Gone(id) => *id,
        }
    }

    /// What is said of the attributes in the form.
    pub(super) fn notice(&self) -> Markup {
        let Self::Recorded(Recorded { denial, .. }) = self else {
            return html! { p.notice.warn { "Refusal " (self.id()) " is no longer recorded." } };
        };
        let sentences = lacks(denial);
        html! {
            p.notice {
                "These are the attributes of refusal " (denial.id) "." (format::message(&escaped(&sentences)))
                @if !sentences.is_empty() { " Write the values in before you explain it, if rules read them." }
            }
        }
    }

    /// What is said of an evaluation that allows, instead of that: why it does not repeat the refusal. `None` if nothing is known that would make it
    /// another one.
    pub(super) fn not_repeated(&self, explanation: &Explanation) -> Option<String> {
        let Self::Recorded(Recorded { denial, .. }) = self else {
            return Some("its record is gone, and so is what was cut or masked in it".to_owned());
        };
        match denial.kind {
            DenialKind::Server => Some(format!("no rule refused it, the server did: {}", denial.message)),
            DenialKind::Quota => {
                Some(format!("the quota `{}` refused it, and quotas are left out here", denial.by))
            }
            DenialKind::Rule | DenialKind::Limit => self.unknown(explanation),
        }
    }

    /// What is said of an evaluation that something else refuses than what the record names. `None` if both are the same, or the record is gone.
    pub(super) fn other_refuser(&self, explanation: &Explanation) -> Option<String> {
        let Self::Recorded(Recorded { denial, .. }) = self else { return None };
        let recorded = match denial.kind {
            DenialKind::Rule if explanation.decision.refused_by.as_ref() == Some(&denial.by) => return None,
            DenialKind::Rule => format!("The record names rule `{}`", denial.by),
            DenialKind::Limit => format!("The record names the limit `{}`", denial.by),
            // What failed for the server fails again.
            DenialKind::Server if explanation.decision.refused_by.is_none() => return None,
            DenialKind::Quota | DenialKind::Server => {
                return self
                    .not_repeated(explanation)
                    .map(|why| format!("The record names another reason: {why}."));
            }
        };
        let why = self.unknown(explanation).map(|why| format!(": {why}")).unwrap_or_default();
        let is_changed = denial.snapshot != explanation.snapshot;
        let since = match is_changed {
            true => format!(
                " The configuration has changed since: it was snapshot {}, and is {}.",
                denial.snapshot, explanation.snapshot
            ),
            false => String::new(),
        };
        Some(format!("{recorded}, which is not what refuses the attributes in the form{why}.{since}"))
    }

    /// What the evaluation has read although the record lacks it.
    fn unknown(&self, explanation: &Explanation) -> Option<String> {
        let Self::Recorded(Recorded { denial, lost }) = self else { return None };
        let read: Vec<(Cow<'_, str>, bool)> =
            explanation.referenced.iter().map(|text| read_of(text)).collect();
        let is_read = |name: &&String| read.iter().any(|(one, _)| one == name.as_str());
        let of = |names: &[String]| -> Vec<String> {
            lost.iter().filter(|name| names.contains(name)).filter(is_read).cloned().collect()
        };
        let (cut, masked) = (of(&denial.cut), of(&denial.masked));
        let absent = read.iter().filter(|(_, is_there)| !is_there).map(|(name, _)| name.to_string());
        let missing: Vec<String> =
            if denial.left_out > 0 || denial.attributes.is_none() { absent.collect() } else { Vec::new() };
        let parts = [
            (cut, "is recorded in part"),
            (masked, "is masked in the record"),
            (missing, "may be among what is not recorded"),
        ];
        let said: Vec<String> = parts
            .iter()
            .filter(|(names, _)| !names.is_empty())
            .map(|(names, what)| format!("{} {what}", list(names)))
            .collect();
        (!said.is_empty()).then(|| format!("rules read what the record lacks: {}", said.join("; ")))
    }
}

/// What a record lacks: sentences, each with a blank before it.
pub(in super::super) fn lacks(denial: &Denial) -> String {
    let mut said = String::new();
    for (what, names) in [("Recorded in part", &denial.cut), ("Masked", &denial.masked)] {
        if !names.is_empty() {
            said.push_str(&format!(" {what}: {}.", list(names)));
        }
    }
    match denial.left_out {
        0 => {}
        1 => said.push_str(" 1 more attribute is not recorded."),
        count => said.push_str(&format!(" {count} more attributes are not recorded.")),
    }
    said
}

/// The first names of a list.
fn list(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(NAMED).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(NAMED) {
        0 => shown.join(", "),
        others => format!("{} and {others} more", shown.join(", ")),
    }
}

/// A referenced attribute, `name[::key] CONDITION`, as the form has it, and whether it was there.
fn read_of(text: &str) -> (Cow<'_, str>, bool) {
    let (read, condition) = text.rsplit_once(' ').unwrap_or((text, ""));
    let name = match read.split_once("::") {
        Some((name, key)) => Cow::Owned(format!("{name}[{key}]")),
        None => Cow::Borrowed(read),
    };
    (name, condition == "EXACT")
}
