//! The `spec` dialect, row by row: the id of the contract's row is at the start of each case's name. A case knows only calls and
//! answers, so the same cases run over every wire that leads to the desk.

mod agents;
mod at_work;
mod batches;
mod calls;
mod cancels;
mod collects;
mod context;
mod logs;
pub mod office;
mod spawns;
mod waits;

/// Makes a test of each case for each wire.
macro_rules! over_every_wire {
    ($($case:ident,)+) => {
        mod desk {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    super::$case(crate::spec::office::Office::at_the_desk().await).await;
                }
            )+
        }

        /// `adjutant serve` as a process, and a key.
        mod http {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    super::$case(crate::spec::office::Office::over_http().await).await;
                }
            )+
        }

        /// The same over `/mcp`.
        mod mcp_http {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    super::$case(crate::spec::office::Office::over_mcp_http().await).await;
                }
            )+
        }

        /// The same through `adjutant mcp` as a process.
        mod mcp_stdio {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    super::$case(crate::spec::office::Office::over_mcp_stdio().await).await;
                }
            )+
        }
    };
}
pub(crate) use over_every_wire;
