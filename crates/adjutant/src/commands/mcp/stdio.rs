//! Lines from the client, and lines to it.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Stdin, Stdout};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// More than any server takes: what is longer is cut, and refused for it.
const LONGEST: u64 = 64 << 20;

pub struct Input(BufReader<Stdin>);

impl Input {
    pub fn new() -> Self {
        Self(BufReader::new(tokio::io::stdin()))
    }

    /// The next line that has something in it; none at the end.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            let mut line = Vec::new();
            let read = (&mut self.0).take(LONGEST).read_until(b'\n', &mut line).await.ok()?;
            if read == 0 {
                return None;
            }
            if line.len() as u64 == LONGEST && !line.ends_with(b"\n") {
                self.skip_line().await?;
            }
            let line = String::from_utf8_lossy(&line);
            if !line.trim().is_empty() {
                return Some(line.trim().to_owned());
            }
        }
    }

    async fn skip_line(&mut self) -> Option<()> {
        loop {
            let buffer = self.0.fill_buf().await.ok()?;
            let (length, end) = (buffer.len(), buffer.iter().position(|byte| *byte == b'\n'));
            self.0.consume(end.map_or(length, |end| end + 1));
            if end.is_some() || length == 0 {
                return Some(());
            }
        }
    }
}

/// Whole lines, whoever writes them.
pub struct Output {
    stdout: Mutex<Stdout>,
    /// Nobody reads any more.
    pub closed: CancellationToken,
}

impl Output {
    pub fn new() -> Self {
        Self { stdout: Mutex::new(tokio::io::stdout()), closed: CancellationToken::new() }
    }

    pub async fn write(&self, line: &str) {
        let mut stdout = self.stdout.lock().await;
        // A line feed inside would be two messages; JSON needs none.
        let line = format!("{}\n", line.replace(['\n', '\r'], " "));
        let written = async {
            stdout.write_all(line.as_bytes()).await?;
            stdout.flush().await
        };
        if written.await.is_err() {
            self.closed.cancel();
        }
    }
}
