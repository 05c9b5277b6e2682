//! One measurement of a workload, to be made.

use crate::measured::Measured;

pub struct Case {
    pub name: String,
    /// Its place on the horizontal axis of a plot, if it has one.
    pub x: Option<f64>,
    pub run: Box<dyn FnOnce() -> Measured>,
}

impl Case {
    pub fn new(name: impl Into<String>, run: impl FnOnce() -> Measured + 'static) -> Self {
        Self { name: name.into(), x: None, run: Box::new(run) }
    }

    pub fn at(self, x: usize) -> Self {
        Self { x: Some(x as f64), ..self }
    }
}
