//! The session of a request: the argument `session_id` first, then the request's headers. A client
//! that names no session gets a new one with its first call that needs one, and the answer names
//! it.

use adjutant_agent::{ErrorCode, Refusal};
use adjutant_store::NewSession;
use axum::http::{HeaderMap, HeaderValue};
use serde_json::Value;
use uuid::Uuid;

use super::super::Shared;
use super::{ADJUTANT_SESSION, MCP_SESSION};
use crate::error::internal;
use crate::{Caller, Error, Result};

/// The prefix of generated session names.
const GENERATED_PREFIX: &str = "mcp-";

/// The headers of a request that name its session and its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionHeaders {
    /// The session of calls without the argument. It is created when a call first needs it.
    pub(super) session: Option<String>,
    /// The id that this server issued at `initialize`, in revisions that have it.
    pub(super) connection: Option<String>,
}

impl SessionHeaders {
    pub(super) fn parse(headers: &HeaderMap) -> Result<Self> {
        // The specification of MCP: a client that gets 404 for its id sends `initialize` again.
        let connection = match headers.get(MCP_SESSION) {
            None => None,
            Some(id) => Some(id.to_str().ok().filter(|id| is_generated(id)).ok_or_else(|| {
                Error::refused(
                    ErrorCode::SessionNotFound,
                    "Mcp-Session-Id: was not issued by this server; send initialize again",
                )
            })?),
        };
        let named = match headers.get(ADJUTANT_SESSION) {
            None => None,
            Some(name) => Some(session_name(name).ok_or_else(|| {
                Refusal::invalid("Adjutant-Session", "must have 1 to 255 characters, in UTF-8")
            })?),
        };
        let session = named.or(connection).map(str::to_owned);
        Ok(Self { session, connection: connection.map(str::to_owned) })
    }
}

fn session_name(value: &HeaderValue) -> Option<&str> {
    let name = std::str::from_utf8(value.as_bytes()).ok()?.trim();
    (1..=255).contains(&name.chars().count()).then_some(name)
}

/// Whether a session's name was generated, for a client that named no session.
pub(super) fn is_generated(name: &str) -> bool {
    name.strip_prefix(GENERATED_PREFIX).is_some_and(|id| Uuid::try_parse(id).is_ok())
}

fn generate_name() -> String {
    format!("{GENERATED_PREFIX}{}", Uuid::now_v7())
}

/// A new value for the header `Mcp-Session-Id`.
pub(super) fn new_session_id() -> Result<HeaderValue> {
    let value = HeaderValue::try_from(generate_name());
    value.map_err(|error| Error::refused(ErrorCode::Internal, internal(&error)))
}

/// The name of a call's session, by its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SessionSource {
    /// Named by an argument of the call. It must exist.
    Argument(String),
    /// Named by a header of the request. It is created if it does not exist.
    Header(String),
    /// Created for this call.
    Created(String),
}

impl SessionSource {
    /// Removes the argument that names the session from the arguments; without one, the headers
    /// name the session.
    pub(super) fn take(
        arguments: &mut Value,
        argument: &str,
        headers: &SessionHeaders,
    ) -> Result<Option<Self>, Refusal> {
        let given = arguments.as_object_mut().and_then(|fields| fields.remove(argument));
        match given {
            Some(Value::String(name)) if name.is_empty() => Err(Refusal::invalid(
                argument,
                "must not be empty; leave it out for a session of your own",
            )),
            Some(Value::String(name)) => Ok(Some(Self::Argument(name))),
            None | Some(Value::Null) => Ok(headers.session.clone().map(Self::Header)),
            Some(_) => Err(Refusal::invalid(argument, "must be a string")),
        }
    }

    /// Whether a call failed because the session that its header names has to be created first.
    pub(super) fn must_be_created(&self, error: &Error) -> bool {
        matches!(self, Self::Header(_)) && error.code() == ErrorCode::SessionNotFound
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Argument(name) | Self::Header(name) | Self::Created(name) => name,
        }
    }
}

impl Shared {
    /// Creates a session with the server's default limits, unless it exists.
    pub(super) async fn ensure_session(&self, caller: &Caller, name: &str) -> Result<()> {
        let limits = self.service.policy.sessions;
        let new = NewSession {
            tenant: caller.tenant.clone(),
            name: name.to_owned(),
            max_active: Some(limits.max_active),
            max_queued: Some(limits.max_queued),
            ..NewSession::default()
        };
        match self.service.store.create_session(&new).await.map_err(Error::from) {
            Ok(_) => Ok(()),
            // A concurrent call of the same client has created it.
            Err(error) if error.code() == ErrorCode::SessionAlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Creates a session with a generated name.
    pub(super) async fn create_session(&self, caller: &Caller) -> Result<SessionSource> {
        let name = generate_name();
        self.ensure_session(caller, &name).await?;
        Ok(SessionSource::Created(name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(lines: &[(&str, &str)]) -> Result<SessionHeaders> {
        let line = |(name, value): &(&str, &str)| {
            (
                axum::http::HeaderName::try_from(*name).unwrap(),
                HeaderValue::from_str(value).unwrap(),
            )
        };
        SessionHeaders::parse(&lines.iter().map(line).collect())
    }

    #[test]
    fn a_header_names_the_session() {
        let id = generate_name();
        for (lines, session) in [
            (&[][..], None),
            (&[("adjutant-session", "incident 42")], Some("incident 42")),
            (&[("mcp-session-id", id.as_str())], Some(id.as_str())),
            (&[("mcp-session-id", id.as_str()), ("adjutant-session", "a")], Some("a")),
        ] {
            assert_eq!(parse(lines).unwrap().session.as_deref(), session);
        }
        assert_eq!(
            parse(&[("adjutant-session", "")]).unwrap_err().code(),
            ErrorCode::InvalidArgument
        );
    }

    #[test]
    fn an_mcp_session_id_that_was_not_issued_is_not_found() {
        for id in ["incident-42", "mcp-", "mcp-1", ""] {
            assert_eq!(
                parse(&[("mcp-session-id", id)]).unwrap_err().code(),
                ErrorCode::SessionNotFound,
                "{id}"
            );
        }
    }

    #[test]
    fn the_argument_wins_over_the_header_and_null_counts_as_absent() {
        let headers = SessionHeaders { session: Some("mine".to_owned()), connection: None };
        let source = |given: Value| {
            let mut arguments = json!({"action": "wait"});
            arguments["session_id"] = given;
            let source = SessionSource::take(&mut arguments, "session_id", &headers);
            assert_eq!(arguments, json!({"action": "wait"}));
            source
        };
        assert_eq!(source(json!("x")).unwrap(), Some(SessionSource::Argument("x".to_owned())));
        assert_eq!(source(Value::Null).unwrap(), Some(SessionSource::Header("mine".to_owned())));
        assert!(source(json!(1)).unwrap_err().message.starts_with("session_id: "));
        let none = SessionHeaders { session: None, connection: None };
        assert_eq!(SessionSource::take(&mut json!({}), "session_id", &none).unwrap(), None);
    }
}
