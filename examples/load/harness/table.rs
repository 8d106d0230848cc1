//! The table of budgets.

use std::io::Write;

use anyhow::Result;

use super::measure::Figures;
use super::options::Work;
use super::process::Program;

/// A row of the table.
struct Row {
    title: &'static str,
    budget: Option<f64>,
    unit: &'static str,
    digits: usize,
    pick: fn(&Figures) -> Option<f64>,
}

fn row(work: Work) -> Row {
    let cpu = |title, budget| Row { title, budget, unit: "us", digits: 2, pick: |f| f.cpu_micros };
    let seconds = |title, budget| Row { title, budget, unit: "s", digits: 3, pick: |f| f.seconds };
    let memory = |title, budget| Row { title, budget, unit: "MB", digits: 1, pick: |f| f.megabytes };
    match work {
        Work::NoOp
        | Work::Table
        | Work::Adapters
        | Work::Curves
        | Work::Tails
        | Work::Envoy
        | Work::Galley => cpu("empty Report: cost of any call", None),
        Work::CheckCached => cpu("Check, served from cache, 31 attributes", Some(6.0)),
        Work::CheckUncached => cpu("Check, uncached, sample config", Some(8.0)),
        Work::CheckRules => cpu("Check, uncached, 10 000 rules", Some(15.0)),
        Work::Report => cpu("Report, 25 bags x 4 metrics x 17 dimensions, per bag", Some(4.0)),
        Work::ReportLog => cpu("Report as above + JSON access log, per bag", Some(6.0)),
        Work::EnvoyCheck => cpu("Envoy: ext_authz check", Some(8.0)),
        Work::EnvoyCheckUncached => cpu("Envoy: ext_authz check, no cache", Some(8.0)),
        Work::EnvoyLimit => cpu("Envoy: rate-limit call, one descriptor", Some(6.0)),
        Work::QuotaExact => cpu("Check with a quota in Redis, exact", Some(25.0)),
        Work::QuotaLease => cpu("Check with a quota in Redis, from a lease", Some(5.0)),
        Work::EnvoyLog => cpu("Envoy: access-log entry, one metric", Some(5.0)),
        Work::Start => seconds("start with 10 000 rules until serving", Some(0.15)),
        Work::Edit => seconds("one rule edited among 10 000, until it serves", Some(0.05)),
        Work::Idle => Row {
            title: "idle CPU with 10 000 rules, cores",
            budget: Some(0.0),
            unit: "",
            digits: 3,
            pick: |f| f.cpu_seconds,
        },
        Work::MemorySample => memory("memory, sample config", Some(15.0)),
        Work::MemoryRules => memory("memory, 10 000 rules", Some(45.0)),
    }
}

/// The rows of a scenario: one, and for memory its parts.
fn rows_of(work: Work) -> Vec<Row> {
    let mut rows = vec![row(work)];
    if matches!(work, Work::MemorySample | Work::MemoryRules) {
        let part = |title, pick| Row { title, budget: None, unit: "MB", digits: 1, pick };
        rows.push(part("– of that private", |f| f.private_megabytes));
        rows.push(part("– of that mapped files", |f| f.mapped_megabytes));
    }
    rows
}

/// Prints Markdown: the budgets, then rates and latencies.
pub(crate) fn print(programs: &[Program], rows: &[(Work, Vec<Figures>)], out: &mut dyn Write) -> Result<()> {
    let names: Vec<&str> = programs.iter().map(|p| p.name.as_str()).collect();
    writeln!(out, "| work | scenario | {} | budget | in budget | less than peer by |", names.join(" | "))?;
    writeln!(out, "| --- | --- | {}--- | --- | --- |", "--- | ".repeat(names.len()))?;
    let lines = rows
        .iter()
        .flat_map(|(work, figures)| rows_of(*work).into_iter().map(move |row| (work, figures, row)));
    for (work, figures, row) in lines {
        let shown = |value: Option<f64>| {
            value.map_or_else(String::new, |v| {
                format!("{v:.*} {}", row.digits, row.unit).trim_end().to_owned()
            })
        };
        let values: Vec<Option<f64>> = figures.iter().map(row.pick).collect();
        let own = values.first().copied().flatten();
        let verdict = match (own, row.budget) {
            // CPU time is counted in ticks of 10 ms.
            (Some(own), Some(budget)) => {
                if own <= budget.max(0.002) {
                    "yes"
                } else {
                    "no"
                }
            }
            _ => "",
        };
        let ratio = match (own, values.get(1).copied().flatten()) {
            (Some(own), Some(peer)) if own > 0.0 => format!("{:.1} x", peer / own),
            _ => String::new(),
        };
        let cells: Vec<String> = values.into_iter().map(shown).collect();
        let budget = row.budget.map_or_else(String::new, |_| format!("<= {}", shown(row.budget)));
        writeln!(
            out,
            "| {} | `{}` | {} | {budget} | {verdict} | {ratio} |",
            row.title,
            work.name(),
            cells.join(" | ")
        )?;
    }
    writeln!(out, "\n| scenario | server | per s | p50 us | p99 us | p99.9 us | MB |")?;
    writeln!(out, "| --- | --- | --- | --- | --- | --- | --- |")?;
    for (work, figures) in rows {
        for (name, figures) in names.iter().zip(figures) {
            let Some(rate) = figures.per_second else { continue };
            let number = |value: Option<f64>, digits: usize| {
                value.map_or_else(String::new, |v| format!("{v:.digits$}"))
            };
            writeln!(
                out,
                "| `{}` | {name} | {rate:.0} | {} | {} | {} | {} |",
                work.name(),
                number(figures.p50, 0),
                number(figures.p99, 0),
                number(figures.p999, 0),
                number(figures.megabytes, 1)
            )?;
        }
    }
    Ok(())
}
