//! Which session a message is about. The argument `session_id` comes first, then what the request's header says; a client that
//! says nothing gets a session with its first call that needs one, and is told its name.

use adjutant_agent::{ErrorCode, Refusal};
use adjutant_store::NewSession;
use axum::http::{HeaderMap, HeaderValue};
use serde_json::Value;
use uuid::Uuid;

use super::super::Shared;
use super::{MCP_SESSION, SESSION};
use crate::error::internal;
use crate::{Caller, Error, Result};

/// Where sessions begin that nobody gave a name.
const OWN: &str = "mcp-";

/// What a request says of its session, apart from arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionHeaders {
    /// All requests of this client are in this session; it is made when it is needed.
    pub(super) session: Option<String>,
    /// What the client got at its `initialize`, in revisions that have that.
    pub(super) connection: Option<String>,
}

impl SessionHeaders {
    pub(super) fn of(headers: &HeaderMap) -> Result<Self> {
        // Only what we gave out: with 404 the client begins anew.
        let connection = match headers.get(MCP_SESSION) {
            None => None,
            Some(id) => Some(id.to_str().ok().filter(|id| is_own(id)).ok_or_else(|| {
                Error::refused(
                    ErrorCode::SessionNotFound,
                    "Mcp-Session-Id: not one that this server gave out",
                )
            })?),
        };
        let named = match headers.get(SESSION) {
            None => None,
            Some(name) => Some(readable(name).ok_or_else(|| {
                Refusal::invalid("Adjutant-Session", "must have 1 to 255 characters, in UTF-8")
            })?),
        };
        let session = named.or(connection).map(str::to_owned);
        Ok(Self { session, connection: connection.map(str::to_owned) })
    }
}

fn readable(name: &HeaderValue) -> Option<&str> {
    let name = std::str::from_utf8(name.as_bytes()).ok()?.trim();
    (1..=255).contains(&name.chars().count()).then_some(name)
}

/// Whether a session was named by us, for a client that named none.
pub(super) fn is_own(id: &str) -> bool {
    id.strip_prefix(OWN).is_some_and(|id| Uuid::try_parse(id).is_ok())
}

fn new_name() -> String {
    format!("{OWN}{}", Uuid::now_v7())
}

/// For the header of an answer.
pub(super) fn new_id() -> Result<HeaderValue> {
    let value = HeaderValue::try_from(new_name());
    value.map_err(|error| Error::refused(ErrorCode::Internal, internal(&error)))
}

/// The session of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// Named by the call, so it has to be there.
    Named(String),
    Own(String),
    /// Made for this call.
    New(String),
}

impl Place {
    /// Takes the argument of this name, `session_id` mostly, out of the arguments, and else goes by the request.
    pub(super) fn take(
        arguments: &mut Value,
        name: &str,
        whereabouts: &SessionHeaders,
    ) -> Result<Option<Self>, Refusal> {
        let given = arguments.as_object_mut().and_then(|fields| fields.remove(name));
        match given {
            Some(Value::String(name)) => Ok(Some(Self::Named(name))),
            None | Some(Value::Null) => Ok(whereabouts.session.clone().map(Self::Own)),
            Some(_) => Err(Refusal::invalid(name, "must be a text")),
        }
    }

    /// Whether a call failed because a session that is the client's own is not there: then it is made.
    pub(super) fn lacks_own(&self, error: &Error) -> bool {
        matches!(self, Self::Own(_)) && error.code() == ErrorCode::SessionNotFound
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Named(name) | Self::Own(name) | Self::New(name) => name,
        }
    }
}

impl Shared {
    /// A session that somebody begins to work in without having asked for it.
    pub(super) async fn open_session(&self, caller: &Caller, name: &str) -> Result<()> {
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
            // Another call of the same client was first.
            Err(error) if error.code() == ErrorCode::SessionAlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn open_new_session(&self, caller: &Caller) -> Result<Place> {
        let name = new_name();
        self.open_session(caller, &name).await?;
        Ok(Place::New(name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(lines: &[(&str, &str)]) -> Result<SessionHeaders> {
        let line = |(name, value): &(&str, &str)| {
            (
                axum::http::HeaderName::try_from(*name).unwrap(),
                HeaderValue::from_str(value).unwrap(),
            )
        };
        SessionHeaders::of(&lines.iter().map(line).collect())
    }

    #[test]
    fn a_client_is_where_its_header_says() {
        let id = new_name();
        for (lines, session) in [
            (&[][..], None),
            (&[("adjutant-session", "incident 42")], Some("incident 42")),
            (&[("mcp-session-id", id.as_str())], Some(id.as_str())),
            (&[("mcp-session-id", id.as_str()), ("adjutant-session", "a")], Some("a")),
        ] {
            assert_eq!(of(lines).unwrap().session.as_deref(), session);
        }
        assert_eq!(of(&[("adjutant-session", "")]).unwrap_err().code(), ErrorCode::InvalidArgument);
    }

    #[test]
    fn an_id_that_we_did_not_give_out_is_not_found() {
        for id in ["incident-42", "mcp-", "mcp-1", ""] {
            assert_eq!(
                of(&[("mcp-session-id", id)]).unwrap_err().code(),
                ErrorCode::SessionNotFound,
                "{id}"
            );
        }
    }

    #[test]
    fn the_argument_comes_first_and_null_is_nothing() {
        let own = SessionHeaders { session: Some("own".to_owned()), connection: None };
        let place = |given: Value| {
            let mut arguments = json!({"action": "wait"});
            arguments["session_id"] = given;
            let place = Place::take(&mut arguments, "session_id", &own);
            assert_eq!(arguments, json!({"action": "wait"}));
            place
        };
        assert_eq!(place(json!("x")).unwrap(), Some(Place::Named("x".to_owned())));
        assert_eq!(place(Value::Null).unwrap(), Some(Place::Own("own".to_owned())));
        assert!(place(json!(1)).unwrap_err().message.starts_with("session_id: "));
        let nowhere = SessionHeaders { session: None, connection: None };
        assert_eq!(Place::take(&mut json!({}), "session_id", &nowhere).unwrap(), None);
    }
}
