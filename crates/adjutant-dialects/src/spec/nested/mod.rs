//! The actions of `subagent` for agents that delegate further. An agent sees only its own children.

mod call;
mod child;
mod tool;
mod wait;

pub use call::ChildCall;
pub use child::{child_outcome, child_status, spawned_child};
pub use tool::actions_tool;
pub use wait::{ChildWait, Waited};
