//! A minimal HTTP client. Requests are written by hand, so that tests can also send malformed ones.

use std::io;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub text: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        if self.text.is_empty() { Value::Null } else { self.json() }
    }

    /// Checks that this is an error with this status and code, and returns its message.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> String {
        let body = self.json();
        assert_eq!((self.status, body["error"].as_str()), (status, Some(code)), "{self:?}");
        assert_eq!(body.as_object().unwrap().len(), 2, "{body}");
        assert_eq!(self.header("content-type"), Some("application/json"));
        body["message"].as_str().unwrap().to_owned()
    }
}

/// Sends bytes on a new connection and reads one complete response.
pub async fn send(address: &str, bytes: &[u8]) -> Answer {
    try_send(address, bytes).await.unwrap()
}

pub async fn try_send(address: &str, bytes: &[u8]) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(bytes).await?;
    try_answer(&mut stream).await
}

pub async fn answer(stream: &mut TcpStream) -> Answer {
    try_answer(stream).await.unwrap()
}

async fn try_answer(stream: &mut TcpStream) -> io::Result<Answer> {
    let mut read = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        if let Some(answer) = whole(&read) {
            return Ok(answer);
        }
        match stream.read(&mut chunk).await? {
            0 => {
                let message = format!("incomplete response: {:?}", String::from_utf8_lossy(&read));
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
            }
            count => read.extend_from_slice(&chunk[..count]),
        }
    }
}

fn whole(read: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(read);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().unwrap();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.map_or(0, |(_, length)| length.parse().unwrap());
    (body.len() >= length).then(|| Answer { status, headers, text: body.to_owned() })
}
