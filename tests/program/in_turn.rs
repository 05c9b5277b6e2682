//! An executor that runs one callback at a time, in whichever shard.

use std::sync::Mutex;

use corewheel::Execute;

use crate::common::Job;

#[derive(Default)]
pub struct InTurn(Mutex<()>);

impl Execute for InTurn {
    fn execute(&self, job: Job) {
        let _turn = self.0.lock();
        job();
    }
}
