use adjutant_agent::{SessionId, TaskId, ToolDefinition};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Limits, Tool, ToolCall};

/// A tool that is an async function of the embedding program. Its definition has the name, the
/// schema and the replay rule. Its limits are a minute and 64 KiB unless [`RustTool::within`] sets
/// others.
///
/// ```
/// use adjutant_agent::{Replay, ToolDefinition};
/// use adjutant_worker::tools::{RustCall, RustTool};
/// use serde::Deserialize;
/// use serde_json::json;
///
/// #[derive(Deserialize)]
/// struct Order {
///     number: u32,
/// }
///
/// let definition = ToolDefinition {
///     name: "order_status".to_owned(),
///     description: "Returns the status of an order.".to_owned(),
///     input_schema: json!({
///         "type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"],
///     }),
///     replay: Replay::Safe,
/// };
/// let tool = RustTool::new(definition, |call: RustCall| async move {
///     let order: Order = call.arguments()?;
///     Ok(format!("Order {} is on its way.", order.number))
/// });
/// ```
pub struct RustTool<F> {
    definition: ToolDefinition,
    limits: Limits,
    run: F,
}

/// One call of a [`RustTool`] by a model.
#[derive(Debug, Clone, PartialEq)]
pub struct RustCall {
    /// Always an object.
    pub arguments: Value,
    /// The idempotency key `task:turn:call`: the same if the call is repeated after a crash.
    pub key: String,
    pub task: TaskId,
    pub session: SessionId,
}

impl RustCall {
    /// Deserializes the arguments. The error is for the model.
    pub fn arguments<A: DeserializeOwned>(&self) -> Result<A, String> {
        A::deserialize(&self.arguments)
            .map_err(|error| format!("The arguments are invalid: {error}."))
    }
}

impl<F, R> RustTool<F>
where
    F: Fn(RustCall) -> R + Send + Sync + 'static,
    R: Future<Output = Result<String, String>> + Send + 'static,
{
    pub fn new(definition: ToolDefinition, run: F) -> Self {
        Self { definition, limits: Limits::default(), run }
    }

    pub fn within(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }
}

impl<F, R> Tool for RustTool<F>
where
    F: Fn(RustCall) -> R + Send + Sync + 'static,
    R: Future<Output = Result<String, String>> + Send + 'static,
{
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<String, String>> {
        let ToolCall { arguments, key, task, session, tenant: _, kind: _ } = call;
        let call = RustCall { arguments: arguments.clone(), key: key.to_owned(), task, session };
        (self.run)(call).boxed()
    }
}
