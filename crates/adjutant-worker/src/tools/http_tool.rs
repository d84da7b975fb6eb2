use adjutant_agent::{NetworkPolicy, ToolDefinition};
use futures::future::BoxFuture;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, StatusCode, Url};

use super::config::Setting;
use super::http_client::{Body, HttpClients, content_type, describe};
use super::toolbox::effect_unknown;
use super::{HttpToolConfig, Limits, Tool, ToolCall, ToolConfigError};

/// The most bytes that are read of a response. Reading more than the limit of the result lets the
/// notice say how much was truncated.
const MAX_BODY: usize = 4 << 20;

/// The most bytes of an error response that the agent gets.
const MAX_ERROR: usize = 2000;

/// A tool that POSTs its arguments to a URL of the operator.
pub(super) struct HttpTool {
    definition: ToolDefinition,
    client: Client,
    url: Url,
    headers: HeaderMap,
    limits: Limits,
    tenants: Option<Vec<String>>,
}

impl HttpTool {
    pub(super) fn new(
        name: &str,
        config: &HttpToolConfig,
        http: &HttpClients,
    ) -> Result<Self, ToolConfigError> {
        let bad = |setting: &str, why: String| {
            ToolConfigError::new(format!("http.{name}.{setting}"), why)
        };
        let policy = NetworkPolicy::of(config.allow_private);
        let url = Url::parse(&config.url).map_err(|error| bad("url", error.to_string()))?;
        policy.check(&url).map_err(|why| {
            bad("url", format!("{why} Set `allow_private` to allow a private address."))
        })?;
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
            client: http.client(policy).clone(),
            url,
            headers: headers(&config.headers)
                .map_err(|(header, why)| bad(&format!("headers.{header}"), why))?,
            limits: Limits { time: config.timeout, bytes: config.max_bytes },
            tenants: config.tenants.clone(),
        })
    }

    async fn post(&self, call: ToolCall<'_>) -> Result<String, String> {
        let request = self
            .client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .header("idempotency-key", call.key)
            .json(call.arguments);
        let unreachable = |error| {
            call.kind.set("unreachable");
            format!("The tool cannot be reached: {}.{}", describe(error), effect_unknown(self))
        };
        let mut response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let content_type = content_type(&response);
        let body = Body::read(&mut response, self.limits.bytes.max(MAX_BODY)).await?;
        let text = body.text(&content_type);
        if status.is_success() {
            return Ok(text);
        }
        call.kind.set(if status.is_server_error() { "http_5xx" } else { "http_4xx" });
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

    fn tenants(&self) -> Option<&[String]> {
        self.tenants.as_deref()
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(self.post(call))
    }
}

/// Redirects are not followed: the secret headers are for the configured URL only.
fn failure(status: StatusCode, headers: &HeaderMap, body: String) -> String {
    if status.is_redirection() && headers.contains_key(LOCATION) {
        return format!("The tool answered {status}, and redirects are not followed.");
    }
    let limits = Limits { bytes: MAX_ERROR, ..Limits::default() };
    format!("The tool answered {status}: {}", limits.truncate(body))
}

/// The headers with their values, which are never logged. The error names the header and the
/// reason.
pub(super) fn headers<'a>(
    settings: impl IntoIterator<Item = (&'a String, &'a Setting)>,
) -> Result<HeaderMap, (String, String)> {
    let mut headers = HeaderMap::new();
    for (name, setting) in settings {
        let bad = |why: String| (name.clone(), why);
        let key =
            HeaderName::try_from(name).map_err(|_| bad("is not a valid header name".to_owned()))?;
        let value = setting.value().map_err(bad)?;
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| bad("is not a valid header value".to_owned()))?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}
