//! Connections on loopback.

use tokio::net::{TcpListener, TcpStream};

const CONNECTIONS: usize = 50;

/// Returns both ends of each connection, first the client's.
pub async fn connections() -> Vec<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let address = listener.local_addr().expect("a listener has an address");
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let client = TcpStream::connect(address).await.expect("the listener is open");
        let (server, _) = listener.accept().await.expect("a client has connected");
        for end in [&client, &server] {
            end.set_nodelay(true).expect("the connection is open");
        }
        connections.push((client, server));
    }
    connections
}
