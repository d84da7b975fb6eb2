//! An orchestrator of the `weakincentives` dialect: a fleet with prompts in its registry, and a
//! client.

use std::time::Duration;

use adjutant_agent::SessionId;
use adjutant_script::Script;
use adjutant_server::{Dialect, DialectSettings, Hub, Policy, ToolService};
use adjutant_store::Operator;
use serde_json::{Value, json};

use crate::store::shared_context;
use crate::support::fleet::Fleet;
use crate::support::tool_client::{Reply, ToolClient, Transport};
use crate::support::worker_process::WorkerProcess;

pub const SESSION: &str = "the plan";

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

pub struct Dispatcher {
    pub fleet: Fleet,
    pub session: SessionId,
    client: ToolClient,
    _worker: Option<WorkerProcess>,
}

impl Dispatcher {
    pub async fn new(transport: Transport, script: Script) -> Self {
        let dispatcher = Self::without_worker(transport, script).await;
        let worker = dispatcher.fleet.worker();
        Self { _worker: Some(worker), ..dispatcher }
    }

    /// Without a worker, but with the prompts and tools that one would have published.
    pub async fn without_worker(transport: Transport, script: Script) -> Self {
        let fleet = Fleet::with(script, |_| PROMPTS.to_owned()).await;
        let session = fleet.world.session_with(|new| new.name = SESSION.to_owned()).await;
        let dialect = Dialect::Weakincentives;
        let client = if transport == Transport::Service {
            let service = service(&fleet, Duration::from_secs(45));
            ToolClient::of_service(service, dialect, SESSION)
        } else {
            let secret = fleet.world.api_key("tenant", "delegate").await;
            ToolClient::connect(fleet.server().into(), transport, dialect, Some(&secret), SESSION)
                .await
        };
        Self { fleet, session, client, _worker: None }
    }

    /// At a service whose calls wait for no longer than this.
    pub async fn with_longest_wait(longest: Duration, script: Script) -> Self {
        let dispatcher = Self::new(Transport::Service, script).await;
        let service = service(&dispatcher.fleet, longest);
        let client = ToolClient::of_service(service, Dialect::Weakincentives, SESSION);
        Self { client, ..dispatcher }
    }

    /// By row G36 every answer over HTTP is a 200.
    pub async fn dispatch(&self, arguments: Value) -> Reply {
        let reply = self.client.call("dispatch_subagent", arguments).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply
    }

    pub async fn dispatch_with_key(&self, arguments: Value, key: &str) -> Reply {
        self.client.with_key(key).call("dispatch_subagent", arguments).await
    }

    /// A dispatch that is refused with this class; the message. It creates no task.
    pub async fn refused(&self, arguments: Value, error: &str) -> String {
        let reply = self.dispatch(arguments.clone()).await;
        let message = reply.value["message"].as_str().unwrap_or_default().to_owned();
        let value = json!({"success": false, "error": error, "message": message});
        let expected = Reply { status: 200, value, text: message.clone(), is_error: true };
        assert_eq!(reply, expected, "{arguments}");
        assert_eq!(self.fleet.world.count("select count(*) from task").await, 0, "{arguments}");
        message
    }

    /// A call of the orchestrator's shared context.
    pub async fn context(&self, arguments: Value) -> Value {
        shared_context::call(&self.fleet.world, self.session, arguments).await.unwrap()
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

fn service(fleet: &Fleet, longest_wait: Duration) -> ToolService {
    let policy = Policy {
        operator: Operator { default_model: "openai".to_owned(), ..Operator::default() },
        models: vec!["openai".to_owned()],
        dialects: DialectSettings { longest_wait, ..DialectSettings::default() },
        ..Policy::default()
    };
    let hub = Hub::start(fleet.world.store.clone(), fleet.world.url().to_owned());
    ToolService::new(fleet.world.store.clone(), hub, policy)
}
