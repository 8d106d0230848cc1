//! Line plots and bars as server-side SVG. Colours come from the stylesheet; text is outside the drawing so that both scale with the
//! page.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::format;
use super::series::{SAMPLE_INTERVAL, Series};

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 120.0;

/// The unit of a plot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// A count or a rate.
    Count,
    /// Time, of which the upper bound of a bucket is known.
    AtMost,
    /// A fraction of one.
    Share,
    /// Memory.
    Bytes,
}

impl Unit {
    fn text(self, value: f64) -> String {
        match self {
            Unit::Count => format::short(value),
            Unit::AtMost => format::at_most(value, f64::INFINITY),
            Unit::Share => format!("{} %", format::short(value * 100.0)),
            Unit::Bytes => format::bytes(value),
        }
    }

    /// A value of the axis.
    fn scale(self, value: f64) -> String {
        if self == Unit::AtMost { format::seconds(value) } else { self.text(value) }
    }

    /// A round number of at least `most`.
    fn top(self, most: f64) -> f64 {
        if self != Unit::Bytes || most < 1.0 {
            return nice(most);
        }
        let unit = 1024f64.powf(most.log(1024.0).floor());
        nice(most / unit) * unit
    }
}

/// Lines over the last minutes with their latest values.
pub(super) fn lines(title: &str, series: &[(&str, &Series)], unit: Unit) -> Markup {
    let shown = |value| unit.text(value);
    let most = series.iter().flat_map(|(_, s)| &s.0).copied().fold(0.0, f64::max);
    let top = unit.top(most);
    let slots = slots(series.iter().map(|(_, s)| s.0.len()).max().unwrap_or(0));
    html! {
        figure.plot {
            figcaption {
                span.name { (title) }
                @for (index, (name, values)) in series.iter().enumerate() {
                    span.series.(format!("s{index}")) { @if series.len() > 1 { (name) " " } b { (shown(values.now())) } }
                }
            }
            div.drawing {
                svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img"
                    aria-label={ (title) ": " (accessible_text(series, unit)) } {
                    g.grid { @for part in 1..4 { path d={ "M0 " (HEIGHT * f64::from(part) / 4.0) " H" (WIDTH) } {} } }
                    @for (index, (_, values)) in series.iter().enumerate() {
                        @if values.runs().next().is_some() {
                            @if index == 0 { path.area.(format!("s{index}")) d=(area(values, top, slots)) {} }
                            path.line.(format!("s{index}")) d=(line(values, top, slots)) {}
                        }
                    }
                }
                span.top { (unit.scale(top)) }
                span.since { ((SAMPLE_INTERVAL * slots).as_secs() / 60) " min ago" }
                span.until { "now" }
            }
        }
    }
}

fn accessible_text(series: &[(&str, &Series)], unit: Unit) -> String {
    series.iter().map(|(name, s)| format!("{name} {}", unit.text(s.now()))).collect::<Vec<_>>().join(", ")
}

/// The next of 1, 2, 5, 10, …
fn nice(most: f64) -> f64 {
    if most <= 0.0 || !most.is_finite() {
        return 1.0;
    }
    let unit = 10f64.powf(most.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * unit).find(|top| *top >= most).unwrap_or(most)
}

/// Number of points on the axis: two, five or ten minutes.
fn slots(known: usize) -> u32 {
    [60, 150].into_iter().find(|slots| known <= *slots as usize + 1).unwrap_or(300)
}

/// The horizontal position of a value: the latest is at the right edge; missing history stays empty.
fn position(values: &Series, index: usize, slots: u32) -> f64 {
    let first = f64::from(slots) - (values.0.len() as f64 - 1.0);
    (first + index as f64) / f64::from(slots) * WIDTH
}

/// One line for each part without a gap.
fn line(values: &Series, top: f64, slots: u32) -> String {
    let mut path = String::new();
    for (begin, run) in values.runs() {
        push_line(values, (begin, run), top, slots, &mut path);
        if run.len() == 1 {
            // A single value is a dot.
            path.push_str("h0");
        }
    }
    path
}

fn push_line(values: &Series, (begin, run): (usize, &[f64]), top: f64, slots: u32, path: &mut String) {
    for (index, value) in run.iter().enumerate() {
        let x = position(values, begin + index, slots);
        let y = HEIGHT - (value / top).clamp(0.0, 1.0) * (HEIGHT - 4.0);
        let command = if index == 0 { 'M' } else { 'L' };
        // Writing to a String cannot fail.
        let _ = write!(path, "{command}{x:.1} {y:.1}");
    }
}

/// One area for each part without a gap.
fn area(values: &Series, top: f64, slots: u32) -> String {
    let mut path = String::new();
    for (begin, run) in values.runs().filter(|(_, run)| run.len() > 1) {
        push_line(values, (begin, run), top, slots, &mut path);
        let (first, last) = (position(values, begin, slots), position(values, begin + run.len() - 1, slots));
        let _ = write!(path, "L{last:.1} {HEIGHT}L{first:.1} {HEIGHT}Z");
    }
    path
}

/// A bar of the given fraction.
pub(super) fn bar(share: f64) -> Markup {
    let width = share.clamp(0.0, 1.0) * 100.0;
    html! {
        svg.bar viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true" {
            rect.track width="100" height="1" {}
            rect.fill width={ (format!("{width:.2}")) } height="1" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        for (most, top) in [(0.0, 1.0), (0.7, 1.0), (1.0, 1.0), (1.1, 2.0), (37.0, 50.0), (51.0, 100.0)] {
            assert!((nice(most) - top).abs() < 1e-9, "{most}");
        }
        assert_eq!(line(&Series(vec![0.0, 1.0]), 1.0, 300), "M598.0 120.0L600.0 4.0");
        let with_a_gap = Series(vec![0.0, 1.0, f64::NAN, 1.0]);
        assert_eq!(line(&with_a_gap, 1.0, 300), "M594.0 120.0L596.0 4.0M600.0 4.0h0");
        assert_eq!(area(&with_a_gap, 1.0, 300), "M594.0 120.0L596.0 4.0L596.0 120L594.0 120Z");
        assert_eq!([0, 61, 62, 151, 299].map(slots), [60, 60, 150, 150, 300]);
    }
}
