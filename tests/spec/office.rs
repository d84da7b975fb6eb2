//! Where an orchestrator works in a test: a session, two agents of the config, and a wire to the desk.

use std::sync::Arc;

use adjutant_agent::{AgentDraft, DefinitionLimits, ErrorCode, FailureKind, SessionId};
use adjutant_server::{Caller, Desk, Dialect, Error, Hub, Policy, Scope, ToolCall};
use adjutant_store::{Claim, NewKey, NewSession, Operator, Worker};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::http::server::Server;
use crate::mcp::client::{Modern, StdioClient, mcp};
use crate::world::{World, tool};

/// One call: a session's name, a tool and its arguments; the answer is a status as HTTP has it and a body.
pub type Wire = Arc<dyn Fn(String, ToolCall) -> BoxFuture<'static, (u16, Value)> + Send + Sync>;

pub const SESSION: &str = "the session";

pub struct Office {
    pub world: World,
    pub wire: Wire,
    pub worker: Worker,
}

impl Office {
    pub async fn at_the_desk() -> Self {
        let world = World::new().await;
        let wire = desk_wire(Desk::new(
            world.store.clone(),
            Hub::start(world.store.clone(), world.url().to_owned()),
            policy(),
        ));
        Self::with(world, wire).await
    }

    /// A server of its own, with what [`policy`] and [`Office::with`] say in its config.
    pub async fn over_http() -> Self {
        let world = World::new().await;
        let secret = key(&world, "tenant", "delegate").await;
        let wire = http_wire(Server::of(&world, CONFIG), &secret);
        Self::with(world, wire).await
    }

    /// As [`Office::over_http`], in the newest revision of MCP.
    pub async fn over_mcp_http() -> Self {
        let world = World::new().await;
        let secret = key(&world, "tenant", "delegate").await;
        let wire = mcp_http_wire(Server::of(&world, CONFIG), &secret);
        Self::with(world, wire).await
    }

    /// As [`Office::over_http`], in the oldest revision of MCP, through `adjutant mcp`.
    pub async fn over_mcp_stdio() -> Self {
        let world = World::new().await;
        let secret = key(&world, "tenant", "delegate").await;
        let wire = mcp_stdio_wire(Server::of(&world, CONFIG), &secret).await;
        Self::with(world, wire).await
    }

    pub async fn with(world: World, wire: Wire) -> Self {
        let agents = [("researcher", &["fetch", "shared_context"][..]), ("writer", &[])];
        let agents = agents.map(|(name, tools)| {
            let draft = AgentDraft {
                name: name.to_owned(),
                description: Some(format!("What {name} is for")),
                system_prompt: Some(format!("You are {name}.")),
                tools: Some(tools.iter().map(|tool| (*tool).to_owned()).collect()),
                ..AgentDraft::default()
            };
            draft.check(&DefinitionLimits::default()).unwrap()
        });
        world.store.publish_agents(&agents).await.unwrap();
        world.store.publish_tools(&[tool("fetch")]).await.unwrap();
        let worker = world.worker().await;
        let office = Self { world, wire, worker };
        office.open(SESSION).await;
        office
    }

    /// A new session.
    pub async fn open(&self, name: &str) -> SessionId {
        let new = NewSession { tenant: "tenant".to_owned(), name: name.to_owned(), ..NewSession::default() };
        self.world.store.create_session(&new).await.unwrap().id
    }

    pub async fn session_id(&self) -> SessionId {
        self.world.store.session("tenant", SESSION).await.unwrap().id
    }

    pub async fn raw(&self, session: &str, tool: &str, arguments: Value) -> (u16, Value) {
        let (tool, arguments) = (tool.to_owned(), arguments);
        let call = ToolCall { tool, arguments, idempotency_key: None, traceparent: None };
        (self.wire)(session.to_owned(), call).await
    }

    /// A call of `subagent` that is granted.
    pub fn call(&self, arguments: Value) -> impl Future<Output = Value> {
        self.granted("subagent", arguments)
    }

    /// A call of `shared_context` that is granted.
    pub fn context(&self, arguments: Value) -> impl Future<Output = Value> {
        self.granted("shared_context", arguments)
    }

    async fn granted(&self, tool: &str, arguments: Value) -> Value {
        let said = arguments.to_string();
        let (status, answer) = self.raw(SESSION, tool, arguments).await;
        assert_eq!(status, 200, "{said}: {answer}");
        answer
    }

    /// A call of `subagent` that is refused with this code; the message.
    pub async fn refused(&self, arguments: Value, code: ErrorCode) -> String {
        self.refused_in(SESSION, "subagent", arguments, code).await
    }

    pub async fn refused_in(&self, session: &str, tool: &str, arguments: Value, code: ErrorCode) -> String {
        let said = arguments.to_string();
        let (status, answer) = self.raw(session, tool, arguments).await;
        assert_eq!(
            (status, answer["error"].as_str()),
            (http_status(code), Some(code.as_str())),
            "{said}: {answer}"
        );
        let fields: Vec<_> = answer.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["error", "message"]);
        answer["message"].as_str().unwrap().to_owned()
    }

    /// Spawns a task for the writer; its id.
    pub async fn spawn(&self, task: &str) -> String {
        self.spawn_with(json!({"action": "spawn", "agent": "writer", "task": task})).await
    }

    pub async fn spawn_with(&self, arguments: Value) -> String {
        self.call(arguments).await["task_id"].as_str().unwrap().to_owned()
    }

    pub async fn claim(&self) -> Claim {
        self.world.claim_one(&self.worker).await
    }

    /// Spawns a task and completes it.
    pub async fn completed(&self, result: &str) -> String {
        let task = self.spawn("Do it.").await;
        self.claim().await.lease.complete(result.to_owned(), None).write().await.unwrap();
        task
    }

    /// Spawns a task that fails by its turns.
    pub async fn failed(&self, partial: Option<&str>) -> String {
        let task = self.spawn("Do it.").await;
        let error = "Max turns exceeded without producing a final response".to_owned();
        let claim = self.claim().await;
        let ending = claim.lease.fail(FailureKind::MaxTurns, error, partial.map(str::to_owned));
        ending.write().await.unwrap();
        task
    }

    pub async fn status(&self, task: &str) -> Value {
        self.call(json!({"action": "status", "task_id": task})).await
    }

    pub async fn collect(&self, task: &str) -> Value {
        self.call(json!({"action": "collect", "task_id": task})).await
    }

    pub async fn wait(&self, more: Value) -> Value {
        let mut arguments = json!({"action": "wait"});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.call(arguments).await
    }
}

/// The task ids in an answer of `wait` or `batch`.
pub fn ids(answer: &Value) -> Vec<&str> {
    answer["tasks"].as_array().unwrap().iter().map(|task| task["task_id"].as_str().unwrap()).collect()
}

/// These fields of an answer have these values; it may have others.
#[track_caller]
pub fn assert_has(answer: &Value, expected: Value) {
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&answer[field], value, "{field} of {answer}");
    }
}

#[track_caller]
pub fn assert_lacks(answer: &Value, fields: &[&str]) {
    for field in fields {
        assert!(answer.get(field).is_none(), "{field} is in {answer}");
    }
}

pub fn policy() -> Policy {
    Policy {
        operator: Operator { default_model: "main".to_owned(), ..Operator::default() },
        models: vec!["main".to_owned(), "small".to_owned()],
        model_aliases: [("gpt-vendor".to_owned(), "small".to_owned())].into(),
        ..Policy::default()
    }
}

pub fn desk_wire(desk: Desk) -> Wire {
    Arc::new(move |session, call| {
        let desk = desk.clone();
        Box::pin(async move {
            let caller = Caller { tenant: "tenant".to_owned(), scopes: vec![Scope::Delegate] };
            match desk.call(&caller, &session, call, Dialect::Spec).await {
                Ok(answer) => (200, answer.value),
                Err(Error::Refused(refusal)) => {
                    let body = json!({"error": refusal.code, "message": refusal.message});
                    (http_status(refusal.code), body)
                }
                Err(error) => panic!("{error:?}"),
            }
        })
    })
}

/// A key of a tenant with one scope.
pub async fn key(world: &World, tenant: &str, scope: &str) -> String {
    let key = NewKey {
        tenant: tenant.to_owned(),
        name: "office".to_owned(),
        scopes: vec![scope.to_owned()],
        expires_at: None,
    };
    world.store.create_key(&key).await.unwrap().1
}

pub const CONFIG: &str = "
default_model = 'main'
[models.main]
wire = 'openai'
[models.small]
wire = 'openai'
[model_aliases]
gpt-vendor = 'small'
[agents.researcher]
description = 'What researcher is for'
system_prompt = 'You are researcher.'
tools = ['fetch', 'shared_context']
[agents.writer]
description = 'What writer is for'
system_prompt = 'You are writer.'
";

pub fn http_wire(server: Server, secret: &str) -> Wire {
    let server = Arc::new(server);
    let authorization = format!("Authorization: Bearer {secret}");
    Arc::new(move |session, call| {
        let (server, mut headers) = (server.clone(), vec![authorization.clone()]);
        headers.push("Content-Type: application/json".to_owned());
        headers.extend(call.idempotency_key.iter().map(|key| format!("Idempotency-Key: {key}")));
        headers.extend(call.traceparent.iter().map(|parent| format!("traceparent: {parent}")));
        Box::pin(async move {
            let session: String = session.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let path = format!("/v1/sessions/{session}/tools/{}", call.tool);
            let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
            let answer = server.request("POST", &path, &headers, &call.arguments.to_string()).await;
            (answer.status, answer.json())
        })
    })
}

pub fn mcp_http_wire(server: Server, secret: &str) -> Wire {
    let client = Arc::new(Modern::new(server, secret));
    Arc::new(move |session, call| {
        let client = client.clone();
        Box::pin(async move { answer(client.call_in(&session, &call).await) })
    })
}

pub async fn mcp_stdio_wire(server: Server, secret: &str) -> Wire {
    let mut command = mcp();
    command.args(["--url", &format!("http://{}", server.address)]).env("ADJUTANT_API_KEY", secret);
    let client = StdioClient::start(command);
    client.initialize("2025-06-18").await;
    let both = Arc::new((server, client));
    Arc::new(move |session, call| {
        let both = both.clone();
        Box::pin(async move { answer(both.1.call_in(&session, &call).await) })
    })
}

/// A tool's answer over MCP, as HTTP has it.
fn answer(result: Value) -> (u16, Value) {
    let (body, is_error) = (result["structuredContent"].clone(), result["isError"] == true);
    let code = body["error"].as_str().filter(|_| is_error).map(|code| code.parse().unwrap());
    (code.map_or(200, http_status), body)
}

/// Section H of the contract.
fn http_status(code: ErrorCode) -> u16 {
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
