//! A TCP echo on loopback, with pipelined messages. The server limits the time of each read of a message.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, BufWriter};
use tokio::net::TcpStream;

use crate::contender::Contender;
use crate::load::{Client, Load, UNANSWERED};
use crate::loopback;

/// Number of messages that a client sends at once.
const WINDOW: usize = 16;

pub struct Echo;

impl Load for Echo {
    const NAME: &'static str = "pipelined TCP echo";
    const STEP: u64 = WINDOW as u64;

    async fn start<C: Contender>(limit: Duration) -> Vec<impl Client> {
        let start = |(client, server)| {
            tokio::spawn(serve::<C>(server, limit));
            client
        };
        loopback::connections().await.into_iter().map(start).collect()
    }
}

/// Echoes until the client closes the connection, or is late.
async fn serve<C: Contender>(mut stream: TcpStream, limit: Duration) {
    let (reader, writer) = stream.split();
    let mut reader = BufReader::new(reader);
    let mut writer = BufWriter::new(writer);
    let mut contender = C::default();
    while let Some(Ok(message)) = contender.within(limit, reader.read_u64()).await {
        writer.write_u64(message).await.expect("the client waits for the answer");
        if reader.buffer().is_empty() {
            writer.flush().await.expect("the client waits for the answer");
        }
    }
}

impl Client for TcpStream {
    async fn step(&mut self, request: u64) -> bool {
        let sent = [request.to_be_bytes(); WINDOW];
        if request != UNANSWERED {
            self.write_all(sent.as_flattened()).await.expect("the server reads");
        }
        let mut received = [[0; 8]; WINDOW];
        // The server closes the connection of a client that is late.
        self.read_exact(received.as_flattened_mut()).await.is_ok() && received == sent
    }
}
