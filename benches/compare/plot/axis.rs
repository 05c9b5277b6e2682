//! The axes of the plots.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use crate::record::number;

/// Smallest value on a logarithmic axis; smaller ones are drawn there.
const LOG_MIN: f64 = 1e-3;
/// Position of 100 % on an axis of percentiles, which would be at infinity.
const NINES_MAX: f64 = 99.999;

#[derive(Clone, Copy)]
pub struct Axis {
    pub label: &'static str,
    pub scale: Scale,
}

#[derive(Clone, Copy)]
pub enum Scale {
    Linear,
    Log,
    /// Logarithmic, with labels at powers of two.
    Doubling,
    /// Percentiles on a logarithmic scale of the distance from 100.
    Nines,
}

/// The visible part of an axis.
pub struct Span {
    scale: Scale,
    /// Values with a label.
    labels: Vec<f64>,
    least: f64,
    most: f64,
}

impl Scale {
    /// Returns the smallest span between two labels that contains all values.
    pub fn span(self, values: impl Iterator<Item = f64> + Clone) -> Span {
        let least = values.clone().reduce(f64::min).unwrap_or(1.0);
        let most = values.reduce(f64::max).unwrap_or(1.0);
        let mut labels = self.labels(most);
        let first = labels.iter().rposition(|label| *label <= least).unwrap_or(0);
        let last = labels.iter().position(|label| *label >= most).unwrap_or(labels.len() - 1).max(first + 1);
        labels.truncate(last + 1);
        labels.drain(..first);
        let least = labels[0];
        let most = labels[labels.len() - 1];
        Span { scale: self, labels, least, most }
    }

    /// Returns the values that can have a label.
    fn labels(self, most: f64) -> Vec<f64> {
        match self {
            Self::Linear => {
                let tenth = 10_f64.powf((most / 10.0).log10().floor());
                let step = [1.0, 2.0, 5.0].map(|digit| digit * tenth).into_iter().find(|step| most <= 10.0 * step);
                (0..=10).map(|n| f64::from(n) * step.unwrap_or(10.0 * tenth)).collect()
            }
            Self::Log => (-3..10).flat_map(|n| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(n))).collect(),
            Self::Doubling => (0..20).map(|n| f64::from(1 << n)).collect(),
            Self::Nines => vec![0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0],
        }
    }

    fn position(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log | Self::Doubling => value.max(LOG_MIN).log10(),
            Self::Nines => -(1.0 - value.min(NINES_MAX) / 100.0).log10(),
        }
    }
}

impl Ranged for Span {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let [least, most, position] = [self.least, self.most, *value].map(|value| self.scale.position(value));
        from + ((position - least) / (most - least) * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.labels.clone()
    }

    fn range(&self) -> Range<f64> {
        self.least..self.most
    }
}

impl ValueFormatter<f64> for Span {
    fn format_ext(&self, value: &f64) -> String {
        if *value >= 1000.0 {
            return number(*value);
        }
        // The digits after the fourth are rounding errors of the steps.
        format!("{value:.4}").trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}
