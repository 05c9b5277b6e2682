//! One planned measurement of a workload.

use crate::measured::Measured;

pub struct Case {
    pub name: String,
    /// Coordinate on the horizontal axis of a plot, if the plot shows this case.
    pub x: Option<f64>,
    /// Some callbacks block their thread, which a waker must not do.
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
