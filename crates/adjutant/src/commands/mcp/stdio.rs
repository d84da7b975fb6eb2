//! Lines to and from the client.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Stdin, Stdout};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// More than any server accepts. A longer line is truncated, and the server refuses it.
const MAX_LINE_BYTES: u64 = 64 << 20;

pub struct Input(BufReader<Stdin>);

impl Input {
    pub fn new() -> Self {
        Self(BufReader::new(tokio::io::stdin()))
    }

    /// The next line that is not empty; `None` at the end of the input.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            let mut line = Vec::new();
            let read =
                (&mut self.0).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await.ok()?;
            if read == 0 {
                return None;
            }
            if line.len() as u64 == MAX_LINE_BYTES && !line.ends_with(b"\n") {
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

/// Writes whole lines, also from concurrent tasks.
pub struct Output {
    stdout: Mutex<Stdout>,
    /// Cancelled when the client stops reading.
    pub closed: CancellationToken,
}

impl Output {
    pub fn new() -> Self {
        Self { stdout: Mutex::new(tokio::io::stdout()), closed: CancellationToken::new() }
    }

    pub async fn write(&self, line: &str) {
        let mut stdout = self.stdout.lock().await;
        // A line feed would split the message. JSON does not need one.
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
