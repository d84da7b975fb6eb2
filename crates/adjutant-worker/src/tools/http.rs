use adjutant_agent::{Reach, ToolDefinition};
use futures::future::BoxFuture;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, StatusCode, Url};

use super::config::Setting;
use super::toolbox::unknown;
use super::web::{Body, Web, content_type, why};
use super::{BadTool, HttpToolConfig, Limits, Tool, ToolCall};

/// What is read of an answer, so that a notice can say how much was cut off.
const READ_AT_MOST: usize = 4 << 20;

/// What of a failure's body goes to the child.
const OF_A_FAILURE: usize = 2000;

/// A tool that is a POST of its arguments to a URL of the operator's.
pub(super) struct HttpTool {
    definition: ToolDefinition,
    client: Client,
    url: Url,
    headers: HeaderMap,
    limits: Limits,
}

impl HttpTool {
    pub(super) fn new(name: &str, config: &HttpToolConfig, web: &Web) -> Result<Self, BadTool> {
        let bad = |setting: &str, why: String| BadTool::new(format!("http.{name}.{setting}"), why);
        let reach = Reach::of(config.allow_private);
        let url = Url::parse(&config.url).map_err(|error| bad("url", error.to_string()))?;
        reach
            .check(&url)
            .map_err(|why| bad("url", format!("{why} `allow_private` is for an address of your own.")))?;
        if config.input_schema.get("type").is_none_or(|kind| kind != "object") {
            return Err(bad("input_schema", "its `type` must be \"object\"".to_owned()));
        }
        Ok(Self {
            definition: ToolDefinition {
                name: name.to_owned(),
                description: config.description.clone(),
                input_schema: config.input_schema.clone(),
                replay: config.replay,
            },
            client: web.client(reach).clone(),
            url,
            headers: headers(&config.headers)
                .map_err(|(header, why)| bad(&format!("headers.{header}"), why))?,
            limits: Limits { time: config.timeout, bytes: config.max_bytes },
        })
    }

    async fn post(&self, call: ToolCall<'_>) -> Result<String, String> {
        let request = self
            .client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .header("idempotency-key", call.key)
            .json(call.arguments);
        let unknown = |error| format!("The tool cannot be reached: {}.{}", why(error), unknown(self));
        let mut response = request.send().await.map_err(unknown)?;
        let status = response.status();
        let content_type = content_type(&response);
        let body = Body::read(&mut response, self.limits.bytes.max(READ_AT_MOST)).await?;
        let text = body.text(&content_type);
        if status.is_success() {
            return Ok(text);
        }
        Err(failure(status, response.headers(), text))
    }
}

impl Tool for HttpTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(self.post(call))
    }
}

/// Redirects are not followed: the secret headers are for the configured place only.
fn failure(status: StatusCode, headers: &HeaderMap, body: String) -> String {
    if status.is_redirection() && headers.contains_key(LOCATION) {
        return format!("The tool answered {status}, and redirects are not followed.");
    }
    let limits = Limits { bytes: OF_A_FAILURE, ..Limits::default() };
    format!("The tool answered {status}: {}", limits.cut(body))
}

/// With their values, which are never shown. In case of an error: which, and why.
pub(super) fn headers<'a>(
    settings: impl IntoIterator<Item = (&'a String, &'a Setting)>,
) -> Result<HeaderMap, (String, String)> {
    let mut headers = HeaderMap::new();
    for (name, setting) in settings {
        let bad = |why: String| (name.clone(), why);
        let key = HeaderName::try_from(name).map_err(|_| bad("this is not a header's name".to_owned()))?;
        let value = setting.value().map_err(bad)?;
        let mut value =
            HeaderValue::try_from(value).map_err(|_| bad("this is not a header's value".to_owned()))?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}
