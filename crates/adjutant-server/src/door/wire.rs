//! The bytes of a connection: a client that does not read is not waited for, and what hyper refuses by itself gets the body
//! that all our errors have.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use adjutant_agent::ErrorCode;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// For a client to take any more of an answer: who is slower holds a connection that others need.
const PATIENCE: Duration = Duration::from_secs(30);

/// How the head of an answer ends that has no body.
const BARE: &[u8] = b"content-length: 0\r\n";

/// A stream to a client.
pub(super) struct Wire<S> {
    stream: S,
    /// While the client does not take what is written.
    stuck: Option<Pin<Box<Sleep>>>,
    /// What is written in the place of what hyper wrote, as far as it is not out yet, and how long that was.
    instead: Option<(Vec<u8>, usize)>,
}

impl<S> Wire<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, stuck: None, instead: None }
    }
}

impl<S: AsyncWrite + Unpin> Wire<S> {
    /// Whatever the stream says, and an error if it has said nothing for too long.
    fn patiently<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stuck = None;
            return polled;
        }
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
        ready!(stuck.as_mut().poll(context));
        stuck.as_mut().reset(Instant::now() + PATIENCE);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }

    fn write_instead(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        while let Some((rest, length)) = &mut self.instead {
            if rest.is_empty() {
                let length = *length;
                self.instead = None;
                return Poll::Ready(Ok(length));
            }
            let polled = Pin::new(&mut self.stream).poll_write(context, rest);
            if let Poll::Ready(Ok(written)) = &polled {
                rest.drain(..*written);
            }
            ready!(self.patiently(context, polled))?;
        }
        Poll::Ready(Ok(0))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.instead.is_none() {
            self.instead = with_a_body(bytes).map(|answer| (answer, bytes.len()));
        }
        if self.instead.is_some() {
            return self.write_instead(context);
        }
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.patiently(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(first) = parts.iter().find(|part| !part.is_empty())
            && (self.instead.is_some() || is_bare_refusal(first))
        {
            return self.poll_write(context, first);
        }
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.patiently(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.patiently(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.patiently(context, polled)
    }
}

/// Whether these bytes are an answer that hyper gave to what it could not read: all of ours have a body.
fn is_bare_refusal(bytes: &[u8]) -> bool {
    bytes.starts_with(b"HTTP/1.1 4") && bytes.windows(BARE.len()).any(|window| window == BARE)
}

/// Such an answer with the body that errors have.
fn with_a_body(bytes: &[u8]) -> Option<Vec<u8>> {
    if !is_bare_refusal(bytes) {
        return None;
    }
    let head = std::str::from_utf8(bytes).ok()?;
    let (code, message) = if head.starts_with("HTTP/1.1 431") {
        (ErrorCode::HeadersTooLarge, "The head of the request is too large, or has too many headers")
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
    async fn a_client_that_does_not_read_is_not_waited_for() {
        let (here, there) = duplex(64);
        let mut wire = Wire::new(here);
        let began = Instant::now();
        let error = wire.write_all(&[b'x'; 1000]).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed().as_secs()), (io::ErrorKind::TimedOut, 30));
        drop(there);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_gets_all_of_it() {
        let (here, mut there) = duplex(64);
        let mut wire = Wire::new(here);
        let writing = tokio::spawn(async move { wire.write_all(&[b'x'; 640]).await });
        let mut read = Vec::new();
        while read.len() < 640 {
            sleep(PATIENCE - Duration::from_secs(1)).await;
            there.read_buf(&mut read).await.unwrap();
        }
        writing.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn only_a_refusal_without_a_body_gets_one() {
        let mut wire = Wire::new(Vec::new());
        let bare =
            "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        wire.write_all(bare.as_bytes()).await.unwrap();
        let written = String::from_utf8(wire.stream).unwrap();
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
            let mut wire = Wire::new(Vec::new());
            wire.write_all(other.as_bytes()).await.unwrap();
            assert_eq!(wire.stream, other.as_bytes());
        }
    }
}
