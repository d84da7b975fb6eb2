//! A server of HTTP tools that records the calls.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// The length of the result of `long`, in words.
pub const LONG: usize = 4000;

/// One recorded call.
#[derive(Debug, Clone)]
pub struct Call {
    pub tool: String,
    pub key: String,
    pub arguments: Value,
}

/// `lookup` and `pay` answer at once, `held` after [`ToolServer::let_go`], `meet` when two calls
/// with the same arguments are running, `long` with a long text, and `broken` with an error.
pub struct ToolServer {
    url: String,
    service: Arc<ToolService>,
    _serving: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct ToolService {
    calls: Mutex<Vec<Call>>,
    let_go: watch::Sender<bool>,
    running: AtomicUsize,
    most_at_once: AtomicUsize,
}

impl ToolServer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = Arc::new(ToolService::default());
        let routes = Router::new().route("/{tool}", post(answer)).with_state(service.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { url, service, _serving: AbortOnDropHandle::new(serving) }
    }

    /// The config of the tools. Only `lookup`, `meet` and `long` may be called again after a crash.
    pub fn config(&self) -> String {
        let tool = |(name, replay)| {
            let url = &self.url;
            format!(
                "[tools.http.{name}]\ndescription = \"{name}\"\nurl = \"{url}/{name}\"\nreplay = \"{replay}\"\nallow_private = true\ntimeout_s = 10\n"
            )
        };
        [
            ("lookup", "safe"),
            ("meet", "safe"),
            ("long", "safe"),
            ("pay", "unsafe"),
            ("held", "unsafe"),
            ("broken", "unsafe"),
        ]
        .map(tool)
        .concat()
    }

    pub fn calls_of(&self, tool: &str) -> Vec<Call> {
        self.service.calls().into_iter().filter(|call| call.tool == tool).collect()
    }

    /// The calls of a task: their idempotency keys begin with its id.
    pub fn calls_by(&self, task: adjutant_agent::TaskId, tool: &str) -> Vec<Call> {
        let task = task.to_string();
        self.calls_of(tool).into_iter().filter(|call| call.key.starts_with(&task)).collect()
    }

    /// The most calls that have run at the same time.
    pub fn most_at_once(&self) -> usize {
        self.service.most_at_once.load(Ordering::SeqCst)
    }

    /// Lets all calls of `held` answer, the running ones and later ones.
    pub fn let_go(&self) {
        self.service.let_go.send_replace(true);
    }
}

impl ToolService {
    fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }
}

async fn answer(
    State(service): State<Arc<ToolService>>,
    Path(tool): Path<String>,
    headers: HeaderMap,
    body: String,
) -> (StatusCode, String) {
    let key = headers["idempotency-key"].to_str().unwrap().to_owned();
    let arguments: Value = serde_json::from_str(&body).unwrap();
    service.calls.lock().unwrap().push(Call {
        tool: tool.clone(),
        key,
        arguments: arguments.clone(),
    });
    let running = service.running.fetch_add(1, Ordering::SeqCst) + 1;
    service.most_at_once.fetch_max(running, Ordering::SeqCst);
    let answer = answer_of(&service, &tool, &arguments).await;
    service.running.fetch_sub(1, Ordering::SeqCst);
    answer
}

async fn answer_of(service: &ToolService, tool: &str, arguments: &Value) -> (StatusCode, String) {
    match tool {
        "held" => {
            let _ = service.let_go.subscribe().wait_for(|let_go| *let_go).await;
        }
        "meet" => until_two_calls(service, arguments).await,
        "long" => return (StatusCode::OK, arguments["word"].as_str().unwrap().repeat(LONG)),
        "broken" => return (StatusCode::INTERNAL_SERVER_ERROR, "The index is damaged.".to_owned()),
        _ => {}
    }
    (StatusCode::OK, format!("{tool} says {arguments}"))
}

/// Waits for a second call with the same arguments, until the caller's timeout.
async fn until_two_calls(service: &ToolService, arguments: &Value) {
    let mut tick = tokio::time::interval(Duration::from_millis(5));
    while service
        .calls()
        .iter()
        .filter(|call| call.tool == "meet" && call.arguments == *arguments)
        .count()
        < 2
    {
        tick.tick().await;
    }
}
