use std::sync::Arc;

use adjutant_agent::{NetworkPolicy, Replay, ToolDefinition};
use futures::future::BoxFuture;
use reqwest::header::{ACCEPT, CONTENT_ENCODING, LOCATION};
use reqwest::{Client, Response, StatusCode, Url};
use serde_json::json;

use super::arguments::Arguments;
use super::html;
use crate::tools::http_client::{Body, HttpClients, content_type, describe};
use crate::tools::{FetchConfig, Limits, Tool, ToolCall, ToolConfigError, ToolsConfig};

pub(super) const NAME: &str = "fetch";

const MAX_REDIRECTS: usize = 5;

pub(super) fn tool(
    config: &ToolsConfig,
    http: &HttpClients,
) -> Result<Option<Arc<dyn Tool>>, ToolConfigError> {
    let tool = || -> Arc<dyn Tool> { Arc::new(Fetch::new(&config.fetch, http)) };
    Ok(config.fetch.enabled.then(tool))
}

/// `fetch`: gets a web page as text.
pub(in crate::tools) struct Fetch {
    definition: ToolDefinition,
    client: Client,
    policy: NetworkPolicy,
    max_bytes: usize,
    limits: Limits,
    tenants: Option<Vec<String>>,
}

impl Fetch {
    pub(in crate::tools) fn new(config: &FetchConfig, http: &HttpClients) -> Self {
        let policy = NetworkPolicy::of(config.allow_private);
        Self {
            definition: ToolDefinition {
                name: NAME.to_owned(),
                description:
                    "Gets a web page or another text from the internet by its URL. HTML comes as plain text; \
                              text, JSON and XML come as they are; other types are refused."
                        .to_owned(),
                input_schema: json!({
                    "type": "object",
                    "properties": { "url": { "type": "string", "description": "An http or https URL." } },
                    "required": ["url"],
                    "additionalProperties": false,
                }),
                replay: Replay::Safe,
            },
            client: http.client(policy).clone(),
            policy,
            max_bytes: config.max_bytes,
            limits: Limits { time: config.timeout, ..Limits::default() },
            tenants: config.tenants.clone(),
        }
    }

    async fn fetch(&self, url: &str) -> Result<String, String> {
        let url = Url::parse(url).map_err(|error| format!("This is not a URL: {error}."))?;
        let (url, mut response) = self.get(url).await?;
        let status = response.status();
        let content_type = content_type(&response);
        let head = format!("URL: {url}\nStatus: {status}\nContent-Type: {content_type}\n\n");
        let kind = Kind::of(&response, &content_type).map_err(|why| format!("{head}{why}"))?;
        let body = Body::read(&mut response, self.max_bytes).await?;
        let mut text =
            kind.text(&body, &content_type).await.map_err(|why| format!("{head}{why}"))?;
        if body.is_cut {
            text +=
                &format!("\n[cut: only the first {} bytes of the page were read]", self.max_bytes);
        }
        let answer = head + &text;
        if status.is_client_error() || status.is_server_error() { Err(answer) } else { Ok(answer) }
    }

    /// Follows redirects, and checks every URL on the way.
    async fn get(&self, mut url: Url) -> Result<(Url, Response), String> {
        url.set_fragment(None);
        for _ in 0..=MAX_REDIRECTS {
            self.policy.check(&url)?;
            let request =
                self.client.get(url.clone()).header(ACCEPT, "text/html,text/*;q=0.9,*/*;q=0.8");
            let response = request
                .send()
                .await
                .map_err(|error| format!("The page cannot be fetched: {}", describe(error)))?;
            match redirect(&url, &response)? {
                Some(next) => url = next,
                None => return Ok((url, response)),
            }
        }
        Err(format!("There were more than {MAX_REDIRECTS} redirects."))
    }
}

impl Tool for Fetch {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn tenants(&self) -> Option<&[String]> {
        self.tenants.as_deref()
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let arguments = Arguments::of(call.arguments, &["url"])?;
            self.fetch(arguments.text("url")?).await
        })
    }
}

fn redirect(from: &Url, response: &Response) -> Result<Option<Url>, String> {
    let moved = [
        StatusCode::MOVED_PERMANENTLY,
        StatusCode::FOUND,
        StatusCode::SEE_OTHER,
        StatusCode::TEMPORARY_REDIRECT,
        StatusCode::PERMANENT_REDIRECT,
    ];
    let Some(location) =
        response.headers().get(LOCATION).filter(|_| moved.contains(&response.status()))
    else {
        return Ok(None);
    };
    let target = location.to_str().ok().and_then(|location| from.join(location).ok());
    target.map(Some).ok_or_else(|| "The page redirects to an invalid URL.".to_owned())
}

/// How a body is converted to text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Html,
    Text,
    /// The response has no content type.
    Unknown,
}

impl Kind {
    fn of(response: &Response, content_type: &str) -> Result<Self, String> {
        let encoding = response.headers().get(CONTENT_ENCODING).map(|value| value.as_bytes());
        if encoding.is_some_and(|encoding| !encoding.eq_ignore_ascii_case(b"identity")) {
            return Err(
                "The page is compressed, although the request does not accept that.".to_owned()
            );
        }
        Self::of_type(content_type)
            .ok_or_else(|| "This is not text, so it cannot be read.".to_owned())
    }

    fn of_type(content_type: &str) -> Option<Self> {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        let (top, sub) = essence.split_once('/').unwrap_or((essence, ""));
        let is_text = top == "text"
            || sub.ends_with("json")
            || sub.ends_with("xml")
            || sub.ends_with("yaml")
            || matches!(
                sub,
                "javascript"
                    | "ecmascript"
                    | "x-javascript"
                    | "toml"
                    | "x-ndjson"
                    | "jsonl"
                    | "x-sh"
                    | "sql"
            );
        match essence {
            "" => Some(Self::Unknown),
            "text/html" | "application/xhtml+xml" => Some(Self::Html),
            _ if is_text => Some(Self::Text),
            _ => None,
        }
    }

    async fn text(self, body: &Body, content_type: &str) -> Result<String, String> {
        let text = body.text(content_type);
        match self {
            Self::Html => html::to_text(text).await,
            Self::Text | Self::Unknown if text.contains('\0') => {
                Err("This is not text, so it cannot be read.".to_owned())
            }
            Self::Unknown if text.trim_start().starts_with("<!") => html::to_text(text).await,
            Self::Text | Self::Unknown => Ok(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_type_decides_what_is_text() {
        for (content_type, kind) in [
            ("text/html; charset=utf-8", Some(Kind::Html)),
            ("application/xhtml+xml", Some(Kind::Html)),
            ("text/plain", Some(Kind::Text)),
            ("text/markdown;variant=gfm", Some(Kind::Text)),
            ("application/json", Some(Kind::Text)),
            ("application/problem+json", Some(Kind::Text)),
            ("application/rss+xml; charset=iso-8859-1", Some(Kind::Text)),
            ("image/svg+xml", Some(Kind::Text)),
            ("", Some(Kind::Unknown)),
            ("image/png", None),
            ("application/pdf", None),
            ("application/octet-stream", None),
            ("video", None),
        ] {
            assert_eq!(Kind::of_type(content_type), kind, "{content_type}");
        }
    }
}
