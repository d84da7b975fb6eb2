//! Extractors for the path, the query and the body of a request, all of them strict.

use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::{ErrorCode, Fields, Refusal};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HeaderName};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use futures::StreamExt;
use serde_json::Value;

use super::Shared;
use super::client_connection::ClientConnection;
use crate::tenant_counter::{Exceeded, Permit};
use crate::{Error, Result, strict_json};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The time to read a whole body, so that a slow client does not occupy a connection for long.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Memory that is reserved for a body before it comes: a client may promise more than it sends.
const CHUNK: usize = 64 << 10;

/// When a client should try again after its tenant had too many bytes of bodies.
const BODIES_RETRY_AFTER: Duration = Duration::from_secs(1);

/// How much of a body that is too large is read and discarded, so that the client gets the refusal
/// instead of a connection reset.
const DRAIN_LIMIT: usize = 64 << 20;

/// The parameters in the path, decoded.
pub(crate) struct PathParams(Vec<(String, String)>);

impl PathParams {
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathParams {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let Path(names) = Path::<Vec<(String, String)>>::from_request_parts(parts, state)
            .await
            .map_err(|_| Refusal::invalid("path", "must be UTF-8, percent-encoded"))?;
        names.iter().try_for_each(|(name, value)| refuse_nul(name, value))?;
        Ok(Self(names))
    }
}

/// Whether the bytes that a query encodes are UTF-8: axum replaces those that are not.
fn is_utf8(query: &str) -> bool {
    let (mut decoded, mut rest) = (Vec::new(), query.as_bytes());
    while let Some((byte, more)) = rest.split_first() {
        let hex = more.get(..2).filter(|_| *byte == b'%');
        let encoded =
            hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        decoded.push(encoded.unwrap_or(*byte));
        rest = if encoded.is_some() { &more[2..] } else { more };
    }
    std::str::from_utf8(&decoded).is_ok()
}

/// The parameters of the query. A handler takes those that it knows, and `end` refuses the rest.
pub(crate) struct QueryParams(Vec<(String, String)>);

impl QueryParams {
    pub(crate) fn parse(uri: &Uri) -> Result<Self, Refusal> {
        let invalid = || Refusal::invalid("query", "is not valid: must be percent-encoded UTF-8");
        let Query(pairs) =
            Query::<Vec<(String, String)>>::try_from_uri(uri).map_err(|_| invalid())?;
        if !is_utf8(uri.query().unwrap_or_default()) {
            return Err(invalid());
        }
        for (nth, (name, value)) in pairs.iter().enumerate() {
            refuse_nul(name, value)?;
            if pairs[..nth].iter().any(|(other, _)| other == name) {
                return Err(Refusal::invalid(name, "appears twice"));
            }
        }
        Ok(Self(pairs))
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let index = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(index).1)
    }

    /// A text that is not empty.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, Refusal> {
        match self.take(name) {
            Some(text) if text.is_empty() => Err(Refusal::invalid(name, "must not be empty")),
            text => Ok(text),
        }
    }

    pub(crate) fn parsed<T: std::str::FromStr>(
        &mut self,
        name: &str,
        expected: &str,
    ) -> Result<Option<T>, Refusal> {
        let text = self.text(name)?;
        text.map(|text| {
            text.parse().map_err(|_| Refusal::invalid(name, format_args!("must be {expected}")))
        })
        .transpose()
    }

    /// A parameter that is one of these words.
    pub(crate) fn word<T: std::str::FromStr + std::fmt::Display>(
        &mut self,
        name: &str,
        words: &[T],
    ) -> Result<Option<T>, Refusal> {
        let words: Vec<String> = words.iter().map(T::to_string).collect();
        self.parsed(name, &format!("one of {}", words.join(", ")))
    }

    /// The size of a page.
    pub(crate) fn limit(&mut self, default: i64, max: i64) -> Result<i64, Refusal> {
        let expected = format!("a whole number from 1 to {max}");
        match self.parsed::<i64>("limit", &expected)? {
            None => Ok(default),
            Some(limit) if (1..=max).contains(&limit) => Ok(limit),
            Some(_) => Err(Refusal::invalid("limit", format_args!("must be {expected}"))),
        }
    }

    /// Refuses parameters that were not taken.
    pub(crate) fn end(self) -> Result<(), Refusal> {
        match self.0.iter().map(|(name, _)| name).min() {
            None => Ok(()),
            Some(name) => Err(Refusal::invalid(name, "is not a parameter of this path")),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for QueryParams {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        Ok(Self::parse(&parts.uri)?)
    }
}

fn refuse_nul(name: &str, value: &str) -> Result<(), Refusal> {
    if name.contains('\0') || value.contains('\0') {
        return Err(Refusal::invalid(
            &name.replace('\0', "\\0"),
            "must not contain a NUL character",
        ));
    }
    Ok(())
}

/// A required JSON body.
pub(crate) struct JsonBody(pub(crate) Value);

impl FromRequest<Arc<Shared>> for JsonBody {
    type Rejection = Error;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Self> {
        let (headers, bytes) = read_body(request, shared).await?;
        // An empty body needs no Content-Type; the parser refuses it.
        if !bytes.is_empty() {
            check_content_type(&headers)?;
        }
        Ok(Self(strict_json::parse(&bytes)?))
    }
}

/// An optional JSON body; an empty one is an object without fields.
pub(crate) struct OptionalJsonBody(pub(crate) Value);

impl FromRequest<Arc<Shared>> for OptionalJsonBody {
    type Rejection = Error;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Self> {
        let (headers, bytes) = read_body(request, shared).await?;
        if bytes.is_empty() {
            return Ok(Self(Value::Object(serde_json::Map::new())));
        }
        check_content_type(&headers)?;
        Ok(Self(strict_json::parse(&bytes)?))
    }
}

/// Refuses query parameters, and any body but an empty object.
pub(crate) struct NoArguments;

impl FromRequest<Arc<Shared>> for NoArguments {
    type Rejection = Error;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Self> {
        QueryParams::parse(request.uri())?.end()?;
        let OptionalJsonBody(body) = OptionalJsonBody::from_request(request, shared).await?;
        Fields::of(&body)?.end()?;
        Ok(Self)
    }
}

/// The value of the header `Idempotency-Key`.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    match value.to_str() {
        Ok(key)
            if (1..=255).contains(&key.len())
                && key.bytes().all(|byte| (b' '..=b'~').contains(&byte)) =>
        {
            Ok(Some(key))
        }
        Ok(_) | Err(_) => Err(Refusal::invalid(
            "Idempotency-Key",
            "must have 1 to 255 characters, all of them printable ASCII",
        )),
    }
}

pub(crate) fn check_content_type(headers: &HeaderMap) -> Result<()> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (first, second) = (types.next(), types.next());
    let is_json = first.and_then(|kind| kind.to_str().ok()).is_some_and(|kind| {
        let essence = kind.split_once(';').map_or(kind, |(essence, _)| essence);
        essence.trim().eq_ignore_ascii_case("application/json")
    });
    if is_json && second.is_none() {
        return Ok(());
    }
    Err(Error::refused(ErrorCode::UnsupportedMediaType, "Content-Type must be application/json"))
}

/// Reads a body. Its memory counts for the tenant of the request until the request is answered.
pub(crate) async fn read_body(request: Request, shared: &Shared) -> Result<(HeaderMap, Vec<u8>)> {
    let connection = request.extensions().get::<ClientConnection>().cloned();
    let tenant = connection.as_ref().map(ClientConnection::tenant).unwrap_or_default();
    let mut memory = shared.bodies.none(&tenant);
    let read = read_within(request, shared.settings.max_body_bytes, &mut memory).await?;
    if let Some(connection) = connection {
        connection.hold_body(memory);
    }
    Ok(read)
}

/// Reads a body of at most `max_bytes` bytes. A body that is refused is read to its end all the
/// same.
async fn read_within(
    request: Request,
    max_bytes: usize,
    memory: &mut Permit,
) -> Result<(HeaderMap, Vec<u8>)> {
    let (parts, body) = request.into_parts();
    let too_large = || {
        Error::refused(
            ErrorCode::BodyTooLarge,
            format!("The body has more than {max_bytes} bytes (server.max_body_bytes)"),
        )
    };
    let length =
        parts.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let length: usize = length.unwrap_or(0);
    if length > max_bytes && parts.headers.contains_key(EXPECT) {
        return Err(too_large());
    }
    let reading = async {
        let mut stream = body.into_data_stream();
        let mut bytes =
            Ok(Vec::with_capacity(if length > max_bytes { 0 } else { length.min(CHUNK) }));
        let mut total = 0_usize;
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|_| Refusal::invalid("body", "is incomplete"))?;
            total = total.saturating_add(chunk.len());
            if total > max_bytes {
                bytes = Err(too_large());
            } else if let Ok(read) = &mut bytes {
                match memory.grow(chunk.len()) {
                    Ok(()) => read.extend_from_slice(&chunk),
                    Err(exceeded) => bytes = Err(too_many_bytes(exceeded)),
                }
            }
            if total > DRAIN_LIMIT {
                break;
            }
        }
        bytes
    };
    match tokio::time::timeout(BODY_TIMEOUT, reading).await {
        Ok(bytes) => Ok((parts.headers, bytes?)),
        Err(_) => Err(Error::refused(
            ErrorCode::RequestTimeout,
            format!("The body was not complete after {} s", BODY_TIMEOUT.as_secs()),
        )),
    }
}

fn too_many_bytes(exceeded: Exceeded) -> Error {
    Error::too_many("bytes of request bodies", exceeded, BODIES_RETRY_AFTER)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::HeaderValue;

    use super::*;
    use crate::tenant_counter::TenantCounter;

    fn parameters(query: &str) -> Result<QueryParams, Refusal> {
        QueryParams::parse(&format!("/v1/tasks?{query}").parse().unwrap())
    }

    #[test]
    fn unknown_and_duplicate_parameters_are_refused() {
        let mut taken = parameters("state=failed&q=a%20b%2Bc").unwrap();
        assert_eq!(taken.text("q").unwrap().as_deref(), Some("a b+c"));
        assert_eq!(taken.text("agent").unwrap(), None);
        assert_eq!(taken.end().unwrap_err().message, "state: is not a parameter of this path");
        for (query, message) in [
            ("q=1&q=2", "q: appears twice"),
            ("q=%00", "q: must not contain a NUL character"),
            ("%00=1", "\\0: must not contain a NUL character"),
        ] {
            assert_eq!(parameters(query).err().unwrap().message, message);
        }
        let mut empty = parameters("q=").unwrap();
        assert_eq!(empty.text("q").unwrap_err().message, "q: must not be empty");
    }

    #[test]
    fn a_limit_is_a_whole_number_within_bounds() {
        let limit = |query: &str| {
            parameters(query).unwrap().limit(50, 200).map_err(|refusal| refusal.message)
        };
        assert_eq!((limit(""), limit("limit=1"), limit("limit=200")), (Ok(50), Ok(1), Ok(200)));
        for wrong in ["0", "201", "-1", "1.0", "x", "99999999999999999999"] {
            let message = limit(&format!("limit={wrong}")).unwrap_err();
            assert_eq!(message, "limit: must be a whole number from 1 to 200", "{wrong}");
        }
    }

    #[test]
    fn only_json_is_accepted() {
        let check = |kind: &str| {
            let value = HeaderValue::from_str(kind).unwrap();
            check_content_type(&HeaderMap::from_iter([(CONTENT_TYPE, value)]))
        };
        for valid in ["application/json", "Application/JSON; charset=utf-8"] {
            assert!(check(valid).is_ok(), "{valid}");
        }
        for wrong in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "application/jsonp",
            "text/plain; application/json",
            "",
        ] {
            assert_eq!(
                check(wrong).unwrap_err().code(),
                ErrorCode::UnsupportedMediaType,
                "{wrong}"
            );
        }
        assert!(check_content_type(&HeaderMap::new()).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_has_a_size_limit_and_a_timeout() {
        let bodies = TenantCounter::new(100);
        let read = async |body: Body| {
            let read = read_within(Request::new(body), 10, &mut bodies.none("t")).await;
            read.map(|(_, read)| read)
        };
        assert_eq!(read(Body::from(vec![b'x'; 10])).await.unwrap(), vec![b'x'; 10]);
        assert_eq!(
            read(Body::from(vec![b'x'; 11])).await.unwrap_err().code(),
            ErrorCode::BodyTooLarge
        );
        let chunks = futures::stream::iter(["xxxxxx", "xxxxxx"].map(Ok::<_, std::io::Error>));
        assert_eq!(
            read(Body::from_stream(chunks)).await.unwrap_err().code(),
            ErrorCode::BodyTooLarge
        );
        let never = futures::stream::pending::<std::io::Result<String>>();
        assert_eq!(
            read(Body::from_stream(never)).await.unwrap_err().code(),
            ErrorCode::RequestTimeout
        );
        let broken = futures::stream::iter([Err::<String, _>(std::io::Error::other("gone"))]);
        assert_eq!(
            read(Body::from_stream(broken)).await.unwrap_err().code(),
            ErrorCode::InvalidArgument
        );
    }
}
