//! A TCP proxy between a worker and its database, which can drop bytes and close connections.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sqlx::postgres::PgConnectOptions;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::support::world::World;

/// What the proxy does with bytes. It drops them without closing the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    Good,
    /// Drops what the database sends.
    Mute,
    /// Drops everything.
    Dead,
}

pub struct Proxy {
    port: u16,
    database: String,
    user: String,
    line: watch::Sender<Line>,
    /// Each change closes all connections.
    round: watch::Sender<u64>,
    sent: Arc<AtomicU64>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    pub async fn before(world: &World) -> Self {
        let options: PgConnectOptions = world.url().parse().unwrap();
        let socket = options.get_socket().expect("the test server has a unix socket");
        let socket = socket.join(format!(".s.PGSQL.{}", options.get_port()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (line, round) = (watch::Sender::new(Line::Good), watch::Sender::new(0));
        let sent = Arc::new(AtomicU64::new(0));
        let accepting =
            tokio::spawn(accept(listener, socket, (line.clone(), round.clone()), sent.clone()));
        let database = options.get_database().unwrap().to_owned();
        Self {
            port,
            database,
            user: options.get_username().to_owned(),
            line,
            round,
            sent,
            accepting,
        }
    }

    pub fn url(&self) -> String {
        format!(
            "postgres://{}@127.0.0.1:{}/{}?sslmode=disable",
            self.user, self.port, self.database
        )
    }

    /// The number of reads from workers, about one for each query.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }

    pub fn line_is(&self, line: Line) {
        self.line.send_replace(line);
    }

    /// Closes every connection; new ones are accepted.
    pub fn cut(&self) {
        self.round.send_modify(|round| *round += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(
    listener: TcpListener,
    socket: PathBuf,
    (line, round): (watch::Sender<Line>, watch::Sender<u64>),
    sent: Arc<AtomicU64>,
) {
    let socket = Arc::new(socket);
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let (line, mut round) = (line.subscribe(), round.subscribe());
        let (socket, sent) = (socket.clone(), sent.clone());
        tokio::spawn(async move {
            round.mark_unchanged();
            tokio::select! {
                () = carry(client, &socket, line, &sent) => {}
                _ = round.changed() => {}
            }
        });
    }
}

async fn carry(client: TcpStream, socket: &PathBuf, line: watch::Receiver<Line>, sent: &AtomicU64) {
    let Ok(server) = UnixStream::connect(socket).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let answered = AtomicU64::new(0);
    tokio::select! {
        () = copy(from_client, to_server, |line| line != Line::Dead, &line, sent) => {}
        () = copy(from_server, to_client, |line| line == Line::Good, &line, &answered) => {}
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    passes: impl Fn(Line) -> bool,
    line: &watch::Receiver<Line>,
    pieces: &AtomicU64,
) {
    let mut bytes = vec![0; 16384];
    while let Ok(count) = from.read(&mut bytes).await {
        if count == 0 {
            break;
        }
        pieces.fetch_add(1, Ordering::SeqCst);
        let passes = passes(*line.borrow());
        if passes && to.write_all(&bytes[..count]).await.is_err() {
            break;
        }
    }
}
