//! A TCP server that sends given bytes for each request, and then closes or hangs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

pub(super) enum Then {
    KeepAlive,
    Close,
    /// Sends nothing more until the client disconnects.
    Hang,
}

#[derive(Clone, Default)]
pub(super) struct Seen {
    /// The requests in order, each with its head and its body.
    pub requests: Arc<Mutex<Vec<(String, String)>>>,
    pub connections: Arc<Mutex<usize>>,
    /// A client has disconnected while the server hung.
    pub disconnected: Arc<Notify>,
    pub answered: Arc<Notify>,
}

pub(super) struct Server {
    pub base: String,
    pub seen: Seen,
}

impl Server {
    /// Sends one of these answers per request, in order.
    pub(super) async fn start(answers: Vec<(String, Then)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let seen = Seen::default();
        let answers = Arc::new(Mutex::new(answers.into_iter()));
        let all = seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                *all.connections.lock().unwrap() += 1;
                tokio::spawn(serve(stream, answers.clone(), all.clone()));
            }
        });
        Self { base, seen }
    }

    pub(super) async fn client_disconnects_within_a_second(&self) {
        tokio::time::timeout(Duration::from_secs(1), self.seen.disconnected.notified())
            .await
            .unwrap();
    }

    pub(super) fn request(&self, n: usize) -> (String, String) {
        self.seen.requests.lock().unwrap()[n].clone()
    }
}

async fn serve(
    stream: TcpStream,
    answers: Arc<Mutex<std::vec::IntoIter<(String, Then)>>>,
    seen: Seen,
) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await {
        seen.requests.lock().unwrap().push(request);
        let next = answers.lock().unwrap().next();
        let Some((answer, then)) = next else { panic!("unexpected request") };
        stream.write_all(answer.as_bytes()).await.unwrap();
        seen.answered.notify_one();
        match then {
            Then::KeepAlive => {}
            Then::Close => return,
            Then::Hang => {
                let _ = stream.read(&mut [0; 1]).await;
                seen.disconnected.notify_one();
                return;
            }
        }
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((head, String::from_utf8(body).ok()?))
}

/// A response with a complete body.
pub(super) fn whole(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

/// The start of a chunked response, without its end.
pub(super) fn partial(body: &str) -> String {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    format!("{head}{:x}\r\n{body}\r\n", body.len())
}

/// A complete chunked response.
pub(super) fn streamed(body: &str) -> String {
    partial(body) + "0\r\n\r\n"
}
