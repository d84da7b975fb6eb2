//! `[server]`: the HTTP server, and the limits of its tenants.

use adjutant_server::Network;
use serde::Deserialize;

use super::assemble::{deserialize, section};
use super::problem::Findings;
use super::schema::{Kind, Setting, at_least, settings};
use super::tree::Table;

pub const SETTINGS: &[Setting] = settings! {
    "server.listen" => Kind::Text,
    "server.max_body_bytes" => Kind::Integer { min: 1024, max: 64 << 20 },
    "server.tenant_max_sessions" => at_least(1),
    "server.tenant_max_active" => at_least(1),
    "server.tenant_max_queued" => at_least(1),
    "server.tenant_requests_per_s" => Kind::PositiveNumber,
    "server.session_status_per_s" => Kind::PositiveNumber,
    "server.tenant_max_reads" => at_least(1),
    "server.search_ms" => at_least(1),
    "server.tenant_max_waits" => at_least(1),
    "server.tenant_max_connections" => at_least(1),
    "server.address_max_connections" => at_least(1),
    "server.bodies_max_bytes" => at_least(1024),
    "server.tenant_bodies_max_bytes" => at_least(1024),
    "server.trusted_proxies" => Kind::TextList,
    "server.fleet_check_s" => at_least(1),
};

/// A limit that is `None` does not exist.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct Server {
    pub listen: String,
    pub max_body_bytes: usize,
    pub tenant_max_sessions: Option<i64>,
    pub tenant_max_active: Option<i64>,
    pub tenant_max_queued: Option<i64>,
    /// Each server process counts by itself.
    pub tenant_requests_per_s: Option<f64>,
    pub session_status_per_s: Option<f64>,
    pub tenant_max_reads: usize,
    pub search_ms: u64,
    pub tenant_max_waits: usize,
    pub tenant_max_connections: usize,
    pub address_max_connections: usize,
    pub bodies_max_bytes: usize,
    pub tenant_bodies_max_bytes: usize,
    pub trusted_proxies: Vec<String>,
    /// How often the fleet's troubles are looked for, to log them.
    pub fleet_check_s: u64,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7433".to_owned(),
            max_body_bytes: 1 << 20,
            tenant_max_sessions: None,
            tenant_max_active: None,
            tenant_max_queued: None,
            tenant_requests_per_s: None,
            session_status_per_s: None,
            tenant_max_reads: 8,
            search_ms: 500,
            tenant_max_waits: 500,
            tenant_max_connections: 4096,
            address_max_connections: 4096,
            bodies_max_bytes: 256 << 20,
            tenant_bodies_max_bytes: 64 << 20,
            trusted_proxies: Vec::new(),
            fleet_check_s: 15,
        }
    }
}

pub fn read(table: &Table, findings: &mut Findings) -> Server {
    let server: Server = deserialize(table, "server", findings).unwrap_or_default();
    if let Some(node) = section(table, "server").and_then(|server| server.get("listen"))
        && !is_address(&server.listen)
    {
        let text = "must be an address and a port, like 127.0.0.1:7433";
        findings.error(&node.location, "server.listen", text);
    }
    if let Some(node) = section(table, "server").and_then(|server| server.get("trusted_proxies"))
        && let Err((proxy, expected)) = server.trusted_networks()
    {
        let text = format!("{proxy:?} {expected}");
        findings.error(&node.location, "server.trusted_proxies", text);
    }
    for (name, bytes) in [
        ("bodies_max_bytes", server.bodies_max_bytes),
        ("tenant_bodies_max_bytes", server.tenant_bodies_max_bytes),
    ] {
        if let Some(node) = section(table, "server").and_then(|server| server.get(name))
            && bytes < server.max_body_bytes
        {
            let text = format!(
                "must be at least server.max_body_bytes ({}), not {bytes}",
                server.max_body_bytes
            );
            findings.error(&node.location, format!("server.{name}"), text);
        }
    }
    server
}

impl Server {
    /// The networks of trusted proxies; or the text that is none, and what it must be.
    pub fn trusted_networks(&self) -> Result<Vec<Network>, (&str, &'static str)> {
        let texts = self.trusted_proxies.iter().map(String::as_str);
        texts.map(|text| text.parse().map_err(|expected| (text, expected))).collect()
    }
}

/// Checks the form only. Whether this machine has the address shows when the server binds it.
fn is_address(text: &str) -> bool {
    text.rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}
