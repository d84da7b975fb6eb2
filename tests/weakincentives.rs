//! The `weakincentives` dialect, row by row, from a call to its answer: a real worker, a scripted model, and every wire.

mod dispatches;
mod handles;
mod place;
mod refusals;

/// Makes a test of each case for each wire.
macro_rules! over_every_wire {
    ($($case:ident,)+) => {
        over_every_wire! { @desk Desk $($case,)+ }
        over_every_wire! { @http Http $($case,)+ }
        over_every_wire! { @mcp_http McpHttp $($case,)+ }
        over_every_wire! { @mcp_stdio McpStdio $($case,)+ }
    };
    (@$module:ident $wire:ident $($case:ident,)+) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    super::$case(crate::weakincentives::place::Kind::$wire).await;
                }
            )+
        }
    };
}
use over_every_wire;
