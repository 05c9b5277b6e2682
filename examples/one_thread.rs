//! A line server with one thread for all of its work: sockets and timeouts.
//!
//! ```text
//! cargo run --release --example one_thread
//! ```
//!
//! The thread waits in `mio`, until a socket is ready or a timer is due. It drives the timers itself, by a `Driver`. A
//! connection has a limit for its first line, then an idle timeout that each line resets, and a limit for output that
//! the socket does not take.
//!
//! The process has one thread more: the service's own. It is parked before the first connection, and does not wake while
//! the server runs. On Linux, the server checks this by the context switches of its threads.
//!
//! The clients are threads of another process. Most talk; some never send a line, some fall silent, and some do not
//! read. Exactly these must be closed, each by the right timeout and not before its time.

#[macro_use]
mod output;

use std::collections::HashMap;
use std::error::Error;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};
use std::{env, fs, iter, net, process, thread};

use bpaf::{Parser, long};
use corewheel::{CancelOnDrop, Executor, Timer};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

/// Limit for the first line, then for the pause after each line, and for output that waits for the socket.
const HELLO: Duration = Duration::from_millis(1000);
const IDLE: Duration = Duration::from_millis(2000);
const WRITE: Duration = Duration::from_millis(1200);

/// From a client's line to its next one.
const PAUSE: Duration = Duration::from_millis(200);
const CLIENTS: usize = 100;
const LISTENER: Token = Token(CLIENTS);
const WAKER: Token = Token(CLIENTS + 1);

/// How a connection ends.
#[derive(Clone, Copy)]
enum End {
    Silent,
    Stuck,
    ByClient,
}

/// Of twenty clients, one sends no line, one falls silent, and one does not read.
const EXPECTED: [usize; 3] = [CLIENTS / 20 * 2, CLIENTS / 20, CLIENTS / 20 * 17];

fn main() -> Result<(), Box<dyn Error>> {
    // With this option, the program is the clients of a server at this address.
    let clients_of = long("clients-of").argument::<SocketAddr>("ADDRESS").hide().optional().to_options();
    let description = "Serves clients of which some stall, on one thread, and checks that exactly these are closed.";
    match clients_of.descr(description).run() {
        Some(server) => run_clients(server),
        None => serve(),
    }
}

/// Wakes the loop, and counts how often.
struct LoopWaker(mio::Waker, AtomicUsize);

impl Wake for LoopWaker {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, Ordering::Relaxed);
        _ = self.0.wake();
    }
}

fn serve() -> Result<(), Box<dyn Error>> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind("127.0.0.1:0".parse()?)?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;

    let timer = Timer::builder().shards(1).executor(Executor::Inline).build()?;
    let mut driver = timer.take_driver().ok_or("another loop has the shard, or the time is virtual")?;
    let waker = Arc::new(LoopWaker(mio::Waker::new(poll.registry(), WAKER)?, AtomicUsize::new(0)));
    driver.set_waker(&Waker::from(waker.clone()));
    // Callbacks run inside `drive`. Each says which connection must end, and the loop ends it after `drive`.
    let (late, is_late) = channel();
    let arm = |after, token: Token, end: End| {
        let late = late.clone();
        let timer = timer.schedule(after, move || _ = late.send((token, end)));
        timer.expect("the timer is not shut down").cancel_on_drop()
    };

    // Time for the service's own thread to park.
    thread::sleep(PAUSE);
    let others = other_threads();
    let address = listener.local_addr()?.to_string();
    let mut clients = process::Command::new(env::current_exe()?).arg("--clients-of").arg(address).spawn()?;
    let mut connections = HashMap::new();
    let mut accepted = 0;
    let mut ends = [0; EXPECTED.len()];
    let mut events = Events::with_capacity(256);
    let mut turns = 0;
    while accepted < CLIENTS || !connections.is_empty() {
        let wait = driver.next_wakeup().map(|at| at.saturating_duration_since(Instant::now()));
        match poll.poll(&mut events, wait) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            done => done?,
        }
        turns += 1;
        for event in &events {
            match event.token() {
                WAKER => {}
                LISTENER => {
                    while let Some((mut stream, _)) = unless_blocked(listener.accept())? {
                        let token = Token(accepted);
                        accepted += 1;
                        poll.registry().register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
                        let silent = arm(HELLO, token, End::Silent);
                        let (input, output) = (Vec::new(), Vec::new());
                        connections.insert(token, Connection { stream, input, output, silent, stuck: None });
                    }
                }
                token => {
                    let Some(connection) = connections.get_mut(&token) else { continue };
                    if connection.serve(|| arm(WRITE, token, End::Stuck)).is_err() {
                        connections.remove(&token);
                        ends[End::ByClient as usize] += 1;
                    }
                }
            }
        }
        // After the events: a connection that has just sent a line is not idle.
        driver.drive();
        for (token, end) in is_late.try_iter() {
            ends[end as usize] += usize::from(connections.remove(&token).is_some());
        }
    }
    let others_now = other_threads();
    let is_ok = clients.wait()?.success();

    let stats = timer.stats();
    let row = |name: &str, value: String| println!("{name:<42}{value:>10}");
    row("threads that serve", "1".to_owned());
    row("other threads of the process, all parked", others_now.as_ref().map_or("?".into(), |it| it.len().to_string()));
    row("turns of the loop", turns.to_string());
    row("  begun by the timer's waker", waker.1.load(Ordering::Relaxed).to_string());
    row("timers scheduled", stats.scheduled.to_string());
    row("  resets by lines", stats.resets.to_string());
    row("  that fired", stats.fired.to_string());
    row("    lateness, p50", format!("{:.1?}", stats.lateness.quantile(0.5)));
    assert!(is_ok, "a client was not served, or was closed too early or not at all");
    assert_eq!(ends, EXPECTED, "connections that were silent, were stuck, or closed by the client");
    assert_eq!(others, others_now, "another thread woke (threads, with their context switches)");
    println!("\nok: exactly the silent and the stuck connections were closed, and no other thread woke");
    Ok(())
}

struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    silent: CancelOnDrop,
    stuck: Option<CancelOnDrop>,
}

impl Connection {
    /// Echoes lines until the socket has no more, or takes no more. An error ends the connection.
    fn serve(&mut self, arm_stuck: impl Fn() -> CancelOnDrop) -> io::Result<()> {
        let mut buffer = [0; 4096];
        loop {
            // First the output: the server does not read from a client that does not read.
            while !self.output.is_empty() {
                let Some(written) = unless_blocked(self.stream.write(&self.output))? else {
                    self.stuck.get_or_insert_with(arm_stuck);
                    return Ok(());
                };
                self.output.drain(..written);
                self.stuck = None;
            }
            // A server that has more traffic limits what one connection may read in a turn.
            let Some(read) = unless_blocked(self.stream.read(&mut buffer))? else { return Ok(()) };
            if read == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.input.extend_from_slice(&buffer[..read]);
            if let Some(end) = self.input.iter().rposition(|&byte| byte == b'\n') {
                self.output.extend(self.input.drain(..=end));
                self.silent.reset(IDLE);
            }
        }
    }
}

fn unless_blocked<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        done => done.map(Some),
    }
}

/// Returns the threads of this process beside the main one, each with the number of times it went to sleep. Linux only.
fn other_threads() -> Option<Vec<(u32, String)>> {
    let tasks = fs::read_dir("/proc/self/task").ok()?;
    let threads = tasks.map(|task| {
        let task = task.ok()?;
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let sleeps = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        Some((task.file_name().to_str()?.parse().ok()?, sleeps.trim().to_owned()))
    });
    let threads: Option<Vec<_>> = threads.collect();
    Some(threads?.into_iter().filter(|(thread, _)| *thread != process::id()).collect())
}

fn run_clients(server: SocketAddr) -> Result<(), Box<dyn Error>> {
    let run = |index| move || client(server, index).unwrap_or_else(|error| panic!("client {index}: {error}"));
    let clients: Vec<_> = (0..CLIENTS).map(|index| thread::spawn(run(index))).collect();
    let failed = clients.into_iter().map(thread::JoinHandle::join).filter(Result::is_err).count();
    if failed == 0 { Ok(()) } else { Err(format!("{failed} clients failed").into()) }
}

fn client(server: net::SocketAddr, index: usize) -> io::Result<()> {
    let mut line = [b'.'; 1000];
    line[999] = b'\n';
    let mut start = Instant::now();
    let mut stream = net::TcpStream::connect(server)?;
    // Longer than any timeout of the server.
    stream.set_read_timeout(Some(10 * IDLE))?;
    stream.set_write_timeout(Some(10 * IDLE))?;
    let (lines, limit) = match index % 20 {
        0 => (0, Some(HELLO)),
        1 => (3, Some(IDLE)),
        2 => {
            let error = iter::repeat_with(|| stream.write_all(&line)).find_map(Result::err).expect("no other end");
            assert!((WRITE..10 * IDLE).contains(&start.elapsed()), "closed too early, or not at all: {error}");
            return Ok(());
        }
        // Talks for longer than `IDLE`.
        _ => (15, None),
    };
    for _ in 0..lines {
        thread::sleep((start + PAUSE).saturating_duration_since(Instant::now()));
        start = Instant::now();
        stream.write_all(&line)?;
        stream.read_exact(&mut line)?;
    }
    if let Some(limit) = limit {
        assert_eq!(stream.read(&mut line)?, 0, "the server closes");
        assert!(start.elapsed() >= limit, "closed too early");
    }
    Ok(())
}
