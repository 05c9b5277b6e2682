//! Sends a message to the thread that owns a connection when one of its timers fires.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use corewheel::{CancelOnDrop, Timer};
use mio::{Token, Waker};

use crate::timeouts::{Timeout, Timeouts};

/// Time after which a server that could not accept a connection tries again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A message to a thread of the server.
pub enum Message {
    /// This timer of this connection has fired.
    Expired(Token, Timeout),
    /// The thread is to accept connections again, after a pause.
    Accept,
    /// The thread is to end after its last connection.
    Stop,
}

/// Sends messages to a thread of the server, and wakes it.
pub struct Mailbox {
    messages: Sender<Message>,
    waker: Waker,
}

impl Mailbox {
    pub fn new(messages: Sender<Message>, waker: Waker) -> Self {
        Self { messages, waker }
    }

    /// Sends a message. Does nothing if the thread has ended, because it needs no message then.
    pub fn send(&self, message: Message) {
        if self.messages.send(message).is_ok() {
            self.waker.wake().expect("the thread's poll can be woken");
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
    /// Sends `Accept` to the thread after a pause.
    pub fn accept_later(&self) -> io::Result<()> {
        let mailbox = self.mailbox.clone();
        let accept = move || mailbox.send(Message::Accept);
        self.timer.schedule(ACCEPT_PAUSE, accept).map(drop).map_err(io::Error::other)
    }

    /// Starts a timer, which sends `Expired` to the thread when it fires. Dropping the result cancels it.
    pub fn arm(&self, token: Token, timeout: Timeout) -> io::Result<CancelOnDrop> {
        let mailbox = self.mailbox.clone();
        let expire = move || mailbox.send(Message::Expired(token, timeout));
        let handle = self.timer.schedule(self.timeouts.of(timeout), expire).map_err(io::Error::other)?;
        Ok(handle.cancel_on_drop())
    }
}
