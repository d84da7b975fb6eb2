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
}

impl ToolRegistry {
    pub(super) fn new(fixed: Vec<Arc<dyn Tool>>) -> Self {
        let catalogue = Catalogue::of(&fixed, &BTreeMap::new());
        Self { fixed, served: Mutex::default(), catalogue: watch::Sender::new(Arc::new(catalogue)) }
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
