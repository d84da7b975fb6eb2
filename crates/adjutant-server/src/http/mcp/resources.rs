//! The resources of the server: the full results of tasks, and the shared context.

use adjutant_agent::{ContextCall, ErrorCode, Refusal, SessionId, TaskNumber};
use adjutant_store::TaskFilter;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rmcp::ErrorData;
use rmcp::model::{
    ListResourcesResult, ReadResourceResponse, ReadResourceResult, Resource, ResourceContents,
    ResourceTemplate,
};
use serde_json::{Value, json};

use super::{McpRequest, McpServer, error_data};
use crate::{Caller, Error, Result, Scope};

const SESSIONS: &str = "adjutant://sessions/";
const TEXT: &str = "text/plain";
const JSON: &str = "application/json";

/// Characters that need no encoding in a URI or in the id of an MCP task.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');

/// How many tasks are listed: the newest.
const LISTED: i64 = 100;

/// How many characters of a result one query reads.
const PAGE_CHARS: i64 = 1 << 20;

pub(super) fn templates() -> Vec<ResourceTemplate> {
    let template = |path: &str, name: &str, kind: &str, title: &str, about: &str| {
        ResourceTemplate::new(format!("{SESSIONS}{{session_id}}/{path}"), name)
            .with_title(title)
            .with_description(about)
            .with_mime_type(kind)
    };
    vec![
        template(
            "tasks/{task_id}/result",
            "result",
            TEXT,
            "Result of a task",
            "The whole result of a task that has ended, collected or not.",
        ),
        template(
            "context",
            "context",
            JSON,
            "Shared context",
            "All notes of a session, as JSON by key.",
        ),
        template(
            "context/{key}",
            "note",
            TEXT,
            "Note of the shared context",
            "The text under one key.",
        ),
    ]
}

/// The target of a URI.
enum Address {
    Result(TaskNumber),
    Context,
    Note(String),
}

impl Address {
    /// The scope `read` shows results of tasks; the shared context needs `delegate` or `admin`, and
    /// has to be granted.
    fn check_scope(&self, caller: &Caller) -> Result<()> {
        match self {
            Self::Result(_) => caller.require(&[Scope::Delegate, Scope::Read]),
            Self::Context | Self::Note(_) => {
                caller.require(&[Scope::Delegate, Scope::Admin])?;
                Ok(caller.grants.check_shared_context()?)
            }
        }
    }
}

/// Percent-encodes the name of a session; ids of tasks and keys need no encoding.
pub(super) fn encoded(name: &str) -> String {
    utf8_percent_encode(name, PLAIN).to_string()
}

pub(super) fn decoded(part: &str) -> Option<String> {
    percent_decode_str(part).decode_utf8().ok().map(|name| name.into_owned())
}

fn parse(uri: &str) -> Option<(String, Address)> {
    let parts: Vec<&str> = uri.strip_prefix(SESSIONS)?.split('/').collect();
    let (session, address) = match parts[..] {
        [session, "tasks", task, "result"] => (session, Address::Result(task.parse().ok()?)),
        [session, "context"] => (session, Address::Context),
        [session, "context", key] => (session, Address::Note(decoded(key)?)),
        _ => return None,
    };
    Some((decoded(session)?, address))
}

impl McpServer {
    /// The resources of the session that the headers name. Those of other sessions are not listed,
    /// but can be read by their URIs.
    pub(super) async fn session_resources(
        &self,
        request: &McpRequest,
    ) -> Result<ListResourcesResult, ErrorData> {
        request.require_read()?;
        let Some(session) = &request.session_headers.session else {
            return Ok(ListResourcesResult::default());
        };
        let store = &self.shared.service.store;
        let tenant = request.caller.tenant.clone();
        match store.session(&tenant, session).await.map_err(Error::from) {
            Ok(_) => {}
            // It is created by the first call that needs it.
            Err(error) if error.code() == ErrorCode::SessionNotFound => {
                return Ok(ListResourcesResult::default());
            }
            Err(error) => return Err(error_data(error)),
        }
        let filter = TaskFilter { tenant, session: Some(session.clone()), ..TaskFilter::default() };
        let page =
            store.tasks(&filter, None, LISTED).await.map_err(|error| error_data(error.into()))?;
        let base = format!("{SESSIONS}{}", encoded(session));
        let mut listed = Vec::new();
        if request.caller.grants.check_shared_context().is_ok() {
            let context = Resource::new(format!("{base}/context"), "context");
            listed.push(context.with_title("Shared context").with_mime_type(JSON));
        }
        let tasks = page.tasks.iter().map(|entry| &entry.task);
        listed.extend(tasks.filter(|task| task.finished_at.is_some()).map(|task| {
            let id = task.number;
            let title = task.label.clone().unwrap_or_else(|| format!("{id} by {}", task.agent));
            Resource::new(format!("{base}/tasks/{id}/result"), format!("{id} result"))
                .with_title(title)
                .with_mime_type(TEXT)
        }));
        Ok(ListResourcesResult::with_all_items(listed))
    }

    pub(super) async fn resource(
        &self,
        uri: &str,
        request: &McpRequest,
    ) -> Result<ReadResourceResponse, ErrorData> {
        request.require_read()?;
        let missing = || {
            ErrorData::resource_not_found("There is no such resource", Some(json!({"uri": uri})))
        };
        let (name, address) = parse(uri).ok_or_else(missing)?;
        address.check_scope(&request.caller).map_err(error_data)?;
        let (kind, text) = match self.read_text(&name, address, request).await {
            Ok(found) => found,
            Err(Error::Refused(refusal)) => {
                return Err(ErrorData::resource_not_found(
                    refusal.to_string(),
                    Some(json!({"uri": uri})),
                ));
            }
            Err(error) => return Err(error_data(error)),
        };
        let contents = ResourceContents::text(text, uri).with_mime_type(kind);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn read_text(
        &self,
        name: &str,
        address: Address,
        request: &McpRequest,
    ) -> Result<(&'static str, String)> {
        if name.contains('\0') {
            return Err(Refusal::new(ErrorCode::SessionNotFound, "Session not found").into());
        }
        let store = &self.shared.service.store;
        let session = store.session(&request.caller.tenant, name).await?.id;
        match address {
            Address::Result(task) => Ok((TEXT, self.whole_result(session, task).await?)),
            Address::Context => {
                let listed = store.shared_context(session, &ContextCall::ListKeys).await?;
                let keys: Vec<&Value> = listed["keys"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|key| &key["key"])
                    .collect();
                if keys.is_empty() {
                    return Ok((JSON, "{}".to_owned()));
                }
                let call = ContextCall::parse(
                    &json!({"action": "read_batch", "keys": keys}),
                    self.shared.service.texts(),
                )?;
                let read = store.shared_context(session, &call).await?;
                let entries = read["entries"].as_array().into_iter().flatten();
                let by_key = entries
                    .filter_map(|entry| Some((entry["key"].as_str()?.to_owned(), entry.clone())));
                Ok((JSON, Value::Object(by_key.collect()).to_string()))
            }
            Address::Note(key) => {
                let call = ContextCall::parse(
                    &json!({"action": "read", "key": key}),
                    self.shared.service.texts(),
                )?;
                let read = store.shared_context(session, &call).await?;
                Ok((TEXT, read["value"].as_str().unwrap_or_default().to_owned()))
            }
        }
    }

    async fn whole_result(&self, session: SessionId, task: TaskNumber) -> Result<String> {
        let (mut text, mut offset) = (String::new(), Some(0));
        while let Some(at) = offset {
            let page = self.shared.service.store.read_result(session, task, at, PAGE_CHARS).await?;
            text.push_str(&page.text);
            offset = page.next_offset;
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_is_parsed_to_its_target() {
        let session = "é/ 1";
        let base = format!("{SESSIONS}{}", encoded(session));
        assert_eq!(base, "adjutant://sessions/%C3%A9%2F%201");
        for (path, wanted) in
            [("tasks/t_01/result", "result"), ("context", "context"), ("context/findings", "note")]
        {
            let (name, address) = parse(&format!("{base}/{path}")).unwrap();
            let found = match address {
                Address::Result(TaskNumber(1)) => "result",
                Address::Result(_) => "another result",
                Address::Context => "context",
                Address::Note(key) => {
                    assert_eq!(key, "findings");
                    "note"
                }
            };
            assert_eq!((name.as_str(), found), (session, wanted));
        }
        for wrong in [
            "",
            "file:///etc/passwd",
            "adjutant://sessions/a",
            "adjutant://sessions/a/tasks/t_1/result",
            "adjutant://sessions/a/tasks/t_01",
            "adjutant://sessions/%ff/context",
            "adjutant://sessions/a/context/k/l",
        ] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
