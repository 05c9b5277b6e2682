//! An in-memory RPC: tasks send requests to the task of a server over a channel. A client limits the time of each call.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::contender::Contender;
use crate::load::{Client, Load, UNANSWERED};

const SERVERS: usize = 4;
const CLIENTS_A_SERVER: usize = 16;

/// The address of a server.
#[derive(Clone)]
pub struct Server(mpsc::Sender<Request>);

type Request = (u64, oneshot::Sender<u64>);

impl Server {
    pub fn spawn() -> Self {
        let (sender, mut requests) = mpsc::channel::<Request>(CLIENTS_A_SERVER);
        tokio::spawn(async move {
            let mut unanswered = Vec::new();
            while let Some((request, answer)) = requests.recv().await {
                if request == UNANSWERED {
                    unanswered.push(answer);
                } else {
                    answer.send(!request).expect("the client waits for the answer");
                }
            }
        });
        Self(sender)
    }

    pub async fn call(&self, request: u64) -> u64 {
        let (sender, answer) = oneshot::channel();
        self.0.send((request, sender)).await.expect("the server runs as long as it has clients");
        answer.await.expect("the server drops no request")
    }
}

pub struct Rpc;

impl Load for Rpc {
    const NAME: &'static str = "in-memory RPC";

    async fn start<C: Contender>(limit: Duration) -> Vec<impl Client> {
        let servers = (0..SERVERS).map(|_| Server::spawn());
        let client = |server| Caller { server, limit, contender: C::default() };
        servers.flat_map(|server| vec![server; CLIENTS_A_SERVER]).map(client).collect()
    }
}

struct Caller<C> {
    server: Server,
    limit: Duration,
    contender: C,
}

impl<C: Contender> Client for Caller<C> {
    async fn step(&mut self, request: u64) -> bool {
        self.contender.within(self.limit, self.server.call(request)).await == Some(!request)
    }
}
