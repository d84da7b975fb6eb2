//! The dialects of the other sources, row by row: the id of the contract's row is at the start of each case's name. The server is a
//! process; the test itself is the worker, but where a whole loop is shown.

mod caliban;
mod doors;
mod examples;
pub mod front;
pub mod telemetry;
mod xzatoma;

/// Makes a test of each case over HTTP and over MCP.
macro_rules! over_both_wires {
    ($($case:ident,)+) => {
        mod http {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    super::$case(crate::dialects::front::Wire::Http).await;
                }
            )+
        }

        mod mcp {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    super::$case(crate::dialects::front::Wire::Mcp).await;
                }
            )+
        }
    };
}
pub(crate) use over_both_wires;
