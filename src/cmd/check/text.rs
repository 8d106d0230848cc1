//! Results of `check` as plain text and tables.

use std::fmt::Write as _;

use super::response::{operation, references, refusal, status};
use crate::cmd::attributes::{Quotas, from_wire};
use crate::cmd::call::status_code_name;
use crate::cmd::io::{Io, Style};
use crate::cmd::output;
use mixer_wire::istio::mixer::v1::check_response::PreconditionResult;
use mixer_wire::istio::mixer::v1::{CheckResponse, HeaderOperation};

/// The text of Istio mixc.
pub(super) fn plain(response: &CheckResponse) -> String {
    let precondition = response.precondition.as_ref();
    let (code, message) = status(precondition);
    let message = if message.is_empty() { String::new() } else { format!(" ({message})") };
    let uses = precondition.map_or(0, |p| p.valid_use_count);
    let duration = from_wire(precondition.and_then(|p| p.valid_duration));
    let mut text = format!(
        "Check RPC completed successfully. Check status was {}{message}\n  Valid use count: {uses}, valid duration: {duration}\n  Referenced Attributes\n",
        status_code_name(code)
    );
    let mut lines: Vec<String> =
        references(precondition).iter().map(|r| format!("{} {}", r.title(), r.condition)).collect();
    lines.sort();
    for line in lines {
        let _ = writeln!(text, "    {line}");
    }
    text.push('\n');
    if !response.quotas.is_empty() {
        text.push_str(&quota_table(response));
    }
    text
}

fn quota_table(response: &CheckResponse) -> String {
    let mut rows = vec![["Quota".to_owned(), "Granted Amount".to_owned(), "Duration".to_owned()]];
    for (name, result) in &response.quotas {
        let duration = from_wire(result.valid_duration).to_string();
        rows.push([name.clone(), result.granted_amount.to_string(), duration]);
    }
    let width = |column: fn(&[String; 3]) -> &String| {
        rows.iter().map(|row| column(row).chars().count()).max().unwrap_or(0) + 2
    };
    let (first, second) = (width(|[name, ..]| name), width(|[_, amount, _]| amount));
    let mut text = String::new();
    for [name, amount, duration] in &rows {
        let _ = writeln!(text, "  {name:<first$}{amount:<second$}{duration}");
    }
    text.push('\n');
    text
}

/// The result as tables.
pub(super) fn table(response: &CheckResponse, quotas: &Quotas, io: &Io) -> String {
    let precondition = response.precondition.as_ref();
    let (code, message) = status(precondition);
    let refusal = refusal(response, quotas);
    let style = if code == 0 && refusal.is_none() { Style::Good } else { Style::Error };
    let mut text = io.paint(style, &status_code_name(code));
    if let Some(refusal) = refusal {
        let _ = write!(text, "  {}", io.paint(style, &format!("but {}", output::escaped(&refusal))));
    }
    if !message.is_empty() {
        let _ = write!(text, "  {}", output::escaped(&message));
    }
    let duration = output::long_duration(from_wire(precondition.and_then(|p| p.valid_duration)));
    let uses = precondition.map_or(0, |p| p.valid_use_count);
    let _ = writeln!(text, "\nvalid for {duration} or {uses} uses\n");
    let mut rows: Vec<Vec<String>> =
        references(precondition).iter().map(|r| vec![r.title(), r.condition.to_owned()]).collect();
    rows.sort();
    text.push_str(&output::table(&["ATTRIBUTE", "CONDITION"], &rows, io.width));
    if !response.quotas.is_empty() {
        let rows: Vec<Vec<String>> = response
            .quotas
            .iter()
            .map(|(name, result)| {
                let requested = quotas.get(name).map(ToString::to_string).unwrap_or_default();
                let duration = output::long_duration(from_wire(result.valid_duration));
                vec![name.clone(), requested, result.granted_amount.to_string(), duration]
            })
            .collect();
        text.push('\n');
        text.push_str(&output::table(&["QUOTA", "REQUESTED", "GRANTED", "DURATION"], &rows, io.width));
    }
    text.push_str(&header_table(precondition, io));
    text.push('\n');
    text
}

fn header_table(precondition: Option<&PreconditionResult>, io: &Io) -> String {
    let Some(directive) = precondition.and_then(|p| p.route_directive.as_ref()) else { return String::new() };
    let mut text = String::from("\n");
    if directive.direct_response_code != 0 {
        let _ = writeln!(text, "direct response {}", directive.direct_response_code);
    }
    let row = |side: &str, o: &HeaderOperation| {
        vec![side.to_owned(), operation(o).to_owned(), o.name.clone(), o.value.clone()]
    };
    let mut rows: Vec<Vec<String>> =
        directive.request_header_operations.iter().map(|o| row("request", o)).collect();
    rows.extend(directive.response_header_operations.iter().map(|o| row("response", o)));
    if !rows.is_empty() {
        text.push_str(&output::table(&["SIDE", "OPERATION", "HEADER", "VALUE"], &rows, io.width));
    }
    text
}
