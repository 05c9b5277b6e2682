//! The plots.

use std::error::Error;
use std::path::Path;

use plotters::coord::combinators::WithKeyPoints;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use crate::entrant::{self, REFERENCE};
use crate::report::number;
use crate::results::{Results, Row, Rows};
use crate::workload::Workload;

const SIZE: (u32, u32) = (900, 540);
const MARGIN: u32 = 16;
const LABELS: (u32, u32) = (48, 72);
const FONT: &str = "sans-serif";

/// What is drawn of a workload.
pub struct Plot {
    pub file: &'static str,
    pub title: &'static str,
    x: Axis,
    y: Axis,
    lines: Lines,
}

#[derive(Clone, Copy)]
struct Axis {
    label: &'static str,
    scale: Scale,
}

#[derive(Clone, Copy)]
enum Scale {
    Linear,
    Log,
    /// Percentiles, the more room the closer to 100.
    Nines,
}

/// From where the points of a line come.
enum Lines {
    /// The first figure of each case that has a place on the horizontal axis.
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
                let x = Axis { label: "threads", scale: Scale::Log };
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

/// Draws all plots into a directory.
pub fn all(results: &Results, directory: &Path) -> Result<(), Box<dyn Error>> {
    for (workload, cases) in &results.workloads {
        if let Some(plot) = workload.plot() {
            plot.draw(cases, &directory.join(plot.file).with_extension("svg"))?;
        }
    }
    Ok(())
}

impl Plot {
    fn draw(&self, cases: &[Rows], file: &Path) -> Result<(), Box<dyn Error>> {
        let lines = self.lines(cases);
        let points = || lines.iter().flat_map(|(_, points)| points);
        let x = self.x.span(points().map(|(x, _)| *x));
        let y = self.y.span(points().map(|(_, y)| *y));

        let area = SVGBackend::new(file, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
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
            .x_label_formatter(&|x| number(self.x.value(*x)))
            .y_label_formatter(&|y| number(self.y.value(*y)))
            .draw()?;
        for (contender, points) in &lines {
            let width = if *contender == REFERENCE { 4 } else { 2 };
            let style = colour(contender).stroke_width(width);
            let points = points.iter().map(|&(x, y)| (self.x.place(x), self.y.place(y)));
            chart
                .draw_series(LineSeries::new(points, style))?
                .label(*contender)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .label_font((FONT, 14))
            .draw()?;
        area.present()?;
        Ok(())
    }

    fn lines(&self, cases: &[Rows]) -> Vec<(&'static str, Vec<(f64, f64)>)> {
        let point = |case: &Rows, contender| {
            let row = case.rows.iter().find(|row| row.contender == contender)?;
            Some((case.x?, row.median(row.figures().next()?)?.value))
        };
        let line = |row: &Row| match self.lines {
            Lines::Curve => row.curve().to_vec(),
            Lines::Cases => cases.iter().filter_map(|case| point(case, row.contender)).collect(),
        };
        let rows = cases.first().into_iter().flat_map(|case| &case.rows);
        rows.map(|row| (row.contender, line(row))).filter(|(_, points)| !points.is_empty()).collect()
    }
}

impl Axis {
    /// From the least to the most, with the places that get a label.
    fn span(self, values: impl Iterator<Item = f64>) -> WithKeyPoints<RangedCoordf64> {
        let values: Vec<_> = values.map(|value| self.place(value)).collect();
        let least = values.iter().copied().reduce(f64::min).unwrap_or(0.0);
        let most = values.iter().copied().reduce(f64::max).unwrap_or(1.0).max(least + f64::EPSILON);
        let places: Vec<_> = self.labels(most).into_iter().map(|value| self.place(value)).collect();
        let below = places.iter().copied().filter(|place| *place <= least).reduce(f64::max).unwrap_or(least);
        let above = places.iter().copied().filter(|place| *place >= most).reduce(f64::min).unwrap_or(most);
        (below..above).with_key_points(places.into_iter().filter(|place| (below..=above).contains(place)).collect())
    }

    /// The values that can have a label.
    fn labels(self, most: f64) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = [1.0, 2.0, 5.0, 10.0].map(|step| step * 10_f64.powf((most / 10.0).log10().floor()));
                let step = step.into_iter().find(|step| most / step <= 10.0).unwrap_or(most);
                (0..=11).map(|n| f64::from(n) * step).collect()
            }
            Scale::Log => (-5..10).flat_map(|n| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(n))).collect(),
            Scale::Nines => vec![1.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0],
        }
    }

    fn place(self, value: f64) -> f64 {
        /// Where 100 % would be, which has no place.
        const ALL: f64 = 99.999;
        match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(1e-5).log10(),
            Scale::Nines => -(1.0 - value.min(ALL) / 100.0).log10(),
        }
    }

    fn value(self, place: f64) -> f64 {
        match self.scale {
            Scale::Linear => place,
            Scale::Log => 10_f64.powf(place),
            Scale::Nines => 100.0 * (1.0 - 10_f64.powf(-place)),
        }
    }
}

/// Each contender has the same in all plots.
fn colour(contender: &str) -> RGBAColor {
    let place = entrant::all().iter().position(|entrant| entrant.name == contender);
    Palette99::pick(place.unwrap_or(0)).to_rgba()
}
