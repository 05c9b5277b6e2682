//! The plot.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;

use crate::contender::Contender;
use crate::report::Row;

const SIZE: (u32, u32) = (960, 720);
/// Height of the legend, and width of an item of it.
const LEGEND: u32 = 32;
const ITEM: i32 = 230;
const MARGIN: u32 = 16;
const LABELS: (u32, u32) = (44, 52);
const FONT: &str = "sans-serif";
const OPERATIONS: [&str; 4] = ["W1: a pair", "W2: a `schedule`", "W4: a `reset`", "mixed: a timer"];
const CONTENDERS: [Contender; 4] = [Contender::Corewheel, Contender::CorewheelOfTwo, Contender::Heap, Contender::Wheel];

/// Draws transfers per operation over the number of threads.
pub fn draw(threads: &[usize], rows: &[Row], file: &Path) -> Result<(), Box<dyn Error>> {
    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let (panels, legend) = area.split_vertically(SIZE.1 - LEGEND);
    for (panel, operation) in panels.split_evenly((2, 2)).iter().zip(OPERATIONS) {
        let rows: Vec<_> = rows.iter().filter(|row| row.operation == operation).collect();
        let figures = || rows.iter().flat_map(|row| &row.figures);
        let most = figures().map(|figure| figure.total()).fold(1.0, f64::max);
        let last = threads.iter().copied().max().unwrap_or(1).max(2);
        let mut chart = ChartBuilder::on(panel)
            .caption(operation.replace('`', ""), (FONT, 18))
            .margin(MARGIN)
            .x_label_area_size(LABELS.0)
            .y_label_area_size(LABELS.1)
            .build_cartesian_2d((1_f64..last as f64).log_scale().base(2.0), 0.0..most * 1.05)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc("threads")
            .y_desc("transfers an operation")
            .x_label_formatter(&|threads| format!("{threads:.0}"))
            .label_style((FONT, 13))
            .draw()?;
        for row in rows {
            let points = threads.iter().zip(&row.figures).map(|(&threads, figure)| (threads as f64, figure.total()));
            let points: Vec<_> = points.collect();
            let style = style(row.contender);
            chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
            chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, style.filled())))?;
        }
    }
    for (number, contender) in (0..).zip(CONTENDERS) {
        let left = 24 + number * ITEM;
        legend.draw(&PathElement::new([(left, 8), (left + 20, 8)], style(contender)))?;
        legend.draw(&Text::new(contender.name(), (left + 28, 1), (FONT, 14)))?;
    }
    area.present()?;
    Ok(())
}

fn style(contender: Contender) -> ShapeStyle {
    let index = CONTENDERS.iter().position(|&other| other == contender).unwrap_or(0);
    let width = if contender == Contender::Corewheel { 4 } else { 2 };
    Palette99::pick(index).stroke_width(width)
}
