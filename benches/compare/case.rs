//! One measurement of a workload, to be made.

use crate::measured::Measured;

pub struct Case {
    pub name: String,
    /// Its place on the horizontal axis of a plot, if it has one.
    pub x: Option<f64>,
    /// Some callbacks keep their thread, which no waker may.
    pub blocks: bool,
    pub run: Box<dyn FnOnce() -> Measured>,
}

impl Case {
    pub fn new(name: impl Into<String>, run: impl FnOnce() -> Measured + 'static) -> Self {
        Self { name: name.into(), x: None, blocks: false, run: Box::new(run) }
    }

    pub fn at(self, x: usize) -> Self {
        Self { x: Some(x as f64), ..self }
    }

    pub fn blocking(self) -> Self {
        Self { blocks: true, ..self }
    }
}
