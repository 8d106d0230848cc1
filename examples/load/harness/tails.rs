//! Latencies at fixed rates, without edits and with an edit of a rule every second.

use std::cell::Cell;
use std::io::Write;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::task::LocalSet;

use super::checks;
use super::client::{Call, Client, Plan};
use super::configuration;
use super::measure::Figures;
use super::options::{Options, Work};
use super::process::Program;
use super::scenario::{Stage, VARIETY, WARM_UP};

/// Fractions of the maximum rate.
const SHARES: [f64; 2] = [0.5, 0.8];
/// Time between edits.
const PAUSE: Duration = Duration::from_secs(1);

/// Latencies at one rate.
struct Row {
    share: f64,
    rate: f64,
    quiet: Figures,
    edited: Figures,
    edits: usize,
}

/// Measures each program and prints a Markdown table.
pub(crate) fn run(
    runtime: &tokio::runtime::Runtime,
    options: &Options,
    programs: &[Program],
    out: &mut dyn Write,
) -> Result<()> {
    writeln!(
        out,
        "| server | rate | calls per s | p50 quiet, edited | p99 quiet, edited | p99.9 quiet, edited | ratio | edits |"
    )?;
    writeln!(out, "|{}", " --- |".repeat(8))?;
    for program in programs {
        let runs = (0..options.runs)
            .map(|_| runtime.block_on(measure(options, program)).with_context(|| program.name.clone()))
            .collect::<Result<Vec<_>>>()?;
        for index in 0..SHARES.len() {
            let rows: Vec<&Row> = runs.iter().filter_map(|run| run.get(index)).collect();
            let Some(first) = rows.first() else { continue };
            let median = |pick: fn(&Row) -> Figures| {
                Figures::median(&rows.iter().map(|row| pick(row)).collect::<Vec<_>>())
            };
            let (quiet, edited) = (median(|row| row.quiet), median(|row| row.edited));
            let pair = |pick: fn(&Figures) -> Option<f64>| {
                let micros = |f: &Figures| pick(f).unwrap_or_default();
                format!("{:.0} us, {:.0} us", micros(&quiet), micros(&edited))
            };
            let ratio = edited.p999.unwrap_or_default() / quiet.p999.unwrap_or_default().max(1.0);
            writeln!(
                out,
                "| {} | {:.0} % | {:.0} | {} | {} | {} | {ratio:.2} | {} |",
                program.name,
                first.share * 100.0,
                first.rate,
                pair(|f| f.p50),
                pair(|f| f.p99),
                pair(|f| f.p999),
                rows.iter().map(|row| row.edits).sum::<usize>()
            )?;
        }
    }
    Ok(())
}

async fn measure(options: &Options, program: &Program) -> Result<Vec<Row>> {
    let stage = Stage::set(options, Work::Tails)?;
    let local = LocalSet::new();
    local.run_until(rows(options, program, &stage)).await.map_err(|error| stage.explain(error))
}

async fn rows(options: &Options, program: &Program, stage: &Stage) -> Result<Vec<Row>> {
    let (server, client) = stage.serve(options, program, options.connections).await?;
    let seconds = |part: f64| Duration::from_secs_f64(options.duration * part);
    let flat_out =
        Plan { streams: options.streams, duration: seconds(WARM_UP), calls: options.calls, rate: 0.0 };
    client.drive(&stage.calls, flat_out).await?;
    let seen = client.drive(&stage.calls, flat_out).await?;
    let highest = seen.calls as f64 / seen.took.as_secs_f64();

    let mut editor = Editor::new(options, stage)?;
    let mut rows = Vec::new();
    for share in SHARES {
        let rate = highest * share;
        let plan = Plan { duration: seconds(1.0), rate, ..flat_out };
        let seen = client.drive(&stage.calls, plan).await?;
        let quiet = Figures::of_load(&seen, Duration::ZERO, 1, server.resident()?);
        let (seen, edits) = editor.while_driving(&client, stage, plan).await?;
        let edited = Figures::of_load(&seen, Duration::ZERO, 1, server.resident()?);
        rows.push(Row { share, rate, quiet, edited, edits });
    }
    Ok(rows)
}

/// Disables and enables a rule.
struct Editor {
    configuration: PathBuf,
    rule: usize,
    rules: usize,
    exempt: bool,
    /// The call that the rule decides.
    body: Vec<u8>,
    refusal: i32,
}

impl Editor {
    fn new(options: &Options, stage: &Stage) -> Result<Self> {
        let check = checks::of_rules(VARIETY, options.rules).into_iter().nth(3).context("no check")?;
        let rule = 3_usize.wrapping_mul(7919) % options.rules.max(1);
        let configuration = stage.configuration();
        Ok(Self {
            configuration,
            rule,
            rules: options.rules,
            exempt: false,
            body: check.body,
            refusal: check.code,
        })
    }

    async fn edit(&mut self) -> Result<()> {
        self.exempt = !self.exempt;
        let (directory, rule, rules, exempt) =
            (self.configuration.clone(), self.rule, self.rules, self.exempt);
        // The clients run on this thread, which must not block on the disk.
        tokio::task::spawn_blocking(move || configuration::edit_rule(&directory, rule, rules, exempt)).await?
    }

    /// Drives the load with an edit every second. The last edit must take effect.
    async fn while_driving(
        &mut self,
        client: &Client,
        stage: &Stage,
        plan: Plan,
    ) -> Result<(super::client::Seen, usize)> {
        let driven = Rc::new(Cell::new(false));
        let calling = async {
            let seen = client.drive(&stage.calls, plan).await;
            driven.set(true);
            seen
        };
        let editing = async {
            let mut edits = 0;
            while !driven.get() {
                self.edit().await?;
                edits += 1;
                tokio::time::sleep(PAUSE).await;
            }
            anyhow::Ok(edits)
        };
        let (seen, edits) = tokio::join!(calling, editing);
        let (seen, edits) = (seen?, edits?);
        let expected = Call::check(&self.body, if self.exempt { 0 } else { self.refusal });
        client.verify(&expected).await.context("the last edit has no effect after a second")?;
        ensure!(edits > 0, "nothing was edited");
        Ok((seen, edits))
    }
}
