//! The origins: servers on loopback, of which some misbehave.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

use socket2::{Domain, Socket, Type};

/// Where each origin listens.
pub struct Origins {
    pub answers: SocketAddr,
    /// Accepts no connection: its queue is full.
    pub full: SocketAddr,
    /// Accepts connections, and answers nothing.
    pub silent: SocketAddr,
    /// Accepts connections, and reads nothing.
    pub deaf: SocketAddr,
    /// The queue of `full`, and what fills it.
    _queue: (Socket, Vec<Socket>),
}

impl Origins {
    pub fn start() -> io::Result<Self> {
        let (full, queue) = full()?;
        Ok(Self { answers: serve(answer)?, full, silent: serve(read)?, deaf: serve(keep)?, _queue: queue })
    }
}

/// Starts a server that handles each connection on a thread.
fn serve(handle: fn(TcpStream) -> io::Result<()>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || handle(stream));
        }
    });
    Ok(address)
}

/// Answers each request on the connection. None of them has a body.
fn answer(mut stream: TcpStream) -> io::Result<()> {
    for line in BufReader::new(stream.try_clone()?).lines() {
        if line?.is_empty() {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")?;
        }
    }
    Ok(())
}

/// Reads until the end, and answers nothing.
fn read(mut stream: TcpStream) -> io::Result<()> {
    io::copy(&mut stream, &mut io::sink()).map(drop)
}

/// Keeps the connection open for ever.
fn keep(stream: TcpStream) -> io::Result<()> {
    loop {
        thread::park();
        let _open = &stream;
    }
}

/// Listens with a queue that is full: the system drops what else wants to connect.
fn full() -> io::Result<(SocketAddr, (Socket, Vec<Socket>))> {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    listener.listen(0)?;
    let address = listener.local_addr()?;
    let fill = |_| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        // Under way, or refused by the full queue.
        let _ = socket.connect(&address);
        Ok(socket)
    };
    let fillers = (0..8).map(fill).collect::<io::Result<_>>()?;
    Ok((address.as_socket().expect("an address of IPv4"), (listener, fillers)))
}
