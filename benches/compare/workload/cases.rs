//! The cases of each workload.

use super::list::Workload;
use super::scale::Scale;
use super::{asleep, burst, churn, idle, open_loop, punctual, rearm, slow, storm};
use crate::case::Case;
use crate::contender::Contender;

impl Workload {
    /// Returns the cases of a contender.
    pub fn cases<C: Contender>(self, scale: Scale) -> Vec<Case> {
        match self {
            Self::W1 | Self::W1c | Self::W7 => churn::cases::<C>(self, scale),
            Self::W2 => burst::cases::<C>(scale),
            Self::W3 => storm::cases::<C>(scale),
            Self::W4 => rearm::cases::<C>(scale),
            Self::W5 => idle::cases::<C>(scale),
            Self::W6 => open_loop::cases::<C>(scale),
            Self::W8 => slow::cases::<C>(scale),
            Self::W9 => asleep::cases::<C>(scale),
            Self::W10 => punctual::cases::<C>(scale),
            // Its contenders are queues.
            Self::W11 | Self::Wheel => Vec::new(),
        }
    }
}
