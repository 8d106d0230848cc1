//! Annotations that were meant to be ours.
//!
//! An annotation that nobody knows has no effect, and what it should have refused passes. On kinds that only this program reads, an
//! annotation with one of our names, or nearly one, is therefore taken for ours, unless its prefix is the domain of somebody else.

use mixer_config::annotation::{ALL, PREFIX, is_near, letters, name_of, named_like};
use mixer_config::message::is_within;

/// Longer annotations are not examined: the search is quadratic. Kubernetes permits 253 and 63 characters.
const MAX_LENGTH: usize = 512;

/// The name of this program.
const PROGRAM: &str = "mixer";
/// Words in the domains that count as ours: whoever annotates a resource of Istio Mixer knows both.
const OUR_LABELS: [&str; 2] = [PROGRAM, "istio"];

/// The annotation of ours that one was probably meant to be; none for ours themselves.
pub(super) fn meant(annotation: &str) -> Option<&'static str> {
    if annotation.len() > MAX_LENGTH || ALL.contains(&annotation) {
        return None;
    }
    match annotation.rsplit_once('/') {
        Some((prefix, name)) => {
            let name = letters(name);
            let is_within_ours = || letters(prefix).contains(PROGRAM) && is_our_prefix(owner(prefix));
            let within = || ours_in(&name).filter(|_| is_within_ours());
            named_like(&name).filter(|_| is_our_prefix(prefix)).or_else(within)
        }
        None => without_slash(&letters(annotation)),
    }
}

/// The prefix of the annotation for the language of expressions, in letters.
const LANGUAGE_PREFIX: &str = "policyistioio";
/// Its domain.
const LANGUAGE_OWNER: &str = "istio.io";

/// Whether an annotation was probably meant to select the language of expressions. `is_value`: its value is a language.
pub(super) fn names_language(annotation: &str, is_value: bool) -> bool {
    if annotation.len() > MAX_LENGTH {
        return false;
    }
    let (prefix, name) = annotation.rsplit_once('/').unwrap_or(("", annotation));
    let name = letters(name);
    let is_like = name.contains("lang") || is_within(&name, "lang", 1) || is_near(&name, "language");
    let is_istio = || owner(prefix) == LANGUAGE_OWNER || is_near(&letters(prefix), LANGUAGE_PREFIX);
    // One with our prefix is reported anyway.
    is_like && prefix != PREFIX && (is_value || is_istio())
}

/// The annotation of ours whose name is a part of this one: `default-deny`.
fn ours_in(name: &str) -> Option<&'static str> {
    ALL.iter().copied().find(|ours| name.contains(&name_of(ours)))
}

/// Whether a prefix is ours with mistakes, or nobody's: only a domain belongs to somebody.
fn is_our_prefix(prefix: &str) -> bool {
    if !prefix.contains('.') || is_near(&letters(prefix), &letters(PREFIX)) {
        return true;
    }
    let mut words = prefix.split(|c: char| !c.is_alphanumeric());
    words.any(|word| {
        let word = letters(word);
        OUR_LABELS.iter().any(|ours| is_near(&word, ours) || word.starts_with(PROGRAM))
    })
}

/// The domain whose owner has a prefix: its last two labels. `mixer.example.com` is that of `example.com`.
fn owner(prefix: &str) -> &str {
    prefix.rmatch_indices('.').nth(1).map_or(prefix, |(at, dot)| prefix.split_at(at + dot.len()).1)
}

/// Mistakes in a name without a prefix, which may be a word of anybody: `error`, `fault`.
const BARE_EDITS: usize = 1;

/// The letters of an annotation without a slash: a name alone, or behind our prefix.
fn without_slash(annotation: &str) -> Option<&'static str> {
    let ours = letters(PREFIX);
    let is_ours =
        |prefix: &str| prefix.contains(PROGRAM) || is_near(prefix, &ours) || is_near(prefix, PROGRAM);
    ALL.iter().copied().find(|ours| {
        let name = name_of(ours);
        let limit = name.len() / 3;
        let rests = annotation.char_indices().map(|(at, _)| annotation.split_at(at));
        let mut plausible = rests.filter(|(_, rest)| rest.len() <= name.len() + limit);
        let is_bare =
            || annotation.chars().next() == name.chars().next() && is_within(annotation, &name, BARE_EDITS);
        is_bare() || plausible.any(|(prefix, rest)| is_ours(prefix) && is_near(rest, &name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_config::annotation::{DEFAULT, DRY_RUN, ON_ERROR};

    #[test]
    fn no_plausible_misspelling_is_somebody_elses() {
        for (annotation, ours) in [
            ("mixer.io/default", DEFAULT),
            ("mixer.dev.default", DEFAULT),
            ("mixer/default", DEFAULT),
            ("default", DEFAULT),
            ("Default", DEFAULT),
            ("/default", DEFAULT),
            ("mixer.dve/default", DEFAULT),
            ("mixer.dev/defualt", DEFAULT),
            ("mixer.dev/Default", DEFAULT),
            ("Mixer.Dev/default", DEFAULT),
            ("MIXER.DEV/DEFAULT", DEFAULT),
            ("mixer-dev/default", DEFAULT),
            ("mixer_dev/default", DEFAULT),
            ("mixerdev/default", DEFAULT),
            ("dev.mixer/default", DEFAULT),
            ("mixer.dev/rule/default", DEFAULT),
            ("mixer.dev//default", DEFAULT),
            ("mixer.dev/default ", DEFAULT),
            (" mixer.dev/default", DEFAULT),
            ("mixer.dev:default", DEFAULT),
            ("mixer.dev\\default", DEFAULT),
            ("mixer.deva/default", DEFAULT),
            ("mixr.dev/default", DEFAULT),
            ("mixers.dev/default", DEFAULT),
            ("www.mixer.dev/default", DEFAULT),
            ("mixer.com/default", DEFAULT),
            ("istio.io/default", DEFAULT),
            ("policy.istio.io/default", DEFAULT),
            ("mixer.istio.io/default", DEFAULT),
            ("default-", DEFAULT),
            ("defualt", DEFAULT),
            ("on-erorr", ON_ERROR),
            ("mixer.istio.io/default-deny", DEFAULT),
            ("mixer.example.com/defualt", DEFAULT),
            ("defaults", DEFAULT),
            ("mixer-default", DEFAULT),
            ("mixer.dev.defualt", DEFAULT),
            ("mxier.dev.default", DEFAULT),
            ("on-error", ON_ERROR),
            ("onError", ON_ERROR),
            ("on_error", ON_ERROR),
            ("ON-ERROR", ON_ERROR),
            ("mixer.dev/on_error", ON_ERROR),
            ("mixer.dev/onErrors", ON_ERROR),
            ("mixer.io/onerror", ON_ERROR),
            ("mixer.dev.on-error", ON_ERROR),
            ("dry-run", DRY_RUN),
            ("dryRun", DRY_RUN),
            ("dry_run", DRY_RUN),
            ("mixer.io/dry-run", DRY_RUN),
            ("mixer.io/default-deny", DEFAULT),
            ("istio.io/dry-run", DRY_RUN),
            ("mixer/dryrun", DRY_RUN),
        ] {
            assert_eq!(meant(annotation), Some(ours), "{annotation}");
        }
    }

    #[test]
    fn what_resembles_the_annotation_for_the_language_is_known() {
        for (annotation, is_value, expected) in [
            ("policy.istio.io/language", false, true),
            ("policy.istio.io/Lang", false, true),
            ("policy.istio.io/lng", false, true),
            ("policies.istio.io/lang", false, true),
            ("istio.io/lang", false, true),
            ("lang", true, true),
            ("example.com/language", true, true),
            ("lang", false, false),
            ("example.com/language", false, false),
            ("policy.istio.io/check", false, false),
            ("policy.istio.io/checkRetries", false, false),
            ("example.com/engine", true, false),
            ("mixer.dev/lang", true, false),
            ("", true, false),
        ] {
            assert_eq!(names_language(annotation, is_value), expected, "{annotation}");
        }
    }

    #[test]
    fn annotations_of_others_are_theirs() {
        for annotation in [
            DEFAULT,
            DRY_RUN,
            ON_ERROR,
            "policy.istio.io/lang",
            "mixer.dev/team",
            "mixer.com/team",
            "example.com/default",
            "storageclass.kubernetes.io/is-default-class",
            "kubernetes.io/default",
            "argocd.argoproj.io/sync-options",
            "kubectl.kubernetes.io/last-applied-configuration",
            "meta.helm.sh/release-name",
            "helm.sh/hook",
            "com.example.default",
            "error",
            "fault",
            "is-default",
            "mixer.example.com/default-team",
            "team",
            "owner",
            "description",
            "note",
            "",
            "/",
        ] {
            assert_eq!(meant(annotation), None, "{annotation}");
        }
        assert_eq!(meant(&format!("{}/default", "a".repeat(MAX_LENGTH))), None);
    }
}
