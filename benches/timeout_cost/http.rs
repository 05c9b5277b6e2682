//! A hyper server (HTTP/1.1, keep-alive) on loopback. It asks the server of the RPC for each answer, and limits the time
//! of that.

use std::convert::Infallible;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::contender::Contender;
use crate::load::{Client, Load};
use crate::loopback;
use crate::rpc::Server;

pub struct Http;

impl Load for Http {
    const NAME: &'static str = "hyper";

    async fn start<C: Contender>(limit: Duration) -> Vec<impl Client> {
        let backend = Server::spawn();
        let mut clients = Vec::new();
        for (client, server) in loopback::connections().await {
            tokio::spawn(serve::<C>(server, backend.clone(), limit));
            let (sender, connection) = handshake(TokioIo::new(client)).await.expect("the server answers");
            tokio::spawn(connection);
            clients.push(sender);
        }
        clients
    }
}

async fn serve<C: Contender>(stream: TcpStream, backend: Server, limit: Duration) {
    let answer = async |request: Request<Incoming>| {
        let number = request.uri().path()[1..].parse().expect("the path is a number");
        let answer = C::default().within(limit, backend.call(number)).await;
        let mut response = Response::new(Full::new(Bytes::from(answer.unwrap_or_default().to_string())));
        if answer.is_none() {
            *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
        }
        Ok::<_, Infallible>(response)
    };
    // It is no error that a client closes its connection.
    _ = Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await;
}

impl Client for SendRequest<Empty<Bytes>> {
    async fn step(&mut self, number: u64) -> bool {
        let request = Request::get(format!("/{number}")).header("host", "localhost").body(Empty::new());
        let response = self.send_request(request.expect("the request is valid")).await.expect("the server answers");
        let status = response.status();
        let body = response.into_body().collect().await.expect("the server sends the whole answer");
        status == StatusCode::OK && body.to_bytes() == (!number).to_string()
    }
}
