//! `[models.NAME]`, `model_aliases` and `default_model`.

use std::collections::{BTreeMap, BTreeSet};

use adjutant_agent::Compaction;
use adjutant_worker::model::{ModelConfig, Wire};

use super::assemble::{conflict, deserialize_node, entries};
use super::problem::Findings;
use super::schema::{Kind, Setting, at_least, dotted, settings};
use super::suggest::{choice, suggestion};
use super::tree::{Node, Table, Value};

/// In USD per million tokens.
const PRICE: Kind = Kind::Number { min: 0.0, max: 1e6 };

pub const SETTINGS: &[Setting] = settings! {
    "default_model" => Kind::Text,
    "model_aliases" => Kind::TextTable,
    "models.*.wire" => Kind::OneOf(Wire::WORDS),
    "models.*.base_url" => Kind::Url,
    "models.*.api_key_env" => Kind::Text,
    "models.*.api_key_file" => Kind::Path,
    "models.*.model" => Kind::Text,
    "models.*.max_tokens" => at_least(1),
    "models.*.max_tokens_field" => Kind::OneOf(&["max_tokens", "max_completion_tokens"]),
    "models.*.temperature" => Kind::Number { min: 0.0, max: 2.0 },
    "models.*.extra_body" => Kind::Table,
    "models.*.headers" => Kind::TextTable,
    "models.*.context_window" => at_least(1000),
    "models.*.compaction" => Kind::OneOf(Compaction::WORDS),
    "models.*.prices.input" => PRICE,
    "models.*.prices.output" => PRICE,
    "models.*.prices.cache_read" => PRICE,
    "models.*.prices.cache_write" => PRICE,
    "models.*.max_concurrency" => at_least(1),
    "models.*.requests_per_minute" => at_least(1),
    "models.*.tokens_per_minute" => at_least(1),
    "models.*.fallback" => Kind::TextList,
    "models.*.fallback_after_s" => Kind::PositiveNumber,
    "models.*.idle_timeout_s" => Kind::PositiveNumber,
    "models.*.timeout_s" => Kind::PositiveNumber,
    "models.*.tenants" => Kind::TextList,
};

/// The names that a model can be referred to by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelNames {
    /// The model of agents and sessions that set none.
    pub default: Option<String>,
    pub models: BTreeSet<String>,
    /// Further names for models; `*` matches every unknown name.
    pub aliases: BTreeMap<String, String>,
}

impl ModelNames {
    /// The model of this name, or the one that an alias maps it to.
    pub fn resolve(&self, name: &str) -> Option<&str> {
        let model = self.models.get(name);
        model
            .or_else(|| self.aliases.get(name))
            .or_else(|| self.aliases.get("*"))
            .map(String::as_str)
    }

    /// The error for a name that does not resolve.
    pub fn unknown(&self, name: &str) -> String {
        let names = self.models.iter().chain(self.aliases.keys()).map(String::as_str);
        format!("unknown model {name:?}; {}", suggestion(name, names.collect::<Vec<_>>()))
    }
}

/// Models with errors are included: one error in a model must not become an error in every agent
/// that uses it.
pub fn names(table: &Table, findings: &mut Findings) -> ModelNames {
    let models: BTreeSet<String> = entries(table, "models").map(|(name, _)| name.clone()).collect();
    let mut names = ModelNames { models, ..ModelNames::default() };
    for (alias, node) in entries(table, "model_aliases") {
        let Some(model) = node.as_text() else { continue };
        let name = dotted("model_aliases", alias);
        if names.models.contains(alias) {
            let text = format!("is never used, because models.{alias} exists; remove it");
            findings.error(&node.key, name, text);
        } else if names.models.contains(model) {
            names.aliases.insert(alias.clone(), model.to_owned());
        } else {
            findings.error(&node.location, name, names.unknown(model));
        }
    }
    names.default = match table.get("default_model").and_then(|node| Some((node, node.as_text()?)))
    {
        Some((node, name)) => {
            if names.resolve(name).is_none() {
                findings.unusable(&node.location, "default_model", names.unknown(name));
            }
            let known = names.resolve(name).map(str::to_owned);
            known.or_else(|| Some(name.to_owned()).filter(|_| findings.keeps_unknown_names()))
        }
        None => names.models.first().filter(|_| names.models.len() == 1).cloned(),
    };
    names
}

pub fn read(
    table: &Table,
    names: &ModelNames,
    findings: &mut Findings,
) -> BTreeMap<String, ModelConfig> {
    check_fallbacks(table, names, findings);
    let mut models = BTreeMap::new();
    for (name, node) in entries(table, "models") {
        let Some(model) = node.as_table() else { continue };
        let dotted_name = dotted("models", name);
        if !is_model_name(name) {
            let text = "a model name has 1 to 128 characters, no spaces, and is not \"*\"";
            findings.error(&node.key, &dotted_name, text);
        }
        conflict(model, &dotted_name, ["api_key_env", "api_key_file"], findings);
        if !model.contains_key("wire") {
            let text = format!("is required: {}", choice(Wire::WORDS));
            findings.missing(&node.key, dotted(&dotted_name, "wire"), text);
            continue;
        }
        let config = deserialize_node(&dotted_name, node, findings);
        models.extend(config.map(|config| (name.clone(), config)));
    }
    models
}

/// Reports unknown names, and fallbacks that lead back to their model.
fn check_fallbacks(table: &Table, names: &ModelNames, findings: &mut Findings) {
    let mut fallbacks: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (model, node) in entries(table, "models") {
        let name = dotted(&dotted("models", model), "fallback");
        for (text, item) in fallback_of(node) {
            match names.resolve(text) {
                Some(known) => fallbacks.entry(model).or_default().push(known),
                None => findings.unusable(&item.location, &name, names.unknown(text)),
            }
        }
    }
    for (model, node) in entries(table, "models") {
        let back = fallback_of(node).find(|(text, _)| {
            names.resolve(text).is_some_and(|first| leads_to(&fallbacks, first, model))
        });
        if let Some((text, item)) = back {
            let name = dotted(&dotted("models", model), "fallback");
            let text = format!("{text:?} falls back to {model} again; remove one of the fallbacks");
            findings.error(&item.location, name, text);
        }
    }
}

fn fallback_of(model: &Node) -> impl Iterator<Item = (&str, &Node)> {
    let list = model.as_table().and_then(|model| {
        let Value::List(items) = &model.get("fallback")?.value else { return None };
        Some(items)
    });
    list.into_iter().flatten().filter_map(|item| Some((item.as_text()?, item)))
}

/// Whether calls of `from` may end up at `target`.
fn leads_to(fallbacks: &BTreeMap<&str, Vec<&str>>, from: &str, target: &str) -> bool {
    let mut seen = BTreeSet::from([from]);
    let mut left = vec![from];
    while let Some(model) = left.pop() {
        if model == target {
            return true;
        }
        let next = fallbacks.get(model).into_iter().flatten();
        left.extend(next.filter(|next| seen.insert(**next)));
    }
    false
}

fn is_model_name(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name != "*"
        && !name.contains(|c: char| c.is_whitespace() || c.is_control())
}
