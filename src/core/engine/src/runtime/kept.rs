//! Resources that do not serve as the store has them, and why.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::HashMap;

use mixer_attribute::Timestamp;
use mixer_config::{Diagnostic, Diagnostics, FieldPath, Location, Origin, RawResource, ResourceKey, Span};

/// The diagnostic of resources that do not serve as the store has them.
pub(super) const KEPT: &str = "config-kept";

/// The number of resources that a diagnostic about several names.
const NAMED: usize = 3;

/// Why a resource does not serve as the store has it.
#[derive(Debug, Clone)]
pub(super) struct Reason {
    /// One line, about this resource.
    pub(super) why: String,
    /// What concerns other resources as well.
    pub(super) common: Option<CommonCause>,
    /// The error behind it.
    pub(super) problem: Option<Arc<Diagnostic>>,
}

impl Reason {
    /// A reason that concerns one resource.
    pub(super) fn new(why: impl Into<String>, problem: Option<Arc<Diagnostic>>) -> Self {
        Self { why: why.into(), common: None, problem }
    }
}

/// The cause for several resources, which are reported together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CommonCause {
    /// One line.
    pub(super) text: Arc<str>,
    /// The file or directory that it is about.
    pub(super) file: Option<Arc<str>>,
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    file: Arc<str>,
    /// From 1.
    line: u32,
}

impl Place {
    /// Where a resource begins.
    pub(super) fn of(origin: &Origin) -> Self {
        Self { file: Arc::clone(&origin.file), line: origin.document_line() }
    }

    /// Where a problem is, if it is at a line.
    pub(super) fn of_problem(problem: &Diagnostic) -> Option<Self> {
        let file = Arc::clone(problem.file.as_ref()?);
        Some(Self { file, line: problem.span?.start.line }).filter(|place| place.line > 0)
    }

    /// Puts a diagnostic there.
    fn mark(&self, problem: &mut Diagnostic) {
        let start = Location { line: self.line, column: 1 };
        problem.file = Some(Arc::clone(&self.file));
        problem.span = Some(Span { start, end: start });
    }
}

/// Since when resources serve in their previous version.
pub(super) type SinceByKey = BTreeMap<ResourceKey, Timestamp>;

/// A resource that serves in its previous version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptResource {
    /// Its key.
    pub key: ResourceKey,
    /// Since when the previous version serves instead of what the store has.
    pub since: Timestamp,
    /// Why; one line.
    pub why: String,
    pub(super) common: Option<CommonCause>,
    /// Where to mend it.
    pub(super) place: Place,
}

impl KeptResource {
    /// The cause alone, if it concerns several resources; else [`why`](Self::why).
    pub fn cause(&self) -> &str {
        self.common.as_ref().map_or(&self.why, |cause| &cause.text)
    }
}

/// One diagnostic for each cause.
pub(super) fn diagnose_kept(kept: &[KeptResource]) -> Diagnostics {
    let mut groups: Vec<Vec<&KeptResource>> = Vec::new();
    let mut by_cause: HashMap<&CommonCause, usize> = HashMap::default();
    for resource in kept {
        let next = groups.len();
        let index = resource.common.as_ref().map_or(next, |cause| *by_cause.entry(cause).or_insert(next));
        match groups.get_mut(index) {
            Some(group) => group.push(resource),
            None => groups.push(vec![resource]),
        }
    }
    groups.iter().filter_map(|group| diagnose_group(group)).collect()
}

fn diagnose_group(group: &[&KeptResource]) -> Option<Diagnostic> {
    let first = group.first()?;
    let since = group.iter().map(|kept| kept.since).min()?.rfc3339_micros();
    let (Some(cause), true) = (&first.common, group.len() > 1) else {
        let message =
            format!("the previous version of {} serves, since {since}, because {}", first.key, first.why);
        let mut problem = Diagnostic::warning(KEPT, FieldPath::root(), message)
            .with_resource(first.key.to_string())
            .with_hint("mend it, or delete it together with what needs it");
        first.place.mark(&mut problem);
        return Some(problem);
    };
    let count = group.len();
    let mut names: Vec<String> = group.iter().take(NAMED).map(|kept| kept.key.to_string()).collect();
    if count > NAMED {
        names.push(format!("{} more", count - NAMED));
    }
    let last = names.pop()?;
    let names = format!("{} and {last}", names.join(", "));
    let message =
        format!("{count} resources serve in their previous version, since {since}: {} ({names})", cause.text);
    let mut problem = Diagnostic::warning(KEPT, FieldPath::root(), message)
        .with_hint("they serve as written as soon as that is mended; ControlZ and /readyz?verbose list them");
    problem.file.clone_from(&cause.file);
    Some(problem)
}

/// The diagnostic of a new resource without an error that does not serve.
pub(super) fn diagnose_left_out(resource: &RawResource, reason: &Reason) -> Diagnostic {
    let RawResource { key, origin, .. } = resource;
    let message = format!("{key} does not serve yet, because {}", reason.why);
    let mut problem = Diagnostic::warning(KEPT, FieldPath::root(), message)
        .with_resource(key.to_string())
        .with_hint("mend that, or put this resource into another file");
    Place::of(origin).mark(&mut problem);
    problem
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(name: &str, since: i64, cause: Option<&str>) -> KeptResource {
        let file: Arc<str> = "/conf".into();
        KeptResource {
            key: ResourceKey { kind: "rule".into(), namespace: "ns".into(), name: name.into() },
            since: Timestamp { seconds: since, nanos: 0 },
            why: "its new version has an error: x".to_owned(),
            common: cause.map(|text| CommonCause { text: text.into(), file: Some(file.clone()) }),
            place: Place { file, line: 7 },
        }
    }

    #[test]
    fn a_cause_that_concerns_many_is_one_diagnostic() {
        let lost = Some("lstat /conf: no such file or directory");
        let all = [
            kept("a", 0, None),
            kept("b", 20, lost),
            kept("c", 10, lost),
            kept("d", 20, Some("another")),
            kept("e", 20, lost),
            kept("f", 20, lost),
        ];
        let found: Vec<_> = diagnose_kept(&all)
            .into_iter()
            .map(|d| (d.message.clone(), d.resource.clone(), d.span.map(|span| span.start.line)))
            .collect();
        let single = |name, since| {
            format!(
                "the previous version of {name}.rule.ns serves, since {since}, because its new version has an error: x"
            )
        };
        assert_eq!(
            found,
            [
                (single("a", "1970-01-01T00:00:00.000000Z"), "a.rule.ns".to_owned(), Some(7)),
                (
                    "4 resources serve in their previous version, since 1970-01-01T00:00:10.000000Z: lstat /conf: no \
                     such file or directory (b.rule.ns, c.rule.ns, e.rule.ns and 1 more)"
                        .to_owned(),
                    String::new(),
                    None
                ),
                (single("d", "1970-01-01T00:00:20.000000Z"), "d.rule.ns".to_owned(), Some(7)),
            ]
        );
    }
}
