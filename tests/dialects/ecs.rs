//! The tools of ecs_agent's SubagentSystem, row by row, over HTTP: the id of the specification's
//! row is at the start of each test's name.

pub mod examples;
pub mod launches;
pub mod mcp;
pub mod orchestrator;
pub mod restarts;
pub mod results;
pub mod waits;
