//! A minimal HTTP client. It shares the machine with the server that it measures, so it must be
//! cheap.

use std::net::SocketAddr;

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An HTTP request that calls the tool `subagent`.
pub fn request(server: SocketAddr, session: &str, arguments: &serde_json::Value) -> Vec<u8> {
    let body = arguments.to_string();
    let length = body.len();
    format!(
        "POST /v1/sessions/{session}/tools/subagent HTTP/1.1\r\nHost: {server}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// A client with one keep-alive connection.
pub struct Client {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Client {
    pub async fn connect(server: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(server).await.context("cannot connect to the server")?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, read: Vec::new() })
    }

    /// Sends a request and returns the body of the answer. Any status but 200 is an error.
    pub async fn call(&mut self, request: &[u8]) -> anyhow::Result<&[u8]> {
        self.stream.write_all(request).await?;
        self.read.clear();
        let (from, to) = loop {
            ensure!(
                self.stream.read_buf(&mut self.read).await? > 0,
                "the server closed the connection"
            );
            if let Some((from, length)) = head(&self.read)? {
                break (from, from + length);
            }
        };
        while self.read.len() < to {
            ensure!(
                self.stream.read_buf(&mut self.read).await? > 0,
                "the server closed the connection"
            );
        }
        let body = &self.read[from..to];
        ensure!(
            self.read.starts_with(b"HTTP/1.1 200"),
            "the server refused the call: {}",
            String::from_utf8_lossy(body)
        );
        Ok(body)
    }
}

/// The offset and the length of the body, once all headers have arrived.
fn head(read: &[u8]) -> anyhow::Result<Option<(usize, usize)>> {
    const NAME: &[u8] = b"\r\ncontent-length: ";
    let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = &read[..end];
    let Some(at) = head.windows(NAME.len()).position(|window| window.eq_ignore_ascii_case(NAME))
    else {
        bail!("an answer has no content-length: {}", String::from_utf8_lossy(head));
    };
    let digits = head[at + NAME.len()..].iter().take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
    Ok(Some((end + 4, length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_found_by_its_content_length() {
        assert_eq!(head(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n").unwrap(), None);
        assert_eq!(
            head(b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\nbody").unwrap(),
            Some((39, 12))
        );
        assert!(head(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
