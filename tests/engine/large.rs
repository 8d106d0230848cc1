//! Experiment.
use std::time::Instant;

use mixer_engine::runtime::OnConfigError;

use crate::refusal::{REFUSE, good};
use crate::stage::{Files, Stage};

fn rules(count: usize, version: usize, attribute: &str) -> String {
    let rule = |n: usize| {
        format!(
            "kind: rule\nmetadata: {{name: r{n}, namespace: istio-system}}\nspec: {{match: '({attribute} | \"\") == \"u{n}-{version}\" || ({attribute} | \"\") == \"u{n}\"', actions: [{{handler: refuse, instances: [any]}}]}}\n"
        )
    };
    (0..count).map(rule).collect::<Vec<_>>().join("---\n")
}

fn mapping(header: &str, more: &str) -> String {
    format!(
        "kind: attributemapping\nmetadata: {{name: teams, namespace: istio-system}}\n\
         spec: {{mappings: [{{attribute: source.team, from: {{requestHeader: {header}}}{more}}}]}}\n"
    )
}

#[test]
fn cost_of_large() {
    let Ok(sizes) = std::env::var("MIXER_LARGE") else { return };
    let memory = || {
        let text = std::fs::read_to_string("/proc/self/status").unwrap();
        text.lines().find(|l| l.starts_with("VmRSS")).unwrap_or_default().to_owned()
    };
    for size in sizes.split(',').map(|s| s.parse::<usize>().unwrap()) {
        let words = "kind: attributemanifest\nmetadata: {name: teams, namespace: istio-system}\nspec: {attributes: {source.team: {valueType: STRING}}}\n";
        for what in ["none", "rule", "broad", "list", "maker", "yaml", "handler", "all"] {
            let mut files: Files = good();
            files.put("/conf/base.yaml", format!("{words}---\n{REFUSE}"));
            files.put("/conf/map.yaml", mapping("x-team", ""));
            files.put("/conf/rules.yaml", rules(size, 0, "source.team"));
            let mut stage = Stage::new(OnConfigError::KeepLast, false);
            let t = Instant::now();
            stage.start(&files);
            let started = t.elapsed();
            files.put("/conf/rules.yaml", rules(size, 1, "source.team"));
            match what {
                "rule" => files.put("/conf/x.yaml", rules(1, 3, "sorce.team").replace("name: r0", "name: x")),
                "broad" => files.put("/conf/x.yaml", "kind: rule\nmetadata: {name: x, namespace: istio-system}\nspec: {match: 'sorce.x == \"\"', actions: [{handler: refuse, instances: [any]}]}\n"),
                "list" => files.put("/conf/x.yaml", rules(size, 0, "sorce.team").replace("name: r", "name: x")),
                "maker" => files.put("/conf/map.yaml", mapping("x-plan", ", bogus: 1")),
                "yaml" => files.put("/conf/x.yaml", format!("{}}}}}", rules(1, 0, "source.team"))),
                "handler" => files.put("/conf/base.yaml", format!("{words}---\n{REFUSE}").replace("denier", "dneier")),
                "all" => files.put("/conf/rules.yaml", rules(size, 1, "sorce.team")),
                _ => {}
            }
            let t = Instant::now();
            stage.change(&files);
            println!(
                "{size:>6} {what:<8} start {started:?} change {:?} kept {} {}",
                t.elapsed(),
                stage.published().kept.len(),
                memory()
            );
        }
    }
}
