//! The patterns of a configuration may take half of the room for patterns, and more: they can be replaced.

use mixer_config::Severity;
use mixer_engine::runtime::OnConfigError;

use crate::refusal::{REFUSE, good};
use crate::stage::{Answer, Files, Stage};

/// Rules of which each takes 4 MiB of 256: together more than half.
const RULES: usize = 34;
/// How many fit.
const MAX: usize = 64;

/// A rule that refuses a user; its pattern has a large alternative that nobody has.
fn rule(number: usize, user: &str) -> String {
    let pattern = format!("^{user}$|^{number}-{user}-.{{1000}}.{{1000}}.{{1000}}.{{1000}}$");
    format!(
        "kind: rule\nmetadata: {{name: r{number}, namespace: istio-system}}\n\
         spec: {{match: '\"{pattern}\".matches(source.user | \"\")', actions: [{{handler: refuse, instances: [any]}}]}}\n"
    )
}

fn files(rules: usize, user: &str) -> Files {
    let mut files = good();
    files.put("/conf/parts.yaml", REFUSE);
    let texts: Vec<String> = (0..rules).map(|number| rule(number, user)).collect();
    files.put("/conf/rules.yaml", texts.join("---\n"));
    files
}

#[test]
fn a_configuration_that_takes_half_the_budget_of_patterns_can_be_changed() {
    let mut stage = Stage::new(OnConfigError::KeepLast, true);
    stage.start(&files(RULES, "eve"));
    assert_eq!(
        (stage.check("eve"), stage.check("dan"), stage.kept()),
        (Answer::Denied, Answer::Allowed, Vec::new())
    );
    stage.change(&files(RULES, "dan"));
    assert_eq!(
        (stage.check("dan"), stage.check("eve"), stage.kept()),
        (Answer::Denied, Answer::Allowed, Vec::new())
    );
    // Twice as many do not fit: what served goes on, and those that do not fit say why.
    stage.change(&files(2 * RULES, "dan"));
    let published = stage.published();
    let errors = published.diagnostics.iter().filter(|problem| problem.severity == Severity::Error);
    let told = errors.filter(|problem| problem.message.contains("too large together")).count();
    assert_eq!(told, 2 * RULES - MAX, "{:#?}", published.diagnostics);
    assert_eq!(stage.check("dan"), Answer::Denied);
    // They are gone, and there is room again, also for other ones.
    stage.change(&files(RULES, "eve"));
    assert_eq!(
        (stage.check("eve"), stage.check("dan"), stage.kept()),
        (Answer::Denied, Answer::Allowed, Vec::new())
    );
}
