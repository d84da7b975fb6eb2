//! Connections: how many, how long a slow client may take, and how they end.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderValue, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::wire::Wire;
use crate::auth::Peer;

/// Whoever comes next waits in the system's queue.
const MAX_CONNECTIONS: usize = 16_384;

/// For the head of a request, also of the next one on a connection that is kept.
const HEAD: Duration = Duration::from_secs(60);

const MAX_HEADERS: usize = 100;

/// For the head of a request, all in all; one read more may come in before it is noticed.
const MAX_HEAD_BYTES: usize = 32 << 10;

/// For requests that are under way when we stop: longer than any answer takes that does not wait.
const GRACE: Duration = Duration::from_secs(20);

/// After a failed accept, which is most likely a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop`, tells those who wait by `stopping`, and returns when all is answered or the grace is over.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
    stopping: CancellationToken,
) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let open = TaskTracker::new();
    let accepting = async {
        loop {
            let Ok(place) = room.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, address)) => {
                    let (router, stopping) = (router.clone(), stopping.clone());
                    open.spawn(async move {
                        connection(stream, Peer(address.ip()), router, stopping).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!("cannot take in a connection: {error}");
                    tokio::time::sleep(PAUSE).await;
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
        tracing::warn!("{} connections had no end after {} s, and are cut", open.len(), GRACE.as_secs());
    }
}

/// One connection, until its client has enough or we stop: then the request that is under way is its last.
async fn connection(stream: TcpStream, peer: Peer, router: Router, stopping: CancellationToken) {
    // An answer is one small write; waiting for more would only delay it.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let service = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        let_go_of_the_buffer(&mut request);
        request.extensions_mut().insert(peer);
        service.call(request)
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(Wire::new(stream)), service);
    let mut serving = pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = stopping.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection ended badly: {error}");
    }
}

/// Copies the head of a request. It comes as slices of the buffer that it was read into, and would keep all of that for as long as
/// the request waits.
fn let_go_of_the_buffer(request: &mut Request<Incoming>) {
    if let Ok(uri) = request.uri().to_string().parse() {
        *request.uri_mut() = uri;
    }
    for value in request.headers_mut().values_mut() {
        if let Ok(copy) = HeaderValue::from_bytes(value.as_bytes()) {
            *value = copy;
        }
    }
}
