//! A count in a child process.
//!
//! Each count runs in a process of its own. So no other count affects its memory addresses, and the same count always
//! has the same result.

use std::error::Error;
use std::io::Read;
use std::process::{Child, Command, Stdio};

use clap::ValueEnum;

use crate::contender::Contender;
use crate::measured::Measured;
use crate::workload::{Order, Workload};

/// A count that runs in a child process.
pub struct Running(Child);

impl Running {
    pub fn start(
        contender: Contender,
        workload: Workload,
        threads: usize,
        order: Order,
    ) -> Result<Self, Box<dyn Error>> {
        let name = |value: Option<clap::builder::PossibleValue>| value.map(|value| value.get_name().to_owned());
        let child = Command::new(std::env::current_exe()?)
            .arg("--child")
            .args(["--workloads".to_owned(), name(workload.to_possible_value()).unwrap_or_default()])
            .args(["--contenders".to_owned(), name(contender.to_possible_value()).unwrap_or_default()])
            .args(["--threads".to_owned(), threads.to_string()])
            .args(["--seed".to_owned(), order.seed.to_string()])
            .args(["--turn".to_owned(), order.mean_turn.to_string()])
            .stdout(Stdio::piped())
            .spawn()?;
        Ok(Self(child))
    }

    /// Waits for the end of the count, and returns the results.
    pub fn end(mut self) -> Result<Vec<Measured>, Box<dyn Error>> {
        let mut text = String::new();
        if let Some(mut output) = self.0.stdout.take() {
            output.read_to_string(&mut text)?;
        }
        if !self.0.wait()?.success() {
            return Err("a count has failed".into());
        }
        let measured: Option<_> = text.lines().map(Measured::parse).collect();
        Ok(measured.ok_or("a count has printed an invalid line")?)
    }
}
