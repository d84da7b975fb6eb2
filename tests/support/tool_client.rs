//! A client that calls the tools of one dialect in one session, over any transport to the service.

use std::sync::Arc;

use adjutant_agent::ErrorCode;
use adjutant_server::{Caller, Dialect, Error, Scope, ToolCall, ToolService};
use serde_json::{Value, json};

use crate::support::http_client::Answer;
use crate::support::mcp_client::{McpClient, McpStdioClient, mcp, params, tool_call};
use crate::support::test_server::TestServer;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// The service in the process of the test.
    Service,
    /// `adjutant serve`.
    Http,
    /// `/mcp` of `adjutant serve`, in the newest revision of MCP.
    McpHttp,
    /// `adjutant mcp` as a process, in the oldest revision of MCP.
    McpStdio,
}

/// The answer to a tool call, in the same form for every transport.
#[derive(Debug, PartialEq)]
pub struct Reply {
    pub status: u16,
    pub value: Value,
    pub text: String,
    pub is_error: bool,
}

#[derive(Clone)]
pub struct ToolClient {
    connection: Connection,
    pub dialect: Dialect,
    session: String,
    pub idempotency_key: Option<String>,
}

#[derive(Clone)]
enum Connection {
    Service(ToolService),
    Http { server: Arc<TestServer>, api_key: Option<String> },
    McpHttp(McpClient),
    McpStdio(Arc<(Arc<TestServer>, McpStdioClient)>),
}

impl ToolClient {
    /// A client of the service itself, as a caller of the tenant `tenant`.
    pub fn of_service(service: ToolService, dialect: Dialect, session: &str) -> Self {
        Self::new(Connection::Service(service), dialect, session)
    }

    pub async fn connect(
        server: Arc<TestServer>,
        transport: Transport,
        dialect: Dialect,
        api_key: Option<&str>,
        session: &str,
    ) -> Self {
        let connection = match transport {
            Transport::Service => panic!("a server cannot be reached in process"),
            Transport::Http => Connection::Http { server, api_key: api_key.map(str::to_owned) },
            Transport::McpHttp => {
                Connection::McpHttp(McpClient::of(server, api_key).speaking(dialect))
            }
            Transport::McpStdio => Connection::McpStdio(stdio(server, dialect, api_key).await),
        };
        Self::new(connection, dialect, session)
    }

    fn new(connection: Connection, dialect: Dialect, session: &str) -> Self {
        Self { connection, dialect, session: session.to_owned(), idempotency_key: None }
    }

    /// The same client in another session.
    pub fn in_session(&self, session: &str) -> Self {
        Self { session: session.to_owned(), ..self.clone() }
    }

    pub fn with_key(&self, key: &str) -> Self {
        Self { idempotency_key: Some(key.to_owned()), ..self.clone() }
    }

    /// The same client over MCP, with support for its tasks.
    pub fn with_tasks(&self) -> Self {
        let client = match &self.connection {
            Connection::McpHttp(client) => client.clone(),
            Connection::Http { server, api_key } => {
                McpClient::of(server.clone(), api_key.as_deref()).speaking(self.dialect)
            }
            Connection::Service(_) | Connection::McpStdio(_) => panic!("not over HTTP"),
        };
        Self { connection: Connection::McpHttp(client.with_tasks()), ..self.clone() }
    }

    pub async fn call(&self, tool: &str, arguments: Value) -> Reply {
        self.send(tool_call(tool, arguments)).await
    }

    /// Calls the tool that delegates, checks the status, and returns the value.
    pub async fn delegate(&self, arguments: Value) -> Value {
        let reply = self.call(delegating_tool(self.dialect), arguments).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.value
    }

    pub async fn send(&self, mut call: ToolCall) -> Reply {
        call.idempotency_key = call.idempotency_key.or_else(|| self.idempotency_key.clone());
        match &self.connection {
            Connection::Service(service) => self.send_to_service(service, call).await,
            Connection::Http { .. } => {
                let answer = self.post(call).await;
                let value = answer.json();
                let (text, is_error) = (self.text_of(&value), self.is_error(&value));
                Reply { status: answer.status, value, text, is_error }
            }
            Connection::McpHttp(client) => {
                self.reply_of(client.call_in(&self.session, &call).await)
            }
            Connection::McpStdio(both) if self.dialect == Dialect::Spec => {
                self.reply_of(both.1.call_in(&self.session, &call).await)
            }
            Connection::McpStdio(both) => {
                let answer = both.1.request("tools/call", params(Some(&self.session), &call)).await;
                self.reply_of(answer["result"].clone())
            }
        }
    }

    async fn send_to_service(&self, service: &ToolService, call: ToolCall) -> Reply {
        let caller = Caller::new("tenant", &[Scope::Delegate]);
        match service.call(&caller, &self.session, call, self.dialect).await {
            Ok(answer) => Reply {
                status: 200,
                value: answer.value,
                text: answer.text,
                is_error: answer.is_error,
            },
            Err(Error::Refused(refusal)) => Reply {
                status: http_status(refusal.code),
                value: json!({"error": refusal.code, "message": refusal.message}),
                text: refusal.message,
                is_error: true,
            },
            Err(error) => panic!("{error:?}"),
        }
    }

    /// The whole answer to a call over HTTP.
    pub async fn post(&self, call: ToolCall) -> Answer {
        let idempotency_key = call.idempotency_key.or_else(|| self.idempotency_key.clone());
        let Connection::Http { server, api_key } = &self.connection else {
            panic!("not over HTTP");
        };
        let mut headers = vec!["Content-Type: application/json".to_owned()];
        headers.extend(api_key.iter().map(|key| format!("Authorization: Bearer {key}")));
        headers.extend(idempotency_key.iter().map(|key| format!("Idempotency-Key: {key}")));
        headers.extend(call.traceparent.iter().map(|parent| format!("traceparent: {parent}")));
        let session: String = self.session.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let dialect = self.dialect.as_str();
        let path = format!("/v1/sessions/{session}/tools/{}?dialect={dialect}", call.tool);
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        server.request("POST", &path, &headers, &call.arguments.to_string()).await
    }

    /// Any request over MCP; the whole answer.
    pub async fn request(&self, method: &str, params: Value) -> Value {
        let Connection::McpHttp(client) = &self.connection else { panic!("not over MCP") };
        client.request(method, params).await
    }

    fn reply_of(&self, result: Value) -> Reply {
        if result["resultType"] == "task" {
            return Reply { status: 200, value: result, text: String::new(), is_error: false };
        }
        let value = result["structuredContent"].clone();
        let is_error = result["isError"] == true;
        let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        if self.dialect == Dialect::Spec {
            let code = value["error"].as_str().filter(|_| is_error);
            let status = code.map_or(200, |code| http_status(code.parse().unwrap()));
            return Reply { status, value, text, is_error };
        }
        assert_same_in_all_forms(self.dialect, &result);
        Reply { status: 200, value, text, is_error }
    }

    fn text_of(&self, value: &Value) -> String {
        let field = if self.dialect == Dialect::Caliban { "text" } else { "message" };
        value[field].as_str().unwrap_or_default().to_owned()
    }

    fn is_error(&self, value: &Value) -> bool {
        match self.dialect {
            Dialect::Spec => value.get("error").is_some(),
            Dialect::Caliban => value["is_error"] == true,
            Dialect::Ecs | Dialect::Xzatoma | Dialect::Weakincentives => value["success"] == false,
        }
    }
}

async fn stdio(
    server: Arc<TestServer>,
    dialect: Dialect,
    api_key: Option<&str>,
) -> Arc<(Arc<TestServer>, McpStdioClient)> {
    let mut command = mcp();
    let url = format!("http://{}", server.address);
    command.args(["--dialect", dialect.as_str(), "--url", &url]);
    command.envs(api_key.map(|key| ("ADJUTANT_API_KEY", key)));
    let client = McpStdioClient::start(command);
    client.initialize("2025-06-18").await;
    Arc::new((server, client))
}

/// The tool of a dialect that delegates.
pub fn delegating_tool(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Caliban => "AgentTool",
        Dialect::Weakincentives => "dispatch_subagent",
        Dialect::Spec | Dialect::Ecs | Dialect::Xzatoma => "subagent",
    }
}

/// Checks that the text, the structured content and `isError` of an MCP result agree.
#[track_caller]
pub fn assert_same_in_all_forms(dialect: Dialect, result: &Value) {
    let value = &result["structuredContent"];
    let content =
        result["content"].as_array().unwrap_or_else(|| panic!("not a tool result: {result}"));
    assert_eq!((content.len(), &content[0]["type"]), (1, &json!("text")), "one block: {result}");
    let text = content[0]["text"].as_str().unwrap();
    let is_error = match dialect {
        Dialect::Caliban => {
            assert_eq!(value["text"], text);
            value["is_error"] == true
        }
        Dialect::Weakincentives => {
            assert_eq!(value["message"], text);
            value["success"] == false
        }
        Dialect::Spec | Dialect::Ecs | Dialect::Xzatoma => {
            assert_eq!(value, &serde_json::from_str::<Value>(text).unwrap());
            value["success"] == false
        }
    };
    assert_eq!(result["isError"], is_error, "{result}");
}

/// The HTTP status of an error code.
pub fn http_status(code: ErrorCode) -> u16 {
    match code.as_str() {
        "MAX_TASKS_EXCEEDED" => 429,
        "INTERNAL" => 500,
        "TASK_NOT_READY" | "SESSION_ARCHIVED" | "STORE_FULL" | "IDEMPOTENCY_CONFLICT" => 409,
        word if word.ends_with("_ALREADY_EXISTS") => 409,
        word if word.ends_with("_NOT_FOUND") => 404,
        word if word.starts_with("INVALID_") || word.ends_with("_TOO_LARGE") => 400,
        word => panic!("no status for {word}"),
    }
}
