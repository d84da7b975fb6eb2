//! Sessions as parents: what they carry of their orchestrator, and what bounds their tasks.

mod permissions;
mod sessions;
