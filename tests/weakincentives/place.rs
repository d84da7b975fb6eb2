//! Where an orchestrator dispatches in a test: a workplace with a prompt in its registry, and a wire to the desk.

use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::SessionId;
use adjutant_script::Script;
use adjutant_server::{Caller, Desk, Dialect, Dialects, Hub, Policy, Scope, ToolCall};
use adjutant_store::{NewSession, Operator};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::agents_at_work::workplace::Workplace;
use crate::fleet::process::WorkerProcess;
use crate::http::server::Server;
use crate::mcp::client::{StdioClient, call, mcp, modern, params, post_to};
use crate::shared_context;
use crate::spec::office::key;

pub const SESSION: &str = "the plan";
const TOOL: &str = "dispatch_subagent";

const PROMPTS: &str = r#"
[agents.research--logs]
description = "Reads logs"
system_prompt = "You read logs."
tools = ["lookup"]
max_turns = 4

[agents.research--lead]
description = "Delegates"
system_prompt = "You are a lead."
may_delegate = true

[agents.hand]
description = "Works"
system_prompt = "You are a hand."
tools = ["shared_context"]

[limits]
max_depth = 2
"#;

/// What a call gets, whatever wire it came over.
#[derive(Debug, PartialEq)]
pub struct Said {
    pub value: Value,
    pub text: String,
    pub is_error: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Desk,
    Http,
    McpHttp,
    McpStdio,
}

type Wire = Box<dyn Fn(ToolCall) -> BoxFuture<'static, Said> + Send + Sync>;

pub struct Place {
    pub work: Workplace,
    pub session: SessionId,
    wire: Wire,
    _worker: Option<WorkerProcess>,
}

impl Place {
    pub async fn open(kind: Kind, script: Script) -> Self {
        let place = Self::unmanned(kind, script).await;
        let worker = place.work.worker();
        Self { _worker: Some(worker), ..place }
    }

    /// Without a worker, but with the prompts and tools that one would have told of.
    pub async fn unmanned(kind: Kind, script: Script) -> Self {
        let work = Workplace::with(script, |_| PROMPTS.to_owned()).await;
        let new =
            NewSession { tenant: "tenant".to_owned(), name: SESSION.to_owned(), ..NewSession::default() };
        let session = work.world.store.create_session(&new).await.unwrap().id;
        let wire = match kind {
            Kind::Desk => desk_wire(desk(&work, Duration::from_secs(45))),
            Kind::Http => http_wire(&work).await,
            Kind::McpHttp => mcp_http_wire(&work).await,
            Kind::McpStdio => mcp_stdio_wire(&work).await,
        };
        Self { work, session, wire, _worker: None }
    }

    /// At a desk whose calls wait for no longer than this.
    pub async fn waiting(longest: Duration, script: Script) -> Self {
        let place = Self::open(Kind::Desk, script).await;
        Self { wire: desk_wire(desk(&place.work, longest)), ..place }
    }

    pub async fn dispatch(&self, arguments: Value) -> Said {
        (self.wire)(call(TOOL, arguments)).await
    }

    pub async fn dispatch_with_key(&self, arguments: Value, key: &str) -> Said {
        (self.wire)(ToolCall { idempotency_key: Some(key.to_owned()), ..call(TOOL, arguments) }).await
    }

    /// A dispatch that is refused with this class; the message. Nothing is made by it.
    pub async fn refused(&self, arguments: Value, error: &str) -> String {
        let said = self.dispatch(arguments.clone()).await;
        let message = said.value["message"].as_str().unwrap_or_default().to_owned();
        let value = json!({"success": false, "error": error, "message": message});
        assert_eq!(said, Said { value, text: message.clone(), is_error: true }, "{arguments}");
        assert_eq!(self.work.world.count("select count(*) from task").await, 0, "{arguments}");
        message
    }

    /// What the orchestrator does with its shared context.
    pub async fn context(&self, arguments: Value) -> Value {
        shared_context::call(&self.work.world, self.session, arguments).await.unwrap()
    }
}

/// Arguments of an ad hoc dispatch, with more or other ones.
pub fn ad_hoc(more: Value) -> Value {
    let mut arguments = json!({
        "mode": "ad_hoc", "prompt_ns": "research", "prompt_key": "logs", "instructions": "Read the logs.",
    });
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    arguments
}

fn desk(work: &Workplace, longest_wait: Duration) -> Desk {
    let policy = Policy {
        operator: Operator { default_model: "openai".to_owned(), ..Operator::default() },
        models: vec!["openai".to_owned()],
        dialects: Dialects { longest_wait, ..Dialects::default() },
        ..Policy::default()
    };
    let hub = Hub::start(work.world.store.clone(), work.world.url().to_owned());
    Desk::new(work.world.store.clone(), hub, policy)
}

fn desk_wire(desk: Desk) -> Wire {
    Box::new(move |call| {
        let desk = desk.clone();
        Box::pin(async move {
            let caller = Caller { tenant: "tenant".to_owned(), scopes: vec![Scope::Delegate] };
            let answer = desk.call(&caller, SESSION, call, Dialect::Weakincentives).await.unwrap();
            Said { value: answer.value, text: answer.text, is_error: answer.is_error }
        })
    })
}

pub fn server(work: &Workplace) -> Server {
    Server::of(&work.world, &std::fs::read_to_string(work.file("adjutant.toml")).unwrap())
}

async fn http_wire(work: &Workplace) -> Wire {
    let secret = key(&work.world, "tenant", "delegate").await;
    let server = Arc::new(server(work));
    Box::new(move |call| {
        let (server, mut headers) = (server.clone(), vec![format!("Authorization: Bearer {secret}")]);
        headers.push("Content-Type: application/json".to_owned());
        headers.extend(call.idempotency_key.map(|key| format!("Idempotency-Key: {key}")));
        Box::pin(async move {
            let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
            let path = format!("/v1/sessions/the%20plan/tools/{TOOL}?dialect=weakincentives");
            let answer = server.request("POST", &path, &headers, &call.arguments.to_string()).await;
            let value = answer.json();
            assert_eq!(answer.status, 200, "row G36: {value}");
            let text = value["message"].as_str().unwrap_or_default().to_owned();
            Said { is_error: value["success"] == false, value, text }
        })
    })
}

async fn mcp_http_wire(work: &Workplace) -> Wire {
    let secret = key(&work.world, "tenant", "delegate").await;
    let server = Arc::new(server(work));
    Box::new(move |call| {
        let (server, secret) = (server.clone(), secret.clone());
        Box::pin(async move {
            let (headers, body) = modern("tools/call", params(Some(SESSION), &call), &json!({}));
            let path = "/mcp?dialect=weakincentives";
            said(&post_to(&server, path, Some(&secret), &headers, &body).await.json()["result"])
        })
    })
}

async fn mcp_stdio_wire(work: &Workplace) -> Wire {
    let secret = key(&work.world, "tenant", "delegate").await;
    let server = server(work);
    let mut command = mcp();
    let url = format!("http://{}", server.address);
    command.args(["--dialect", "weakincentives", "--url", &url]).env("ADJUTANT_API_KEY", secret);
    let client = StdioClient::start(command);
    client.initialize("2025-06-18").await;
    let both = Arc::new((server, client));
    Box::new(move |call| {
        let both = both.clone();
        Box::pin(
            async move { said(&both.1.request("tools/call", params(Some(SESSION), &call)).await["result"]) },
        )
    })
}

fn said(result: &Value) -> Said {
    Said {
        value: result["structuredContent"].clone(),
        text: result["content"][0]["text"].as_str().unwrap_or_default().to_owned(),
        is_error: result["isError"] == true,
    }
}
