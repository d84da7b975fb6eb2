//! Our workers against what nobody here wrote: a real model, somebody else's mock of both wires,
//! real MCP servers. Not part of `make test`: `make test-real` installs them
//! (`tests/real/install.sh`) and runs these.

mod aimock;
mod local_model;
mod mcp_servers;
mod program;
mod site;
