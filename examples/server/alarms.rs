//! From a timer that fires to the thread that owns the connection.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use corewheel::{CancelOnDrop, Timer};
use mio::{Token, Waker};

use crate::timeouts::{Timeout, Timeouts};

/// What a thread of the server is told.
pub enum Letter {
    /// This timer of this connection has fired.
    Expired(Token, Timeout),
    /// To end with its last connection.
    Stop,
}

/// Where a thread of the server is told it.
pub struct Mailbox {
    letters: Sender<Letter>,
    waker: Waker,
}

impl Mailbox {
    pub fn new(letters: Sender<Letter>, waker: Waker) -> Self {
        Self { letters, waker }
    }

    /// A thread that has ended gets no letters, and misses none.
    pub fn post(&self, letter: Letter) {
        if self.letters.send(letter).is_ok() {
            self.waker.wake().expect("a thread that waits for events can be woken");
        }
    }
}

/// The timers of the connections of one thread.
pub struct Alarms {
    pub timer: Timer,
    pub timeouts: Timeouts,
    pub mailbox: Arc<Mailbox>,
}

impl Alarms {
    /// A timer that is cancelled when it is dropped. If it fires first, the thread is told.
    pub fn arm(&self, token: Token, timeout: Timeout) -> io::Result<CancelOnDrop> {
        let mailbox = self.mailbox.clone();
        let expire = move || mailbox.post(Letter::Expired(token, timeout));
        let handle = self.timer.schedule(self.timeouts.of(timeout), expire).map_err(io::Error::other)?;
        Ok(handle.cancel_on_drop())
    }
}
