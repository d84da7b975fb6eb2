//! `[server]`: what the operator says about those who come in by HTTP.

use super::Server;
use super::problem::Findings;
use super::tree::{Node, Table};
use super::understand::section;

pub fn understand(table: &Table, findings: &mut Findings) -> Server {
    let default = Server::default();
    let node = |name: &str| section(table, "server")?.get(name);
    let whole = |name: &str| node(name).and_then(Node::as_integer);
    let rate = |name: &str| node(name).and_then(Node::as_number);
    if let Some((node, listen)) = node("listen").and_then(|node| Some((node, node.as_text()?)))
        && !is_address(listen)
    {
        findings.error(&node.place, "server.listen", "must be an address and a port, as 127.0.0.1:7433");
    }
    Server {
        listen: node("listen").and_then(Node::as_text).map_or(default.listen, str::to_owned),
        max_body_bytes: whole("max_body_bytes")
            .and_then(|bytes| usize::try_from(bytes).ok())
            .unwrap_or(default.max_body_bytes),
        tenant_max_sessions: whole("tenant_max_sessions"),
        tenant_max_active: whole("tenant_max_active"),
        tenant_max_queued: whole("tenant_max_queued"),
        tenant_requests_per_s: rate("tenant_requests_per_s"),
        session_status_per_s: rate("session_status_per_s"),
    }
}

/// Whether there is such an address is seen when it is listened on.
fn is_address(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}
