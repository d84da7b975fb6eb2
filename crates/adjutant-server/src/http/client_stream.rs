//! The byte stream of a connection. It times out on a client that does not read, and adds the JSON
//! body of our errors to the refusals that hyper writes by itself.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use adjutant_agent::ErrorCode;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A client that reads nothing for this long is disconnected, which frees its connection.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// The header of a response without a body.
const NO_BODY: &[u8] = b"content-length: 0\r\n";

/// A stream to a client.
pub(super) struct ClientStream<S> {
    stream: S,
    /// Runs while the client does not read.
    timeout: Option<Pin<Box<Sleep>>>,
    /// The rest of a response that replaces a write of hyper, and the length of that write.
    replacement: Option<(Vec<u8>, usize)>,
}

impl<S> ClientStream<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, timeout: None, replacement: None }
    }
}

impl<S: AsyncWrite + Unpin> ClientStream<S> {
    /// The result of a poll, or an error if the stream has been pending for too long.
    fn with_timeout<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.timeout = None;
            return polled;
        }
        let timeout = self.timeout.get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
        ready!(timeout.as_mut().poll(context));
        timeout.as_mut().reset(Instant::now() + WRITE_TIMEOUT);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }

    fn write_replacement(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        while let Some((rest, length)) = &mut self.replacement {
            if rest.is_empty() {
                let length = *length;
                self.replacement = None;
                return Poll::Ready(Ok(length));
            }
            let polled = Pin::new(&mut self.stream).poll_write(context, rest);
            if let Poll::Ready(Ok(written)) = &polled {
                rest.drain(..*written);
            }
            ready!(self.with_timeout(context, polled))?;
        }
        Poll::Ready(Ok(0))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ClientStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ClientStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.replacement.is_none() {
            self.replacement = with_body(bytes).map(|answer| (answer, bytes.len()));
        }
        if self.replacement.is_some() {
            return self.write_replacement(context);
        }
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.with_timeout(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(first) = parts.iter().find(|part| !part.is_empty())
            && (self.replacement.is_some() || is_refusal_without_body(first))
        {
            return self.poll_write(context, first);
        }
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.with_timeout(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.with_timeout(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.with_timeout(context, polled)
    }
}

/// Whether these bytes are a refusal that hyper wrote by itself: those of our routes have a body.
fn is_refusal_without_body(bytes: &[u8]) -> bool {
    bytes.starts_with(b"HTTP/1.1 4") && bytes.windows(NO_BODY.len()).any(|window| window == NO_BODY)
}

/// The same refusal with the body of our errors.
fn with_body(bytes: &[u8]) -> Option<Vec<u8>> {
    if !is_refusal_without_body(bytes) {
        return None;
    }
    let head = std::str::from_utf8(bytes).ok()?;
    let (code, message) = if head.starts_with("HTTP/1.1 431") {
        (
            ErrorCode::HeadersTooLarge,
            "The head of the request is too large, or has too many headers",
        )
    } else {
        (ErrorCode::InvalidArgument, "request: is not HTTP/1.1")
    };
    let body = json!({"error": code, "message": message}).to_string();
    let length = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    Some((head.replacen("content-length: 0\r\n", &length, 1) + &body).into_bytes())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_write_to_a_client_that_does_not_read_times_out() {
        let (here, there) = duplex(64);
        let mut stream = ClientStream::new(here);
        let started = Instant::now();
        let error = stream.write_all(&[b'x'; 1000]).await.unwrap_err();
        assert_eq!((error.kind(), started.elapsed().as_secs()), (io::ErrorKind::TimedOut, 30));
        drop(there);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_gets_everything() {
        let (here, mut there) = duplex(64);
        let mut stream = ClientStream::new(here);
        let writing = tokio::spawn(async move { stream.write_all(&[b'x'; 640]).await });
        let mut read = Vec::new();
        while read.len() < 640 {
            sleep(WRITE_TIMEOUT - Duration::from_secs(1)).await;
            there.read_buf(&mut read).await.unwrap();
        }
        writing.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_body_is_added_only_to_a_refusal_without_one() {
        let mut stream = ClientStream::new(Vec::new());
        let bare = "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(bare.as_bytes()).await.unwrap();
        let written = String::from_utf8(stream.stream).unwrap();
        let (head, body) = written.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with("HTTP/1.1 431 ") && head.contains("content-type: application/json"),
            "{head}"
        );
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{head}");
        assert!(body.contains("\"HEADERS_TOO_LARGE\""), "{body}");
        for other in [
            "HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 204 No Content\r\n\r\n",
        ] {
            let mut stream = ClientStream::new(Vec::new());
            stream.write_all(other.as_bytes()).await.unwrap();
            assert_eq!(stream.stream, other.as_bytes());
        }
    }
}
