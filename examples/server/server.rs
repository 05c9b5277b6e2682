//! The server: a few threads, each with an event loop and the connections that it has accepted.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{self, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};

use corewheel::Timer;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};

use crate::alarms::{Alarms, Mailbox, Message};
use crate::connection::{Closed, Connection};
use crate::timeouts::{Timeout, Timeouts};

const MAILBOX: Token = Token(0);
const LISTENER: Token = Token(1);
const FIRST_CONNECTION: Token = Token(2);

/// A running server.
pub struct Server {
    address: SocketAddr,
    mailboxes: Vec<Arc<Mailbox>>,
    threads: Vec<JoinHandle<io::Result<Vec<Closed>>>>,
}

impl Server {
    pub fn start(timer: &Timer, timeouts: Timeouts, threads: usize) -> io::Result<Self> {
        let listener = net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let mut server = Self { address, mailboxes: Vec::new(), threads: Vec::new() };
        for number in 0..threads {
            let worker = Worker::new(listener.try_clone()?, timer.clone(), timeouts)?;
            server.mailboxes.push(worker.alarms.mailbox.clone());
            let thread = thread::Builder::new().name(format!("server-{number}"));
            server.threads.push(thread.spawn(|| worker.run())?);
        }
        Ok(server)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until the peers have closed all remaining connections. Returns the connections that timers closed.
    pub fn stop(self) -> io::Result<Vec<Closed>> {
        for mailbox in self.mailboxes {
            mailbox.send(Message::Stop);
        }
        let mut closed = Vec::new();
        for thread in self.threads {
            closed.extend(thread.join().expect("a server thread does not panic")?);
        }
        Ok(closed)
    }
}

struct Worker {
    poll: Poll,
    listener: TcpListener,
    messages: Receiver<Message>,
    alarms: Alarms,
    connections: HashMap<Token, Connection>,
    /// Token of the next connection. No token is used twice, so a late message or event finds no other connection.
    next_token: Token,
    closed: Vec<Closed>,
}

impl Worker {
    fn new(listener: net::TcpListener, timer: Timer, timeouts: Timeouts) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut listener = TcpListener::from_std(listener);
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let (sender, messages) = mpsc::channel();
        let mailbox = Arc::new(Mailbox::new(sender, Waker::new(poll.registry(), MAILBOX)?));
        Ok(Self {
            poll,
            listener,
            messages,
            alarms: Alarms { timer, timeouts, mailbox },
            connections: HashMap::new(),
            next_token: FIRST_CONNECTION,
            closed: Vec::new(),
        })
    }

    fn run(mut self) -> io::Result<Vec<Closed>> {
        let mut events = Events::with_capacity(1024);
        let mut stopping = false;
        while !stopping || !self.connections.is_empty() {
            match self.poll.poll(&mut events, None) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                match event.token() {
                    MAILBOX => {}
                    LISTENER => self.accept()?,
                    token => self.serve(token),
                }
            }
            while let Ok(message) = self.messages.try_recv() {
                match message {
                    Message::Expired(token, timeout) => self.expire(token, timeout),
                    Message::Accept => self.accept()?,
                    Message::Stop => stopping = true,
                }
            }
        }
        Ok(self.closed)
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let (stream, peer) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // This peer gave up before it was accepted.
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset) => {
                    continue;
                }
                // Too many open files, perhaps. The listener reports no new event for the peers that wait already.
                Err(_) => return self.alarms.accept_later(),
            };
            let token = self.next_token;
            self.next_token.0 += 1;
            let mut connection = Connection::new(token, peer, stream, &self.alarms)?;
            let interests = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(connection.stream(), token, interests)?;
            self.connections.insert(token, connection);
        }
    }

    fn serve(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(&token) else {
            return;
        };
        if !connection.serve(&self.alarms).unwrap_or(false) {
            self.connections.remove(&token);
        }
    }

    fn expire(&mut self, token: Token, timeout: Timeout) {
        if let Some(connection) = self.connections.remove(&token) {
            self.closed.push(connection.expire(timeout));
        }
    }
}
