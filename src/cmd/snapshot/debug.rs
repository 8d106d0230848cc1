//! A snapshot in the layout of the debug log of Istio Mixer.

use std::fmt::Write as _;

use super::section::Section;
use mixer_base::quote::quoted;
use mixer_engine::snapshot::{HeaderOperationDump, RuleDump, SnapshotDump};

/// All sections after the snapshot id, or the selected sections alone.
pub(super) fn render(found: &SnapshotDump, sections: &[Section]) -> String {
    let mut text = String::new();
    if sections.is_empty() {
        let _ = writeln!(text, "ID: {}", found.id);
    }
    let selected = |section: Section| sections.is_empty() || sections.contains(&section);
    if selected(Section::Templates) {
        names(&mut text, "TemplatesStatic", found.templates.iter().map(|t| &t.name));
    }
    if selected(Section::Adapters) {
        names(&mut text, "AdaptersStatic", found.adapters.iter().map(|a| &a.name));
    }
    if selected(Section::Handlers) {
        handlers(&mut text, found);
    }
    if selected(Section::Instances) {
        instances(&mut text, found);
    }
    if selected(Section::Rules) {
        text.push_str("Rules:\n");
        for rule in &found.rules {
            write_rule(&mut text, rule);
        }
    }
    if selected(Section::Adapters) && !found.adapter_metadatas.is_empty() {
        text.push_str("AdaptersDynamic:\n");
        for adapter in &found.adapter_metadatas {
            let _ = writeln!(text, "  Name:      {}\n  Templates:", adapter.name);
            for template in &adapter.templates {
                let _ = writeln!(text, "  -  {template}");
            }
        }
    }
    if selected(Section::Templates) && !found.template_metadatas.is_empty() {
        text.push_str("TemplatesDynamic:\n");
        for template in &found.template_metadatas {
            let _ = writeln!(text, "  Resource Name:  {}", template.resource);
            let _ = writeln!(text, "    Name:  {}", template.name);
            let derived = &template.internal_package_derived_name;
            let _ = writeln!(text, "    InternalPackageDerivedName:  {derived}");
        }
    }
    dynamic(&mut text, found, sections);
    if selected(Section::Attributes) {
        text.push_str("Attributes:\n");
        for attribute in &found.attributes {
            let _ = writeln!(text, "  {}: {}", attribute.name, attribute.value_type);
        }
    }
    text
}

fn names<'n>(text: &mut String, title: &str, names: impl Iterator<Item = &'n String>) {
    let _ = writeln!(text, "{title}:");
    for name in names {
        let _ = writeln!(text, "  Name: {name}");
    }
}

fn handlers(text: &mut String, found: &SnapshotDump) {
    text.push_str("HandlersStatic:\n");
    for handler in found.handlers.iter().filter(|h| !h.dynamic) {
        let _ = writeln!(text, "  Name:    {}", handler.name);
        let _ = writeln!(text, "  Adapter: {}", handler.adapter);
        let _ = writeln!(text, "  Params:  {}", handler.params);
    }
}

fn instances(text: &mut String, found: &SnapshotDump) {
    text.push_str("InstancesStatic:\n");
    for instance in found.instances.iter().filter(|i| !i.dynamic) {
        let _ = writeln!(text, "  Name:     {}", instance.name);
        let _ = writeln!(text, "  Template: {}", instance.template);
        let _ = writeln!(text, "  Params:   {}", instance.params);
    }
}

/// Handlers and instances of out-of-process adapters.
fn dynamic(text: &mut String, found: &SnapshotDump, sections: &[Section]) {
    let selected = |section: Section| sections.is_empty() || sections.contains(&section);
    let handlers: Vec<_> = found.handlers.iter().filter(|h| h.dynamic).collect();
    if selected(Section::Handlers) && !handlers.is_empty() {
        text.push_str("HandlersDynamic:\n");
        for handler in handlers {
            let _ = writeln!(text, "  Name:    {}\n  Adapter: {}", handler.name, handler.adapter);
        }
    }
    let instances: Vec<_> = found.instances.iter().filter(|i| i.dynamic).collect();
    if selected(Section::Instances) && !instances.is_empty() {
        text.push_str("InstancesDynamic:\n");
        for instance in instances {
            let _ = writeln!(text, "  Name:     {}\n  Template: {}", instance.name, instance.template);
            text.push_str("  Params:\n");
            let members = instance.params.as_object().into_iter().flatten();
            let mut lines: Vec<String> = members.map(|(key, value)| format!("  - {key}:{value}")).collect();
            lines.sort();
            for line in lines {
                let _ = writeln!(text, "{line}");
            }
        }
    }
}

fn write_rule(text: &mut String, rule: &RuleDump) {
    let _ = writeln!(text, "  Name:      {}", rule.name);
    let _ = writeln!(text, "  Namespace: {}", rule.namespace);
    let _ = writeln!(text, "  Match:   {}", rule.match_text);
    if rule.dry_run {
        text.push_str("  DryRun:    true\n");
    }
    if rule.denies_by_default {
        text.push_str("  Default:   deny\n");
    }
    if rule.allows_everywhere {
        text.push_str("  Allows:    everywhere\n");
    }
    for (title, dynamic) in [("ActionsStatic", false), ("ActionsDynamic", true)] {
        let actions: Vec<_> = rule.actions.iter().filter(|a| a.dynamic == dynamic).collect();
        if dynamic && actions.is_empty() {
            continue;
        }
        let _ = writeln!(text, "  {title}:");
        for action in actions {
            let _ = writeln!(text, "    Handler: {}", action.handler);
            if !action.name.is_empty() {
                let _ = writeln!(text, "    Name: {}", action.name);
            }
            text.push_str("    Instances:\n");
            for instance in &action.instances {
                let _ = writeln!(text, "      Name: {instance}");
            }
        }
    }
    operations(text, "RequestHeaderOperations", &rule.request_header_operations);
    operations(text, "ResponseHeaderOperations", &rule.response_header_operations);
}

fn operations(text: &mut String, title: &str, list: &[HeaderOperationDump]) {
    if list.is_empty() {
        return;
    }
    let _ = writeln!(text, "  {title}:");
    for operation in list {
        let _ = writeln!(text, "    Name: {}", quoted(&operation.name));
        for value in &operation.values {
            let _ = writeln!(text, "    Value: {}", quoted(value));
        }
        let _ = writeln!(text, "    Operation: {}", operation.operation);
    }
}
