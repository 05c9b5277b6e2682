//! The proxy. Nothing in it names corewheel.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use pingora_core::server::Server;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, ErrorType};
use pingora_proxy::{ProxyHttp, Session, http_proxy_service};

use crate::Result;
use crate::origins::Origins;

/// The limits of a request to an origin.
pub struct Limits {
    pub connect: Duration,
    pub read: Duration,
    pub write: Duration,
}

pub const LIMITS: Limits =
    Limits { connect: Duration::from_millis(300), read: Duration::from_millis(400), write: Duration::from_millis(500) };
const START_LIMIT: Duration = Duration::from_secs(20);

/// Chooses the origin by the path.
struct Proxy(HashMap<&'static str, SocketAddr>);

#[async_trait]
impl ProxyHttp for Proxy {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn upstream_peer(&self, session: &mut Session, (): &mut ()) -> pingora_core::Result<Box<HttpPeer>> {
        let path = session.req_header().uri.path();
        let origin = self.0.get(path).ok_or_else(|| Error::new(ErrorType::HTTPStatus(404)))?;
        let mut peer = HttpPeer::new(*origin, false, String::new());
        peer.options.connection_timeout = Some(LIMITS.connect);
        peer.options.read_timeout = Some(LIMITS.read);
        peer.options.write_timeout = Some(LIMITS.write);
        Ok(Box::new(peer))
    }
}

/// Starts the proxy on threads of its own, until the process ends. Returns its address.
pub fn start(origins: &Origins) -> Result<SocketAddr> {
    // pingora binds by address, and does not say which port it has got.
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let paths =
        [("/answers", origins.answers), ("/full", origins.full), ("/silent", origins.silent), ("/deaf", origins.deaf)];
    let mut server = Server::new(None)?;
    server.bootstrap();
    let mut service = http_proxy_service(&server.configuration, Proxy(paths.into()));
    service.add_tcp(&address.to_string());
    server.add_service(service);
    thread::spawn(move || server.run_forever());
    let begun = Instant::now();
    while TcpStream::connect(address).is_err() {
        if begun.elapsed() > START_LIMIT {
            return Err("the proxy does not listen".into());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(address)
}
