//! Draws curves on logarithmic axes.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::curves::Panel;

/// Panels per row.
const COLUMNS: usize = 2;
/// Width and height of a panel in pixels.
const PANEL: (u32, u32) = (520, 330);
/// A colour per program.
const COLOURS: [RGBColor; 4] =
    [RGBColor(11, 110, 153), RGBColor(200, 80, 30), RGBColor(60, 140, 60), RGBColor(120, 60, 150)];
/// Smallest value on the axis: a tick of CPU time.
const SMALLEST: f64 = 0.001;

/// Draws all panels into one SVG file.
pub(crate) fn draw(panels: &[Panel], path: &Path) -> Result<()> {
    let rows = panels.len().div_ceil(COLUMNS);
    let size = (PANEL.0 * COLUMNS as u32, PANEL.1 * u32::try_from(rows)?);
    let area = SVGBackend::new(path, size).into_drawing_area();
    area.fill(&WHITE).map_err(|e| anyhow!("{e}"))?;
    for (area, panel) in area.split_evenly((rows, COLUMNS)).iter().zip(panels) {
        draw_panel(area, panel).map_err(|e| anyhow!("{}: {e}", panel.title))?;
    }
    area.present().map_err(|e| anyhow!("{e}"))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_panel(area: &Area<'_>, panel: &Panel) -> Result<(), Box<dyn std::error::Error>> {
    let points = || panel.curves.iter().flat_map(|(_, points)| points.iter());
    let (mut left, mut right, mut low, mut high) = (f64::MAX, 1.0_f64, f64::MAX, SMALLEST);
    for (size, value) in points() {
        (left, right) = (left.min(*size), right.max(*size));
        (low, high) = (low.min(value.max(SMALLEST)), high.max(*value));
    }
    if left > right || low > high {
        return Ok(());
    }
    // Whole decades, so that slopes are comparable.
    let (low, high) = (10_f64.powf(low.log10().floor()), 10_f64.powf((high * 1.01).log10().ceil()));
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(38)
        .y_label_area_size(58)
        .build_cartesian_2d((left..right).log_scale(), (low..high).log_scale())?;
    chart
        .configure_mesh()
        .x_desc(panel.size)
        .x_label_formatter(&|size| format!("{size}"))
        .y_label_formatter(&|value| format!("{value}"))
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .draw()?;
    for ((name, points), colour) in panel.curves.iter().zip(COLOURS.iter().cycle()) {
        let points: Vec<(f64, f64)> = points.iter().map(|(x, y)| (*x, y.max(SMALLEST))).collect();
        chart
            .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?
            .label(name)
            .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(points.into_iter().map(|point| Circle::new(point, 3, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}
