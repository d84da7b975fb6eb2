//! The `spec` dialect, row by row: the id of the specification's row is at the start of each case's
//! name. A case knows only calls and answers, so the same cases run over every transport that leads
//! to the service.

pub mod agents;
pub mod batches;
pub mod calls;
pub mod cancels;
pub mod collects;
pub mod context;
pub mod end_to_end;
pub mod logs;
pub mod spawns;
pub mod waits;

/// Makes a test of each case for each transport.
macro_rules! over_every_wire {
    ($($case:ident,)+) => {
        mod service {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    super::$case(crate::support::orchestrator::Orchestrator::in_process().await).await;
                }
            )+
        }

        /// `adjutant serve` as a process, and a key.
        mod http {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    super::$case(crate::support::orchestrator::Orchestrator::new(crate::support::tool_client::Transport::Http).await).await;
                }
            )+
        }

        /// The same over `/mcp`.
        mod mcp_http {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    super::$case(crate::support::orchestrator::Orchestrator::new(crate::support::tool_client::Transport::McpHttp).await).await;
                }
            )+
        }

        /// The same through `adjutant mcp` as a process.
        mod mcp_stdio {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    super::$case(crate::support::orchestrator::Orchestrator::new(crate::support::tool_client::Transport::McpStdio).await).await;
                }
            )+
        }
    };
}
pub(crate) use over_every_wire;
