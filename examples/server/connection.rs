//! One connection of the server. It echoes lines, and has two timers.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Instant;

use corewheel::CancelOnDrop;
use mio::Token;
use mio::net::TcpStream;

use crate::alarms::Alarms;
use crate::timeouts::Timeout;

/// A connection that a timer has closed.
pub struct Closed {
    pub peer: SocketAddr,
    pub timeout: Timeout,
    /// Start of the interval that the timer measures: it must not fire earlier than its duration after this.
    pub since: Instant,
    pub at: Instant,
}

/// An open connection. Dropping it closes it and cancels its timers.
pub struct Connection {
    token: Token,
    peer: SocketAddr,
    stream: TcpStream,
    idle: CancelOnDrop,
    request: Option<CancelOnDrop>,
    last_byte: Instant,
    first_byte: Instant,
    line: Vec<u8>,
    reply: Vec<u8>,
    /// A timer has fired, and the message that closes the connection follows. The connection serves nothing more.
    expired: bool,
}

impl Connection {
    pub fn new(token: Token, peer: SocketAddr, stream: TcpStream, alarms: &Alarms) -> io::Result<Self> {
        let now = Instant::now();
        Ok(Self {
            token,
            peer,
            stream,
            idle: alarms.arm(token, Timeout::Idle)?,
            request: None,
            last_byte: now,
            first_byte: now,
            line: Vec::new(),
            reply: Vec::new(),
            expired: false,
        })
    }

    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Reads and answers until the socket would block. Returns false if the peer has closed the connection.
    pub fn serve(&mut self, alarms: &Alarms) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        self.flush()?;
        while !self.expired {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => self.receive(&buffer[..count], alarms)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Closes the connection because one of its timers has fired.
    pub fn expire(self, timeout: Timeout) -> Closed {
        let since = match timeout {
            Timeout::Idle => self.last_byte,
            Timeout::Request => self.first_byte,
        };
        Closed { peer: self.peer, timeout, since, at: Instant::now() }
    }

    fn receive(&mut self, bytes: &[u8], alarms: &Alarms) -> io::Result<()> {
        let now = Instant::now();
        if !self.idle.reset(alarms.timeouts.idle) {
            self.expired = true;
            return Ok(());
        }
        self.last_byte = now;
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            if self.expired {
                break;
            }
            if self.request.is_none() {
                self.first_byte = now;
                self.request = Some(alarms.arm(self.token, Timeout::Request)?);
            }
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.reply.append(&mut self.line);
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Sends the reply. When all of it is sent and no other request has begun, cancels the request's timer.
    fn flush(&mut self) -> io::Result<()> {
        while !self.reply.is_empty() {
            match self.stream.write(&self.reply) {
                Ok(count) => drop(self.reply.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.line.is_empty()
            && let Some(request) = self.request.take()
        {
            self.expired = !request.cancel();
        }
        Ok(())
    }
}
