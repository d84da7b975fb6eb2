//! The actions of `subagent` that an agent may use which delegates further. An agent sees its own children and no other tasks.

mod call;
mod child;
mod tool;
mod wait;

pub use call::ChildCall;
pub use child::{child_outcome, child_status, spawned_child};
pub use tool::actions_tool;
pub use wait::{ChildWait, Waited};
