//! The wheel alone.

use super::scale::Scale;
use crate::case::Case;
use crate::harness::random::Random;
use crate::measured::{Measured, nanos};
use crate::queue::{Queue, measure};

pub fn cases<Q: Queue + 'static>(scale: Scale) -> Vec<Case> {
    let times = scale.pick(10_000_000, 500_000);
    vec![Case::new("10^5 waiting", move || wheel::<Q>(times))]
}

fn wheel<Q: Queue>(times: u64) -> Measured {
    let mut random = Random::new(0);
    let mut queue = measure::filled::<Q>(&mut random);
    let (inserting, removing) = measure::in_chunks(&mut queue, &mut random, times);
    let measured = Measured::default()
        .with("ns an insert", nanos(inserting) / times as f64)
        .with("ns a remove", nanos(removing) / times as f64);
    if !Q::STEPS {
        return measured;
    }
    measured.with("ns a value, advance", nanos(measure::drain::<Q>(&mut random)) / measure::WAITING as f64)
}
