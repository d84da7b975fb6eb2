//! The dialects, row by row: the id of the specification's row is at the start of each test's name.
//! The server is a process; the test itself is the worker, except where a whole loop is shown.

pub mod blocking_calls;
pub mod caliban;
pub mod client_cancels;
pub mod ecs;
pub mod examples;
pub mod spec;
pub mod weakincentives;
pub mod xzatoma;

/// Makes a test of each case over HTTP and over MCP.
macro_rules! over_both_wires {
    ($($case:ident,)+) => {
        mod http {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    super::$case(crate::support::tool_client::Transport::Http).await;
                }
            )+
        }

        mod mcp {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    super::$case(crate::support::tool_client::Transport::McpHttp).await;
                }
            )+
        }
    };
}
pub(crate) use over_both_wires;
