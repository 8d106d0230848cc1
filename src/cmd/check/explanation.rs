//! Explanations as text.

use std::fmt::Write as _;

use crate::cmd::io::{Io, Style};
use mixer_engine::explain::{Explanation, PartExplanation, RuleExplanation, Verdict};

/// Rules in the order of evaluation, then handlers.
pub(super) fn text(found: &Explanation, io: &Io) -> String {
    let mut text = io.paint(Style::Bold, "Why");
    let namespace = found
        .namespace
        .as_deref()
        .map_or_else(|| "no namespace".to_owned(), |namespace| format!("namespace {namespace}"));
    let _ = writeln!(text, " (snapshot {}, {namespace})", found.snapshot);
    for sentence in &found.for_envoy {
        let _ = writeln!(text, "  {} {sentence}", io.paint(Style::Warning, "note:"));
    }
    if found.rules.is_empty() {
        text.push_str("  no rule applies to checks\n");
    }
    for rule in &found.rules {
        write_rule(&mut text, rule, io);
    }
    if !found.omitted.is_none() {
        let _ = writeln!(text, "  {}", io.paint(Style::Dim, &found.omitted.to_string()));
    }
    if found.pages > 1 {
        let more = match found.page < found.pages {
            true => format!("; --explain-page {} lists the next", found.page + 1),
            false => String::new(),
        };
        let line = format!("page {} of {} pages of rules{more}", found.page, found.pages);
        let _ = writeln!(text, "  {}", io.paint(Style::Dim, &line));
    }
    if !found.dispatches.is_empty() {
        let _ = writeln!(text, "{}", io.paint(Style::Bold, "Handlers"));
    }
    for dispatch in &found.dispatches {
        let mark = if dispatch.dry_run { "would return: " } else { "" };
        let _ = writeln!(text, "  {} ({}): {mark}{}", dispatch.handler, dispatch.adapter, dispatch.said);
        let _ = match dispatch.instance.as_str() {
            "" => writeln!(text, "    of {}", dispatch.rule),
            instance => writeln!(text, "    instance {instance} of {}", dispatch.rule),
        };
        if let Some(on_error) = &dispatch.on_error {
            let _ = writeln!(text, "    {on_error}");
        }
        for (field, value) in &dispatch.values {
            let _ = writeln!(text, "      {field} = {value}");
        }
    }
    if !found.quotas.is_empty() {
        let _ = writeln!(text, "{}", io.paint(Style::Bold, "Quotas"));
    }
    for quota in &found.quotas {
        let by = match (quota.allocated, quota.known) {
            (true, _) => format!("allocated by {}", quota.rules.join(", ")),
            (false, true) => "no rule allocates it for this request: it is granted".to_owned(),
            (false, false) => "no rule allocates it: it is granted".to_owned(),
        };
        let hint = quota.hint.as_ref().map_or_else(String::new, |near| format!("; {near}"));
        let _ = writeln!(text, "  {}: {by}{hint}", quota.name);
    }
    if !found.mapped.is_empty() {
        let _ = writeln!(text, "{}", io.paint(Style::Bold, "Mapped, in calls of Envoy"));
    }
    for mapped in &found.mapped {
        let _ =
            writeln!(text, "  {} from {}  {}", mapped.to, mapped.from, io.paint(Style::Dim, &mapped.place));
    }
    text.push('\n');
    text
}

fn write_rule(text: &mut String, rule: &RuleExplanation, io: &Io) {
    let (label, style) = match rule.verdict {
        Verdict::Matched => ("matched", Style::Good),
        Verdict::NotMatched => ("not matched", Style::Dim),
        Verdict::Failed => ("failed, treated as not matched", Style::Warning),
        Verdict::Broken if rule.denies_by_default => ("does not compile", Style::Error),
        Verdict::FailedRefuses => ("failed, which refuses the request", Style::Error),
        Verdict::Broken => ("does not compile, never matches", Style::Error),
        Verdict::OtherNamespace => ("other namespace", Style::Dim),
    };
    let place = rule.place();
    let mark = if rule.dry_run { "  dry run, not enforced" } else { "" };
    let (label, place) = (io.paint(style, label), io.paint(Style::Dim, &place));
    let _ = writeln!(text, "  {}  {label}{mark}  {place}", rule.rule);
    if let Some(kept) = &rule.kept {
        let _ = writeln!(text, "    the previous version serves: {}", one_line(&kept.why));
    }
    match &rule.condition {
        Some(condition) => write_part(text, condition, 2),
        None if rule.match_text.is_empty() => {}
        None => {
            let _ = writeln!(text, "    {}", one_line(&rule.match_text));
        }
    }
    if let Some(near_miss) = &rule.near_miss {
        let _ = writeln!(text, "    near miss: {near_miss}");
    }
    if matches!(rule.verdict, Verdict::Matched | Verdict::Broken) && rule.denies_by_default {
        text.push_str("    refuses the request unless a rule allows it\n");
    }
    if rule.verdict == Verdict::Matched && !rule.handlers.is_empty() {
        let _ = writeln!(text, "    calls {}", rule.handlers.join(", "));
    }
}

/// Maximum depth of a printed condition.
const MAX_DEPTH: usize = 24;

fn write_part(text: &mut String, part: &PartExplanation, depth: usize) {
    let indent = "  ".repeat(depth);
    let source = one_line(&part.text);
    // A constant is its value.
    let _ = match source == part.outcome {
        true => writeln!(text, "{indent}{source}"),
        false => writeln!(text, "{indent}{source}  is {}", part.outcome),
    };
    if depth < MAX_DEPTH {
        for part in &part.parts {
            write_part(text, part, depth + 1);
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
