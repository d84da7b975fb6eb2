//! The tools of the other dialects: at the same paths, with `?dialect=`.

use adjutant_agent::TextLimits;
use serde_json::{Map, Value, json};

use super::{TOOL_PATH, tool_path};
use crate::Dialect;

/// Adds the tools of the other dialects, each as a path made from `call`. Dialects with a tool of
/// the same name share its path.
pub(super) fn add(paths: &mut Map<String, Value>, call: &Value) {
    let others = Dialect::ALL.into_iter().filter(|dialect| *dialect != Dialect::Spec);
    let tools = others.flat_map(|dialect| {
        dialect.tools(&TextLimits::DEFAULT).into_iter().map(move |tool| (dialect, tool))
    });
    for (dialect, tool) in tools {
        let mut body = tool.input_schema;
        body["title"] = json!(format!("{} of {}", tool.name, dialect.as_str()));
        let path = TOOL_PATH.replace("{tool}", &tool.name);
        match paths.get_mut(&path) {
            Some(item) => {
                let content = &mut item["post"]["requestBody"]["content"]["application/json"];
                if let Some(forms) = content["schema"]["oneOf"].as_array_mut() {
                    forms.push(body);
                }
            }
            None => {
                paths.insert(path, tool_path(call, &tool.name, vec![body], json!({})));
            }
        }
    }
}

/// The dialects that have a tool at this path; all of them if it is not the path of a tool.
pub(super) fn at(path: &str) -> Vec<Dialect> {
    let has = |dialect: &Dialect| {
        dialect
            .tools(&TextLimits::DEFAULT)
            .iter()
            .any(|tool| TOOL_PATH.replace("{tool}", &tool.name) == path)
    };
    let dialects: Vec<Dialect> = Dialect::ALL.into_iter().filter(has).collect();
    if dialects.is_empty() { Dialect::ALL.to_vec() } else { dialects }
}

/// The schemas of a tool's answers in the other dialects that have it.
pub(super) fn answers(path: &str) -> Vec<Value> {
    at(path)
        .into_iter()
        .filter(|dialect| *dialect != Dialect::Spec)
        .map(Dialect::answer_schema)
        .collect()
}
