//! Cost curves: growth with the size of the configuration.

use std::io::Write;

use anyhow::{Context as _, Result};

use super::measure::Figures;
use super::options::{Options, Work};
use super::process::Program;
use super::{measure_all, plot};

/// Maximum number of rules for a peer, which needs minutes for more.
const MOST_RULES_OF_A_PEER: usize = 10_000;
/// Numbers of metrics.
const METRICS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// A measured quantity.
struct Quantity {
    title: &'static str,
    unit: &'static str,
    digits: usize,
    pick: fn(&Figures) -> Option<f64>,
}

/// A scenario at growing sizes.
struct Sweep {
    work: Work,
    size: &'static str,
    set: fn(&mut Options, usize),
    quantities: &'static [Quantity],
}

const SWEEPS: [Sweep; 4] = [
    Sweep {
        work: Work::CheckRules,
        size: "rules",
        set: |options, rules| options.rules = rules,
        quantities: &[Quantity {
            title: "Check: CPU time per call",
            unit: "us",
            digits: 2,
            pick: |f| f.cpu_micros,
        }],
    },
    Sweep {
        work: Work::Report,
        size: "metrics",
        set: |options, metrics| options.metrics = metrics,
        quantities: &[Quantity {
            title: "Report: CPU time per bag",
            unit: "us",
            digits: 2,
            pick: |f| f.cpu_micros,
        }],
    },
    Sweep {
        work: Work::Edit,
        size: "rules",
        set: |options, rules| options.rules = rules,
        quantities: &[
            Quantity { title: "Edit of one rule until it serves", unit: "s", digits: 3, pick: |f| f.seconds },
            Quantity { title: "Edit of one rule, CPU time", unit: "s", digits: 3, pick: |f| f.cpu_seconds },
            Quantity { title: "Resident memory after edits", unit: "MB", digits: 1, pick: |f| f.megabytes },
        ],
    },
    Sweep {
        work: Work::Start,
        size: "rules",
        set: |options, rules| options.rules = rules,
        quantities: &[
            Quantity { title: "Start until it serves", unit: "s", digits: 3, pick: |f| f.seconds },
            Quantity {
                title: "Resident memory after the start",
                unit: "MB",
                digits: 1,
                pick: |f| f.megabytes,
            },
        ],
    },
];

/// A curve of one quantity per program; a point is a size and a value.
pub(crate) struct Panel {
    /// The quantity.
    pub(crate) title: String,
    /// The independent variable.
    pub(crate) size: &'static str,
    /// Name of the program and its points.
    pub(crate) curves: Vec<(String, Vec<(f64, f64)>)>,
}

/// Measures all curves, prints them as Markdown tables, and draws them into `--plot`.
pub(crate) fn run(
    runtime: &tokio::runtime::Runtime,
    options: &Options,
    programs: &[Program],
    out: &mut dyn Write,
) -> Result<()> {
    let mut panels = Vec::new();
    for sweep in &SWEEPS {
        let points = sweep.measure(runtime, options, programs)?;
        sweep.print(programs, &points, out)?;
        panels.extend(sweep.panels(programs, &points));
    }
    match &options.plot {
        Some(path) => plot::draw(&panels, path).with_context(|| format!("cannot draw {}", path.display())),
        None => Ok(()),
    }
}

/// The size, and the results of each measured program.
type Point = (usize, Vec<Option<Figures>>);

impl Sweep {
    fn sizes(&self, options: &Options) -> Vec<usize> {
        match self.size {
            "metrics" => METRICS.to_vec(),
            _ => std::iter::successors(Some(10), |size| Some(size * 10))
                .take_while(|size| *size <= options.most_rules)
                .collect(),
        }
    }

    fn measure(
        &self,
        runtime: &tokio::runtime::Runtime,
        options: &Options,
        programs: &[Program],
    ) -> Result<Vec<Point>> {
        let mut points = Vec::new();
        for size in self.sizes(options) {
            let mut options = options.clone();
            (self.set)(&mut options, size);
            let asked: Vec<Program> =
                programs.iter().filter(|p| p.is_own() || size <= MOST_RULES_OF_A_PEER).cloned().collect();
            let mut figures: Vec<Option<Figures>> =
                measure_all(runtime, &options, &asked, self.work)?.into_iter().map(Some).collect();
            figures.resize(programs.len(), None);
            points.push((size, figures));
        }
        Ok(points)
    }

    fn print(&self, programs: &[Program], points: &[Point], out: &mut dyn Write) -> Result<()> {
        write!(out, "| {} |", self.size)?;
        for quantity in self.quantities {
            for program in programs {
                write!(out, " {}, {} |", quantity.title, program.name)?;
            }
        }
        writeln!(out, "\n|{}", " --- |".repeat(1 + self.quantities.len() * programs.len()))?;
        for (size, figures) in points {
            write!(out, "| {size} |")?;
            for quantity in self.quantities {
                for figures in figures {
                    match figures.as_ref().and_then(quantity.pick) {
                        Some(value) => write!(out, " {value:.*} {} |", quantity.digits, quantity.unit)?,
                        None => write!(out, " |")?,
                    }
                }
            }
            writeln!(out)?;
        }
        writeln!(out)?;
        Ok(())
    }

    fn panels(&self, programs: &[Program], points: &[Point]) -> Vec<Panel> {
        let panel = |quantity: &Quantity| Panel {
            title: format!("{}, {}", quantity.title, quantity.unit),
            size: self.size,
            curves: programs
                .iter()
                .enumerate()
                .map(|(i, program)| {
                    let value = |figures: &[Option<Figures>]| {
                        figures.get(i).and_then(Option::as_ref).and_then(quantity.pick)
                    };
                    let known = points.iter().filter_map(|(size, f)| Some((*size as f64, value(f)?)));
                    (program.name.clone(), known.collect())
                })
                .collect(),
        };
        self.quantities.iter().map(panel).collect()
    }
}
