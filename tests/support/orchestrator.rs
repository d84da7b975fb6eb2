//! An orchestrator of the `spec` dialect: a session, two agents and a client. The test itself is
//! the worker.

use adjutant_agent::{AgentDraft, DefinitionLimits, ErrorCode, FailureKind, SessionId};
use adjutant_server::{Dialect, Hub, Policy, ToolService};
use adjutant_store::{Claim, NewSession, Operator, Worker};
use serde_json::{Value, json};

use crate::support::test_server::TestServer;
use crate::support::tool_client::{ToolClient, Transport, http_status};
use crate::support::world::{World, tool};

pub const SESSION: &str = "the session";

pub struct Orchestrator {
    pub world: World,
    pub client: ToolClient,
    pub worker: Worker,
}

impl Orchestrator {
    /// Calls the service in this process, or a server process whose config is the same as
    /// [`policy`].
    pub async fn new(transport: Transport) -> Self {
        let world = World::new().await;
        let client = if transport == Transport::Service {
            let hub = Hub::start(world.store.clone(), world.url().to_owned());
            let service = ToolService::new(world.store.clone(), hub, policy());
            ToolClient::of_service(service, Dialect::Spec, SESSION)
        } else {
            let secret = world.api_key("tenant", "delegate").await;
            let server = TestServer::of(&world, CONFIG).into();
            ToolClient::connect(server, transport, Dialect::Spec, Some(&secret), SESSION).await
        };
        Self::with(world, client).await
    }

    pub async fn in_process() -> Self {
        Self::new(Transport::Service).await
    }

    pub async fn with(world: World, client: ToolClient) -> Self {
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
        world.store.publish_tools(&[tool("fetch").into()]).await.unwrap();
        let worker = world.worker().await;
        let orchestrator = Self { world, client, worker };
        orchestrator.open(SESSION).await;
        orchestrator
    }

    /// Creates a session.
    pub async fn open(&self, name: &str) -> SessionId {
        let new = NewSession {
            tenant: "tenant".to_owned(),
            name: name.to_owned(),
            ..NewSession::default()
        };
        self.world.store.create_session(&new).await.unwrap().id
    }

    pub async fn session_id(&self) -> SessionId {
        self.world.store.session("tenant", SESSION).await.unwrap().id
    }

    pub async fn raw(&self, session: &str, tool: &str, arguments: Value) -> (u16, Value) {
        let reply = self.client.in_session(session).call(tool, arguments).await;
        (reply.status, reply.value)
    }

    /// Calls `subagent`, and checks that the call succeeds.
    pub fn call(&self, arguments: Value) -> impl Future<Output = Value> {
        self.succeed("subagent", arguments)
    }

    /// Calls `shared_context`, and checks that the call succeeds.
    pub fn context(&self, arguments: Value) -> impl Future<Output = Value> {
        self.succeed("shared_context", arguments)
    }

    async fn succeed(&self, tool: &str, arguments: Value) -> Value {
        let sent = arguments.to_string();
        let (status, answer) = self.raw(SESSION, tool, arguments).await;
        assert_eq!(status, 200, "{sent}: {answer}");
        answer
    }

    /// Calls `subagent`, checks that it is refused with this code, and returns the message.
    pub async fn refused(&self, arguments: Value, code: ErrorCode) -> String {
        self.refused_in(SESSION, "subagent", arguments, code).await
    }

    pub async fn refused_in(
        &self,
        session: &str,
        tool: &str,
        arguments: Value,
        code: ErrorCode,
    ) -> String {
        let sent = arguments.to_string();
        let (status, answer) = self.raw(session, tool, arguments).await;
        assert_eq!(
            (status, answer["error"].as_str()),
            (http_status(code), Some(code.as_str())),
            "{sent}: {answer}"
        );
        let fields: Vec<_> = answer.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["error", "message"]);
        answer["message"].as_str().unwrap().to_owned()
    }

    /// Spawns a task for the writer, and returns its id.
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

    /// Spawns a task and fails it with `max_turns`.
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
    answer["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["task_id"].as_str().unwrap())
        .collect()
}

/// Checks these fields of an answer, which may have others.
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
