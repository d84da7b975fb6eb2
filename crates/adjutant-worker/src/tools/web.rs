//! HTTP, as all tools and webhooks use it.

use std::error::Error;
use std::time::Duration;

use adjutant_agent::{NotPublic, Reach};
use encoding_rs::{Encoding, UTF_8};
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Response};

use super::reach::PublicOnly;

/// Connections are kept between calls and shared by all tools that reach as far.
#[derive(Clone)]
pub(crate) struct Web {
    pub(super) public: Client,
    pub(super) anywhere: Client,
}

impl Web {
    pub(crate) fn new() -> Result<Self, reqwest::Error> {
        // Fails if there is one, and then that one is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Self { public: public().build()?, anywhere: anywhere().build()? })
    }

    pub(crate) fn client(&self, reach: Reach) -> &Client {
        match reach {
            Reach::Public => &self.public,
            Reach::Anywhere => &self.anywhere,
        }
    }
}

fn anywhere() -> ClientBuilder {
    Client::builder()
        .user_agent(concat!("adjutant/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(Duration::from_secs(10))
        // Who follows one has to look where it leads, and what it takes along.
        .redirect(Policy::none())
}

/// Without a proxy, which would connect to where we must not.
pub(super) fn public() -> ClientBuilder {
    anywhere().dns_resolver(PublicOnly).no_proxy()
}

/// The reasons down to the last, without the URL, which may have a secret in it.
pub(crate) fn why(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        if inner.is::<NotPublic>() {
            return inner.to_string();
        }
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

/// What was read of a body.
pub(crate) struct Body {
    pub(super) bytes: Vec<u8>,
    /// There was more.
    pub(super) is_cut: bool,
}

impl Body {
    /// Reads no more than it keeps.
    pub(crate) async fn read(response: &mut Response, most: usize) -> Result<Self, String> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(why)? {
            let room = most - bytes.len();
            if chunk.len() > room {
                bytes.extend_from_slice(&chunk[..room]);
                return Ok(Self { bytes, is_cut: true });
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(Self { bytes, is_cut: false })
    }

    /// In the encoding of the header, or of the document itself, or UTF-8. What does not decode is replaced.
    pub(super) fn text(&self, content_type: &str) -> String {
        let encoding = charset(content_type).or_else(|| self.declared()).unwrap_or(UTF_8);
        let (text, ..) = encoding.decode(&self.bytes);
        text.into_owned()
    }

    /// What a page says about itself in its first kilobyte, as browsers look for it.
    fn declared(&self) -> Option<&'static Encoding> {
        let start = &self.bytes[..self.bytes.len().min(1024)];
        charset(&String::from_utf8_lossy(start).to_ascii_lowercase())
    }
}

fn charset(text: &str) -> Option<&'static Encoding> {
    let (_, after) = text.split_once("charset=")?;
    let label = after.trim_start_matches(['"', '\'']);
    let end = label.find(|c: char| !(c.is_ascii_alphanumeric() || "-_:.".contains(c))).unwrap_or(label.len());
    Encoding::for_label(&label.as_bytes()[..end])
}

/// As the server says it, lower case.
pub(super) fn content_type(response: &Response) -> String {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_ascii_lowercase()
}
