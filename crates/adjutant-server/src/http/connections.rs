//! Connections: their number, timeouts for slow clients, and graceful shutdown.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::ErrorCode;
use axum::Router;
use axum::http::{HeaderValue, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::client_connection::{Addresses, ClientConnection, RETRY_AFTER};
use super::client_stream::ClientStream;
use crate::client_address::Peer;

/// Further connections wait in the backlog of the operating system.
const MAX_CONNECTIONS: usize = 16_384;

/// The time to read the head of a request, including the next one on a kept-alive connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);

const MAX_HEADERS: usize = 100;

/// How long a connection may have no request with a valid key.
const ANONYMOUS_TIME: Duration = Duration::from_secs(30);

/// The limit of the whole head. hyper checks it after each read, so one more read may pass.
const MAX_HEAD_BYTES: usize = 32 << 10;

/// The time that running requests have at shutdown: longer than any call that does not wait.
const GRACE: Duration = Duration::from_secs(20);

/// The time for a client to read that it has too many connections.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// The pause after a failed accept, most likely for lack of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Serves until `stop`, then cancels `stopping` so that waiting requests answer early, and returns
/// when all requests are answered or the grace period is over.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    addresses: Addresses,
    stop: CancellationToken,
    stopping: CancellationToken,
) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let open = TaskTracker::new();
    let accepting = async {
        loop {
            let Ok(permit) = permits.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, address)) => {
                    let (router, stopping) = (router.clone(), stopping.clone());
                    let (peer, client) = (Peer(address.ip()), addresses.admit(address.ip()));
                    open.spawn(async move {
                        match client {
                            Some(client) => {
                                connection(stream, peer, client, router, stopping).await
                            }
                            None => refuse(stream).await,
                        }
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!("accept failed: {error}");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        () = stop.cancelled() => {}
    }
    drop(listener);
    stopping.cancel();
    open.close();
    if tokio::time::timeout(GRACE, open.wait()).await.is_err() {
        tracing::warn!(
            "shutdown: closing {} connections that did not end within {} s",
            open.len(),
            GRACE.as_secs()
        );
    }
}

/// Answers a connection that its address has too many of, whatever it requests.
async fn refuse(mut stream: TcpStream) {
    let message = "This address has too many connections to this server; close some";
    let body = json!({"error": ErrorCode::RateLimited, "message": message}).to_string();
    let head = format!(
        "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: {}\r\n",
        RETRY_AFTER.as_secs()
    );
    let rest = format!("connection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    // A client that is gone does not need it. The request is read first: closing a connection with
    // unread bytes resets it, and the client would not see the answer.
    let answered = async {
        stream.readable().await?;
        let _ = stream.try_read(&mut [0; MAX_HEAD_BYTES]);
        stream.write_all((head + &rest).as_bytes()).await?;
        stream.shutdown().await
    };
    let _ = tokio::time::timeout(REFUSAL_TIMEOUT, answered).await;
}

/// Serves one connection until the client closes it, or until shutdown: then after the running
/// request.
async fn connection(
    stream: TcpStream,
    peer: Peer,
    client: ClientConnection,
    router: Router,
    stopping: CancellationToken,
) {
    // An answer is one small write, which Nagle's algorithm would only delay.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let service = TowerToHyperService::new(router);
    let own = client.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        release_buffer(&mut request);
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(own.clone());
        let (answering, own) = (service.call(request), own.clone());
        async move {
            let response = answering.await;
            own.request_ended();
            response
        }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(ClientStream::new(stream)), service);
    let mut serving = pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = stopping.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
        // A request that has begun may still turn out to have a key.
        () = client.anonymous_for(ANONYMOUS_TIME) => {
            serving.as_mut().graceful_shutdown();
            tokio::select! {
                ended = serving => ended,
                () = client.anonymous_for(ANONYMOUS_TIME) => Ok(()),
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!("connection failed: {error}");
    }
}

/// Copies the head of a request. Its parts are slices of the read buffer, and would keep the whole
/// buffer in memory for as long as the request waits.
fn release_buffer(request: &mut Request<Incoming>) {
    if let Ok(uri) = request.uri().to_string().parse() {
        *request.uri_mut() = uri;
    }
    for value in request.headers_mut().values_mut() {
        if let Ok(copy) = HeaderValue::from_bytes(value.as_bytes()) {
            *value = copy;
        }
    }
}
