//! quinn's runtime trait: a QUIC endpoint takes its timers from a [`Timer`].
//!
//! [quinn.md] has a complete program.
//!
//! [quinn.md]: crate::guide::quinn

use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use quinn::{AsyncTimer, AsyncUdpSocket};

use crate::{Sleep, Timer};

/// A runtime that takes its tasks and sockets from another runtime, and its timers from a [`Timer`].
///
/// A shutdown of the [`Timer`] does not complete these timers. They are [sleeps after the
/// shutdown](Sleep#after-the-shutdown) then: no thread wakes a connection for its timeout or for a retransmission, and
/// the endpoint may never forget a closed connection. So close the endpoint first, and await
/// [`Endpoint::wait_idle`](quinn::Endpoint::wait_idle).
///
/// ```no_run
/// use corewheel::Timer;
/// use corewheel::quinn::Runtime;
/// use std::net::UdpSocket;
/// use std::sync::Arc;
///
/// fn endpoint() -> Result<quinn::Endpoint, Box<dyn std::error::Error>> {
/// let runtime = Runtime::new(Timer::new()?, Arc::new(quinn::TokioRuntime));
/// let socket = UdpSocket::bind("127.0.0.1:0")?;
/// Ok(quinn::Endpoint::new(quinn::EndpointConfig::default(), None, socket, Arc::new(runtime))?)
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Runtime {
    timer: Timer,
    others: Arc<dyn quinn::Runtime>,
}

impl Runtime {
    /// Creates a runtime with the tasks and sockets of `others`, and the timers of `timer`.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use corewheel::quinn::Runtime;
    /// use std::sync::Arc;
    ///
    /// let runtime = Runtime::new(Timer::new()?, Arc::new(quinn::TokioRuntime));
    /// # drop(runtime);
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn new(timer: Timer, others: Arc<dyn quinn::Runtime>) -> Self {
        Self { timer, others }
    }
}

impl quinn::Runtime for Runtime {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(self.timer.sleep_until(deadline).outlasting_shutdown())
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.others.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        self.others.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        self.timer.now()
    }
}

/// quinn resets the sleep itself, without a new allocation.
impl AsyncTimer for Sleep {
    fn reset(self: Pin<&mut Self>, deadline: Instant) {
        Sleep::reset(self, deadline);
    }

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Future::poll(self, context)
    }
}
