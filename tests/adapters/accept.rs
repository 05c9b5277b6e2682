//! The accept loop of the page survives a time of too many open files. A test binary of its own, because it lowers the
//! limit of the process.

#[path = "../common/mod.rs"]
mod common;

use std::fs::File;
use std::io::ErrorKind::{ConnectionAborted, ConnectionReset};
use std::iter;
use std::time::{Duration, Instant};

use common::MS;
use corewheel::Timer;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Builder;

/// Accepts the next connection. Goes on after an error, which must not end the server.
async fn accept(listener: &TcpListener, timer: &Timer) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // This peer has gone.
            Err(error) if matches!(error.kind(), ConnectionAborted | ConnectionReset) => {}
            // Too many open files, perhaps. Without a pause the loop would only use the processor.
            Err(error) => {
                eprintln!("accept: {error}");
                timer.sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

#[test]
fn the_page_has_this_loop() {
    let source = include_str!("accept.rs");
    let from_the_doc = &source[source.find("/// Accepts the next").unwrap()..];
    let function = from_the_doc.split_inclusive("\n}\n").next().unwrap();
    let page = include_str!("../../docs/embedding/servers.md");
    assert!(page.contains(function), "the page's loop differs from\n{function}");
}

#[test]
fn too_many_open_files_do_not_end_the_server() {
    let timer = Timer::new().unwrap();
    Builder::new_current_thread().enable_io().build().unwrap().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpSocket::new_v4().unwrap();
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, 64, most).unwrap();
        let files: Vec<_> = iter::from_fn(|| File::open("/dev/null").ok()).collect();
        assert!(!files.is_empty());
        let _client = client.connect(address).await.unwrap();
        assert!(listener.accept().await.is_err(), "there is a descriptor left");

        let start = Instant::now();
        let close_later = async {
            timer.sleep(250 * MS).await;
            drop(files);
        };
        let (stream, ()) = tokio::join!(accept(&listener, &timer), close_later);
        assert_eq!(stream.local_addr().unwrap(), address);
        assert!(start.elapsed() >= 250 * MS);
    });
}
