//! The result of a measurement.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The figures of one run, the most important first, and a curve for the plot.
#[derive(Default, Serialize, Deserialize)]
pub struct Measured {
    pub figures: Vec<(String, f64)>,
    pub curve: Vec<(f64, f64)>,
}

impl Measured {
    pub fn with(mut self, name: &str, value: f64) -> Self {
        self.figures.push((name.to_owned(), value));
        self
    }

    /// Adds percentiles of values in nanoseconds, and their maximum, in units of `unit` nanoseconds.
    pub fn with_percentiles(self, of: &str, recorded: &Histogram<u64>, unit: f64, percentiles: &[f64]) -> Self {
        let value = |percentile| recorded.value_at_percentile(percentile) as f64 / unit;
        let all = percentiles
            .iter()
            .fold(self, |measured, &percentile| measured.with(&format!("{of}, p{percentile}"), value(percentile)));
        all.with(&format!("{of}, max"), recorded.max() as f64 / unit)
    }
}

/// Returns an empty histogram for durations in nanoseconds.
pub fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("3 significant digits are valid")
}

pub fn nanos(duration: Duration) -> f64 {
    duration.as_nanos() as f64
}
