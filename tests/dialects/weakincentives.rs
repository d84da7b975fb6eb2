//! The `weakincentives` dialect, row by row, from a call to its answer: a real worker, a scripted
//! model, and every transport.

pub mod dispatcher;
pub mod dispatches;
pub mod handles;
pub mod refusals;

/// Makes a test of each case for each transport.
macro_rules! over_every_wire {
    ($($case:ident,)+) => {
        over_every_wire! { @service Service $($case,)+ }
        over_every_wire! { @http Http $($case,)+ }
        over_every_wire! { @mcp_http McpHttp $($case,)+ }
        over_every_wire! { @mcp_stdio McpStdio $($case,)+ }
    };
    (@$module:ident $transport:ident $($case:ident,)+) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    super::$case(crate::support::tool_client::Transport::$transport).await;
                }
            )+
        }
    };
}
use over_every_wire;
