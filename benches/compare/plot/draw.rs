//! The plot of each workload, and its lines.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;

use super::axis::{Axis, Scale};
use crate::contender::Contender;
use crate::contender::corewheel::CoreWheel;
use crate::listed;
use crate::record::Line;
use crate::results::plan;
use crate::saved::SavedResults;
use crate::workload::{self, Workload};

const SIZE: (u32, u32) = (960, 480);
/// Width of the legend, and height of a line of it.
const LEGEND: u32 = 150;
const LINE: i32 = 24;
const MARGIN: u32 = 16;
const LABELS: (u32, u32) = (48, 72);
const FONT: &str = "sans-serif";
const DASH: u32 = 8;
const GAP: u32 = 4;

/// The plot of a workload.
pub struct Plot {
    pub file: &'static str,
    pub title: &'static str,
    x: Axis,
    y: Axis,
    lines: Lines,
}

/// The source of a line's points.
enum Lines {
    /// The first figure of each case that has a coordinate on the horizontal axis.
    Cases,
    /// The curve of the first case.
    Curve,
}

impl Workload {
    pub fn plot(self) -> Option<Plot> {
        let cost = Axis { label: "ns a pair", scale: Scale::Log };
        let percentile = Axis { label: "percentile", scale: Scale::Nines };
        let late = Axis { label: "ms late", scale: Scale::Log };
        let plot = |file, title, x, y, lines| Some(Plot { file, title, x, y, lines });
        match self {
            Self::W1 => {
                let x = Axis { label: "threads", scale: Scale::Doubling };
                plot("churn", "A pair over the number of threads", x, cost, Lines::Cases)
            }
            Self::W2 => {
                let x = Axis { label: "seconds", scale: Scale::Linear };
                let y = Axis { label: "MiB more than before", scale: Scale::Linear };
                plot("burst", "Resident memory over a burst", x, y, Lines::Curve)
            }
            Self::W3 => plot("storm", "Lateness in a storm", percentile, late, Lines::Curve),
            Self::W6 => plot("open-loop", "Lateness in the open loop", percentile, late, Lines::Curve),
            Self::W7 => {
                let x = Axis { label: "standing timers", scale: Scale::Log };
                plot("growth", "A pair over the number of standing timers", x, cost, Lines::Cases)
            }
            _ => None,
        }
    }
}

/// A contender and its points.
type Drawn = (&'static str, Vec<(f64, f64)>);

/// Draws the plots of all saved results into a directory.
pub fn all(saved: &SavedResults, scale: workload::Scale, directory: &Path) -> Result<(), Box<dyn Error>> {
    for workload in Workload::ALL {
        let Some(plot) = workload.plot() else { continue };
        let lines = plot.lines(saved, workload, scale);
        if !lines.is_empty() {
            plot.draw(&lines, &directory.join(plot.file).with_extension("svg"))?;
        }
    }
    Ok(())
}

impl Plot {
    fn draw(&self, lines: &[Drawn], file: &Path) -> Result<(), Box<dyn Error>> {
        let points = || lines.iter().flat_map(|(_, points)| points);
        let x = self.x.scale.span(points().map(|(x, _)| *x));
        let y = self.y.scale.span(points().map(|(_, y)| *y));

        let area = SVGBackend::new(file, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let (left, right) = area.split_horizontally(SIZE.0 - LEGEND);
        let mut chart = ChartBuilder::on(&left)
            .caption(self.title, (FONT, 22))
            .margin(MARGIN)
            .x_label_area_size(LABELS.0)
            .y_label_area_size(LABELS.1)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc(self.x.label)
            .y_desc(self.y.label)
            .label_style((FONT, 14))
            .draw()?;
        for (line, (contender, points)) in (1..).zip(lines) {
            let width = if *contender == <CoreWheel>::NAME { 4 } else { 2 };
            let (colour, is_dashed) = look(contender);
            let style = colour.stroke_width(width);
            let (points, height) = (points.iter().copied(), line * LINE);
            if is_dashed {
                chart.draw_series(DashedLineSeries::new(points, DASH, GAP, style))?;
                right.draw(&PathElement::new([(0, height), (DASH as i32, height)], style))?;
                right.draw(&PathElement::new([((DASH + GAP) as i32, height), (20, height)], style))?;
            } else {
                chart.draw_series(LineSeries::new(points, style))?;
                right.draw(&PathElement::new([(0, height), (20, height)], style))?;
            }
            right.draw(&Text::new(*contender, (28, height - 7), (FONT, 14)))?;
        }
        area.present()?;
        Ok(())
    }

    fn lines(&self, saved: &SavedResults, workload: Workload, scale: workload::Scale) -> Vec<Drawn> {
        let name = workload.name();
        let cases = plan(&listed::all(), workload, scale);
        let Some(first) = cases.first() else { return Vec::new() };
        let value = |case: &str, contender: &str| {
            let is_its = |line: &&Line| line.workload == name && line.case == case && line.contender == contender;
            saved.record.lines.iter().find(is_its)?.median
        };
        let points = |contender: &str| match self.lines {
            Lines::Curve => saved.curve(&name, &first.case, contender),
            Lines::Cases => {
                cases.iter().filter_map(|case| Some((case.x?, value(&case.case, contender)?.value))).collect()
            }
        };
        let drawn = first.rows.iter().map(|row| (row.contender, points(row.contender)));
        drawn.filter(|(_, points)| !points.is_empty()).collect()
    }
}

/// Returns the colour of a contender, the same in all plots, and whether its line is dashed, because another has a solid
/// one of that colour.
fn look(contender: &str) -> (RGBAColor, bool) {
    let index = listed::all().iter().position(|listed| listed.name == contender).unwrap_or(0);
    (Palette99::pick(index).to_rgba(), index >= Palette99::COLORS.len())
}
