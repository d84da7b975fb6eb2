//! A server of bytes: it says exactly what it was told to say, and then does what it was told to do.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

pub(super) enum Then {
    GoOn,
    Close,
    /// Says nothing more until the client has gone.
    Hang,
}

#[derive(Clone, Default)]
pub(super) struct Seen {
    /// Requests in the order in which they came: all of their head, and their body.
    pub requests: Arc<Mutex<Vec<(String, String)>>>,
    pub connections: Arc<Mutex<usize>>,
    /// A client has gone while it was hung on.
    pub gone: Arc<Notify>,
    pub said: Arc<Notify>,
}

pub(super) struct Server {
    pub base: String,
    pub seen: Seen,
}

impl Server {
    /// Answers request after request with these.
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

    pub(super) fn request(&self, n: usize) -> (String, String) {
        self.seen.requests.lock().unwrap()[n].clone()
    }
}

async fn serve(stream: TcpStream, answers: Arc<Mutex<std::vec::IntoIter<(String, Then)>>>, seen: Seen) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await {
        seen.requests.lock().unwrap().push(request);
        let next = answers.lock().unwrap().next();
        let Some((answer, then)) = next else { panic!("a call that no one expected") };
        stream.write_all(answer.as_bytes()).await.unwrap();
        seen.said.notify_one();
        match then {
            Then::GoOn => {}
            Then::Close => return,
            Then::Hang => {
                let _ = stream.read(&mut [0; 1]).await;
                seen.gone.notify_one();
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
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((head, String::from_utf8(body).ok()?))
}

/// An answer with all of its body.
pub(super) fn whole(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

/// The beginning of an answer in chunks, without its end.
pub(super) fn begun(body: &str) -> String {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    format!("{head}{:x}\r\n{body}\r\n", body.len())
}

/// A stream with its end.
pub(super) fn streamed(body: &str) -> String {
    begun(body) + "0\r\n\r\n"
}
