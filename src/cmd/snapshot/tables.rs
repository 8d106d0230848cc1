//! A snapshot as tables, one per section.

use super::section::Section;
use crate::cmd::output::table;
use mixer_engine::snapshot::SnapshotDump;

/// The selected sections; all if none are selected.
pub(super) fn render(found: &SnapshotDump, sections: &[Section], width: usize) -> String {
    let mut text = String::new();
    for section in Section::ALL {
        if !sections.is_empty() && !sections.contains(&section) {
            continue;
        }
        let (headers, rows) = rows(found, section);
        let may_be_empty = matches!(section, Section::Errors | Section::Resources);
        if may_be_empty && rows.is_empty() && sections.is_empty() {
            continue;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("{}\n", section.heading()));
        text.push_str(&table(headers, &rows, width));
    }
    text
}

fn kind(dynamic: bool) -> String {
    if dynamic { "dynamic" } else { "static" }.to_owned()
}

fn rows(found: &SnapshotDump, section: Section) -> (&'static [&'static str], Vec<Vec<String>>) {
    match section {
        Section::Rules => (&["NAME", "NAMESPACE", "MATCH", "ACTIONS"], rules(found)),
        Section::Handlers => (
            &["NAME", "ADAPTER", "KIND", "REFERENCES", "PARAMS"],
            found
                .handlers
                .iter()
                .map(|h| {
                    let references = h.references.to_string();
                    vec![h.name.clone(), h.adapter.clone(), kind(h.dynamic), references, h.params.to_string()]
                })
                .collect(),
        ),
        Section::Instances => (
            &["NAME", "TEMPLATE", "KIND", "REFERENCES", "TYPES"],
            found
                .instances
                .iter()
                .map(|i| {
                    let types: Vec<String> = i.types.iter().map(|(leaf, t)| format!("{leaf}: {t}")).collect();
                    let references = i.references.to_string();
                    vec![i.name.clone(), i.template.clone(), kind(i.dynamic), references, types.join(", ")]
                })
                .collect(),
        ),
        Section::Templates => (
            &["NAME", "VARIETY", "KIND"],
            found
                .templates
                .iter()
                .map(|t| vec![t.name.clone(), t.variety.clone(), kind(false)])
                .chain(
                    found
                        .template_metadatas
                        .iter()
                        .map(|t| vec![t.resource.clone(), t.variety.clone(), kind(true)]),
                )
                .collect(),
        ),
        Section::Adapters => (
            &["NAME", "KIND", "TEMPLATES"],
            found
                .adapters
                .iter()
                .map(|a| vec![a.name.clone(), kind(false), a.templates.join(", ")])
                .chain(
                    found
                        .adapter_metadatas
                        .iter()
                        .map(|a| vec![a.name.clone(), kind(true), a.templates.join(", ")]),
                )
                .collect(),
        ),
        Section::Attributes => (
            &["NAME", "TYPE", "SOURCE"],
            found
                .attributes
                .iter()
                .map(|a| vec![a.name.clone(), a.value_type.clone(), a.source.clone()])
                .collect(),
        ),
        Section::Resources => (
            &["NAME", "SOURCE", "DOCUMENT"],
            found
                .resources
                .iter()
                .flatten()
                .map(|r| {
                    let place = format!("{}:{}", r.source.file, r.source.line);
                    vec![r.name.clone(), place, r.document.to_string()]
                })
                .collect(),
        ),
        Section::Errors => (
            &["SEVERITY", "CODE", "RESOURCE", "MESSAGE"],
            found
                .errors
                .iter()
                .map(|e| {
                    let message = e.message.replace('\n', " ");
                    vec![e.severity.clone(), e.code.clone(), e.resource.clone(), message]
                })
                .collect(),
        ),
    }
}

fn rules(found: &SnapshotDump) -> Vec<Vec<String>> {
    let actions = |rule: &mixer_engine::snapshot::RuleDump| {
        let parts: Vec<String> =
            rule.actions.iter().map(|a| format!("{} <- {}", a.handler, a.instances.join(", "))).collect();
        parts.join("; ")
    };
    found
        .rules
        .iter()
        .map(|rule| {
            let condition = rule.match_text.split_whitespace().collect::<Vec<_>>().join(" ");
            let condition = if condition.is_empty() { "(always)".to_owned() } else { condition };
            let mark = if rule.dry_run { " (dry run)" } else { "" };
            let default = match (rule.denies_by_default, rule.actions.is_empty()) {
                (false, _) => "",
                (true, true) => "default: deny",
                (true, false) => "; default: deny",
            };
            let mark =
                if rule.allows_everywhere { format!(" (allows: everywhere){mark}") } else { mark.to_owned() };
            vec![rule.name.clone(), rule.namespace.clone(), condition, actions(rule) + default + &mark]
        })
        .collect()
}
