//! The HTTP clients of tools and webhooks.

use std::error::Error;
use std::time::Duration;

use adjutant_agent::{NetworkPolicy, NotPublic};
use encoding_rs::{Encoding, UTF_8};
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Response};

use super::public_dns::PublicResolver;

/// One client per network policy. Tools with the same policy share its connections.
#[derive(Clone)]
pub(crate) struct HttpClients {
    pub(super) public: Client,
    pub(super) anywhere: Client,
}

impl HttpClients {
    pub(crate) fn new() -> Result<Self, reqwest::Error> {
        // This fails if a provider is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Self { public: public().build()?, anywhere: anywhere().build()? })
    }

    pub(crate) fn client(&self, policy: NetworkPolicy) -> &Client {
        match policy {
            NetworkPolicy::Public => &self.public,
            NetworkPolicy::Anywhere => &self.anywhere,
        }
    }
}

fn anywhere() -> ClientBuilder {
    Client::builder()
        .user_agent(concat!("adjutant/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(Duration::from_secs(10))
        // A caller that follows redirects has to check each target and which headers it sends.
        .redirect(Policy::none())
}

/// Without a proxy, which would connect to any address.
pub(super) fn public() -> ClientBuilder {
    anywhere().dns_resolver(PublicResolver).no_proxy()
}

/// The error with all its causes, without the URL, which may contain a secret.
pub(crate) fn describe(error: reqwest::Error) -> String {
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

/// The part of a body that was read.
pub(crate) struct Body {
    pub(super) bytes: Vec<u8>,
    /// The body was longer.
    pub(super) is_cut: bool,
}

impl Body {
    /// Reads at most `max` bytes.
    pub(crate) async fn read(response: &mut Response, max: usize) -> Result<Self, String> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(describe)? {
            let room = max - bytes.len();
            if chunk.len() > room {
                bytes.extend_from_slice(&chunk[..room]);
                return Ok(Self { bytes, is_cut: true });
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(Self { bytes, is_cut: false })
    }

    /// Decodes by the charset of the header, else of the document, else as UTF-8. Replaces invalid
    /// bytes.
    pub(super) fn text(&self, content_type: &str) -> String {
        let encoding = charset(content_type).or_else(|| self.declared()).unwrap_or(UTF_8);
        let (text, ..) = encoding.decode(&self.bytes);
        text.into_owned()
    }

    /// The charset that an HTML page declares in its first kilobyte, where browsers look for it.
    fn declared(&self) -> Option<&'static Encoding> {
        let start = &self.bytes[..self.bytes.len().min(1024)];
        charset(&String::from_utf8_lossy(start).to_ascii_lowercase())
    }
}

fn charset(text: &str) -> Option<&'static Encoding> {
    let (_, after) = text.split_once("charset=")?;
    let label = after.trim_start_matches(['"', '\'']);
    let end = label
        .find(|c: char| !(c.is_ascii_alphanumeric() || "-_:.".contains(c)))
        .unwrap_or(label.len());
    Encoding::for_label(&label.as_bytes()[..end])
}

/// The content type in lower case.
pub(super) fn content_type(response: &Response) -> String {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_ascii_lowercase()
}
