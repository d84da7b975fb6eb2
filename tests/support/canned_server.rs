//! An HTTP server with prepared replies, for tests of the command line. It records the requests.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

#[derive(Debug, Clone)]
pub enum Reply {
    Json(u16, String),
    /// The connection is closed without an answer.
    CutOff,
    /// The connection stays open without an answer.
    Never,
}

#[derive(Debug, Clone)]
pub struct Request {
    /// Method, path and query.
    pub what: String,
    pub body: Value,
    pub authorization: Option<String>,
}

#[derive(Clone, Default)]
struct Book {
    replies: Arc<Mutex<VecDeque<Reply>>>,
    requests: Arc<Mutex<Vec<Request>>>,
}

pub struct CannedServer {
    address: SocketAddr,
    book: Book,
    /// Stopping it closes all connections.
    runtime: Option<Runtime>,
}

impl CannedServer {
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let book = Book {
            replies: Arc::new(Mutex::new(replies.into_iter().collect())),
            ..Book::default()
        };
        let (runtime, address) = serve("127.0.0.1:0", book.clone());
        Self { address, book, runtime: Some(runtime) }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Closes all connections, and returns when the address is free.
    pub fn stop(&mut self) {
        self.runtime.take().unwrap().shutdown_timeout(Duration::from_secs(10));
    }

    pub fn restart(&mut self) {
        let (runtime, _) = serve(&self.address.to_string(), self.book.clone());
        self.runtime = Some(runtime);
    }

    pub fn requests(&self) -> Vec<Request> {
        self.book.requests.lock().unwrap().clone()
    }

    /// Checks that these were the requests, in this order.
    #[track_caller]
    pub fn assert_requests(&self, expected: &[&str]) -> Vec<Request> {
        let requests = self.requests();
        let what: Vec<&str> = requests.iter().map(|requests| requests.what.as_str()).collect();
        assert_eq!(what, expected);
        requests
    }
}

impl Drop for CannedServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Binds outside of the new runtime, because the test may be inside of its own.
fn serve(address: &str, book: Book) -> (Runtime, SocketAddr) {
    let listener = std::net::TcpListener::bind(address).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(answer).with_state(book);
    let runtime = Runtime::new().unwrap();
    runtime
        .spawn(async move { axum::serve(TcpListener::from_std(listener).unwrap(), router).await });
    (runtime, address)
}

async fn answer(
    State(book): State<Book>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let authorization =
        headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    book.requests.lock().unwrap().push(Request {
        what: format!("{method} {uri}"),
        body,
        authorization,
    });
    let reply = book.replies.lock().unwrap().pop_front();
    match reply {
        Some(Reply::Json(status, text)) => {
            (StatusCode::from_u16(status).unwrap(), [("content-type", "application/json")], text)
                .into_response()
        }
        // A panic of the task that serves a connection closes it.
        Some(Reply::CutOff) => std::panic::resume_unwind(Box::new("cut off")),
        Some(Reply::Never) => std::future::pending().await,
        None => (StatusCode::INTERNAL_SERVER_ERROR, "an unexpected request").into_response(),
    }
}
