//! Fixtures that several folders share.

pub mod blocking_orchestrator;
pub mod canned_server;
pub mod database;
pub mod event_server;
pub mod fleet;
pub mod http_client;
pub mod json_schema;
pub mod load;
pub mod many_tasks;
pub mod mcp_client;
pub mod orchestrator;
pub mod otlp_collector;
pub mod private_postgres;
pub mod process;
pub mod proxy;
pub mod test_server;
pub mod tool_client;
pub mod tool_server;
pub mod webhook_receiver;
pub mod worker_process;
pub mod world;
