//! What of the configuration cannot be used, for stores that write it onto their objects.

use std::sync::Arc;

use tokio::sync::watch;

use mixer_base::secrets::mask_text;
use mixer_config::{Diagnostic, Severity};
use mixer_engine::runtime::{Published, is_about_serving, is_consequence};
use mixer_stores::{Fault, Faults};

/// Where faults are told; `None` until something was published.
pub(super) type FaultSender = watch::Sender<Option<Arc<Faults>>>;

/// Tells the faults of what is published, if they differ from those that were told.
pub(super) fn tell(faults: &FaultSender, published: &Published) {
    let found = Arc::new(of(&published.diagnostics));
    faults.send_if_modified(|known| {
        let differs = known.as_ref() != Some(&found);
        if differs {
            *known = Some(found);
        }
        differs
    });
}

/// The first error of every object, its own before what follows from others.
fn of(diagnostics: &[Diagnostic]) -> Faults {
    let errors = diagnostics
        .iter()
        .filter(|problem| problem.severity == Severity::Error && !is_about_serving(problem.code));
    let (consequences, causes): (Vec<_>, Vec<_>) = errors.partition(|problem| is_consequence(problem.code));
    let mut faults = Faults::new();
    for problem in causes.into_iter().chain(consequences) {
        let Some(origin) = problem.file.as_ref().filter(|origin| origin.contains("://")) else { continue };
        faults
            .entry(Arc::clone(origin))
            .or_insert_with(|| Fault { code: problem.code, message: text(problem) });
    }
    faults
}

/// What is wrong where, and what to do.
fn text(problem: &Diagnostic) -> String {
    let place = if problem.field.is_root() { String::new() } else { format!("{}: ", problem.field) };
    let hint =
        problem.hint.as_ref().map_or_else(String::new, |hint| format!(" ({})", hint.replace('\n', " ")));
    mask_text(&format!("{place}{}{hint}", problem.one_line())).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_config::FieldPath;

    #[test]
    fn the_first_cause_of_every_object_is_told() {
        let at = |code, origin: &str, text: &str| {
            let field = FieldPath::root().field("spec").field("match");
            let problem = Diagnostic::error(code, field, text);
            Diagnostic { file: Some(origin.into()), ..problem }
        };
        let found = of(&[
            at("config-kept", "k8s://h/rules/a/r", "the previous version serves"),
            at("expression", "k8s://h/rules/a/r", "unknown attribute"),
            at("expression", "k8s://h/rules/a/r", "another one"),
            at("expression", "/etc/mixer/a.yaml", "of a file"),
            at("lint", "k8s://h/rules/a/s", "suspicious").with_severity(Severity::Warning),
        ]);
        let fault = Fault { code: "expression", message: "spec.match: unknown attribute".to_owned() };
        assert_eq!(found, Faults::from([("k8s://h/rules/a/r".into(), fault)]));
    }
}
