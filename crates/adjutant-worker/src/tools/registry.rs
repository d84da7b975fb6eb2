//! The tools by the names that agents use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use adjutant_agent::ToolDefinition;
use adjutant_store::PublishedTool;
use tokio::sync::watch;

use super::{Tool, names};
use crate::lease_table::lock;

/// All tools at one moment.
#[derive(Clone, Default)]
pub struct Catalogue {
    tools: BTreeMap<String, Entry>,
    /// The names of MCP tools by their name with the server prefix, which is always accepted.
    by_server: BTreeMap<String, String>,
}

#[derive(Clone)]
struct Entry {
    definition: ToolDefinition,
    tool: Arc<dyn Tool>,
}

impl Catalogue {
    /// The definitions in the order of their names.
    pub fn definitions(&self) -> impl Iterator<Item = &ToolDefinition> {
        self.tools.values().map(|entry| &entry.definition)
    }

    /// Whether some tool is only for some tenants.
    pub(super) fn is_limited(&self) -> bool {
        self.tools.values().any(|entry| entry.tool.tenants().is_some())
    }

    /// Every tool with the tenants that may use it, in the order of their names.
    pub(super) fn published(&self) -> impl Iterator<Item = PublishedTool> {
        self.tools.values().map(|entry| PublishedTool {
            definition: entry.definition.clone(),
            tenants: entry.tool.tenants().map(<[String]>::to_vec),
        })
    }

    pub(super) fn definition(&self, name: &str) -> Option<ToolDefinition> {
        self.find(name)
            .map(|entry| ToolDefinition { name: name.to_owned(), ..entry.definition.clone() })
    }

    pub(super) fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.find(name).map(|entry| entry.tool.clone())
    }

    /// Every name that finds a tool.
    fn names(&self) -> impl Iterator<Item = &String> {
        self.tools.keys().chain(self.by_server.keys())
    }

    fn find(&self, name: &str) -> Option<&Entry> {
        self.tools.get(name).or_else(|| self.tools.get(self.by_server.get(name)?))
    }

    fn of(fixed: &[Arc<dyn Tool>], served: &BTreeMap<String, Vec<Arc<dyn Tool>>>) -> Self {
        let mut catalogue = Self::default();
        for tool in fixed {
            catalogue.add(tool.definition().name.clone(), tool);
        }
        let of_servers: Vec<_> = served
            .iter()
            .flat_map(|(server, tools)| tools.iter().map(move |tool| (server, tool)))
            .collect();
        let wanted: Vec<_> = of_servers
            .iter()
            .map(|(server, tool)| (server.as_str(), tool.definition().name.as_str()))
            .collect();
        let taken: BTreeSet<&str> =
            fixed.iter().map(|tool| tool.definition().name.as_str()).collect();
        let assigned = names::assign(&taken, &wanted);
        for ((name, (server, own_name)), (_, tool)) in
            assigned.into_iter().zip(&wanted).zip(&of_servers)
        {
            catalogue
                .by_server
                .entry(names::with_server(server, own_name))
                .or_insert_with(|| name.clone());
            catalogue.add(name, tool);
        }
        catalogue
    }

    fn add(&mut self, name: String, tool: &Arc<dyn Tool>) {
        let definition = ToolDefinition { name: name.clone(), ..tool.definition().clone() };
        self.tools.insert(name, Entry { definition, tool: tool.clone() });
    }
}

/// The current catalogue, which changes when MCP servers do.
pub(super) struct ToolRegistry {
    fixed: Vec<Arc<dyn Tool>>,
    served: Mutex<BTreeMap<String, Vec<Arc<dyn Tool>>>>,
    catalogue: watch::Sender<Arc<Catalogue>>,
    /// The MCP servers that are not connected, with the reason.
    servers_down: watch::Sender<BTreeMap<String, String>>,
}

impl ToolRegistry {
    /// None of the servers has started.
    pub(super) fn new<'s>(
        fixed: Vec<Arc<dyn Tool>>,
        servers: impl IntoIterator<Item = &'s String>,
    ) -> Self {
        let catalogue = Catalogue::of(&fixed, &BTreeMap::new());
        let starting = |server: &String| (server.clone(), "it is starting".to_owned());
        Self {
            fixed,
            served: Mutex::default(),
            catalogue: watch::Sender::new(Arc::new(catalogue)),
            servers_down: watch::Sender::new(servers.into_iter().map(starting).collect()),
        }
    }

    /// Says why a server is not connected. The reason may quote the server, so it is made short and
    /// printable.
    pub(super) fn set_server_down(&self, server: &str, why: &str) {
        let why = short_reason(why);
        self.servers_down.send_if_modified(|down| {
            down.insert(server.to_owned(), why.clone()).as_ref() != Some(&why)
        });
    }

    pub(super) fn set_server_up(&self, server: &str) {
        self.servers_down.send_if_modified(|down| down.remove(server).is_some());
    }

    /// The names of all tools, and the servers that are not connected.
    pub(super) fn state(&self) -> (BTreeSet<String>, BTreeMap<String, String>) {
        (self.current().names().cloned().collect(), self.servers_down.borrow().clone())
    }

    /// Resolves when a tool or a server has changed and `is_wanted` holds, at once if it does now.
    pub(super) async fn changed_until(&self, is_wanted: impl Fn() -> bool) {
        let (mut tools, mut servers) = (self.catalogue.subscribe(), self.servers_down.subscribe());
        while !is_wanted() {
            // Cannot fail: `self` owns the senders.
            tokio::select! {
                _ = tools.changed() => {}
                _ = servers.changed() => {}
            }
        }
    }

    /// Replaces the tools of an MCP server. Watchers are notified if a definition changed.
    pub(super) fn set_server_tools(&self, server: &str, mut tools: Vec<Arc<dyn Tool>>) {
        tools.sort_by(|one, other| one.definition().name.cmp(&other.definition().name));
        let mut served = lock(&self.served);
        served.insert(server.to_owned(), tools);
        let new = Catalogue::of(&self.fixed, &served);
        self.catalogue.send_if_modified(|current| {
            let changed = !current.definitions().eq(new.definitions());
            *current = Arc::new(new);
            changed
        });
    }

    pub(super) fn current(&self) -> Arc<Catalogue> {
        self.catalogue.borrow().clone()
    }

    pub(super) fn watch(&self) -> watch::Receiver<Arc<Catalogue>> {
        self.catalogue.subscribe()
    }
}

/// The longest reason that is published.
const MAX_REASON_CHARS: usize = 200;

/// One short line without control characters.
fn short_reason(why: &str) -> String {
    let printable: String =
        why.chars().map(|c| if c.is_control() || is_bidi(c) { ' ' } else { c }).collect();
    let line = printable.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_REASON_CHARS) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// Characters that change the direction of text around them.
fn is_bidi(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_short_printable_line() {
        assert_eq!(short_reason("no\n\tfile \u{1b}[2J\u{202e}x"), "no file [2J x");
        let long = short_reason(&"é".repeat(500));
        assert_eq!(long.chars().count(), MAX_REASON_CHARS + 3);
    }
}
