//! The names of tools. Every vendor accepts them, and they depend only on the set of tools.

use std::collections::{BTreeSet, HashMap};

use adjutant_agent::SHARED_CONTEXT;
use adjutant_dialects::Dialect;

use super::BUILT_IN_TOOLS;

/// The longest name that vendors accept.
const MAX_LEN: usize = 64;

/// Refuses a name that an HTTP tool cannot have: one that is not valid, reserved, or the name of a
/// built-in tool, even if that tool is disabled.
pub fn check_http_tool_name(name: &str) -> Result<(), &'static str> {
    check_name(name)?;
    if BUILT_IN_TOOLS.iter().any(|tool| tool.name == name) {
        return Err("this is the name of a built-in tool; choose another");
    }
    Ok(())
}

/// Refuses a name that is not valid or reserved.
pub(super) fn check_name(name: &str) -> Result<(), &'static str> {
    check_characters(name)?;
    if is_reserved(name) {
        return Err("this name is reserved for a tool of Adjutant; choose another");
    }
    Ok(())
}

/// Refuses a name that some vendor would refuse.
pub fn check_characters(name: &str) -> Result<(), &'static str> {
    if (1..=MAX_LEN).contains(&name.len()) && name.chars().all(is_allowed) {
        return Ok(());
    }
    Err("a tool name has 1 to 64 characters: letters, digits, _ and -")
}

/// Whether the name belongs to `shared_context` or to a delegation tool of some dialect. MCP tools
/// and HTTP tools cannot have it.
fn is_reserved(name: &str) -> bool {
    let delegates = |dialect: &Dialect| dialect.delegation_tools().contains(&name);
    name == SHARED_CONTEXT || Dialect::ALL.iter().any(delegates)
}

fn is_allowed(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_' || character == '-'
}

fn clean(name: &str) -> String {
    let clean: String =
        name.chars().take(MAX_LEN).map(|c| if is_allowed(c) { c } else { '_' }).collect();
    if clean.is_empty() { "_".to_owned() } else { clean }
}

/// The name of an MCP tool with the prefix of its server.
pub(super) fn with_server(server: &str, tool: &str) -> String {
    clean(&format!("{server}__{tool}"))
}

/// The names that a tool of an MCP server may have for agents, whatever others there are.
pub fn possible_names(server: &str, tool: &str) -> [String; 2] {
    [clean(tool), with_server(server, tool)]
}

/// All names under which agents find these tools of MCP servers, given as server and name, beside
/// the other tools.
pub fn agent_names(others: &BTreeSet<&str>, served: &[(&str, &str)]) -> BTreeSet<String> {
    let prefixed = served.iter().map(|(server, tool)| with_server(server, tool));
    assign(others, served).into_iter().chain(prefixed).collect()
}

/// The names of MCP tools, given as server and name, in the same order. A tool keeps its own name
/// if it is unique. Of several tools with one name none keeps it, so that the meaning of a name
/// does not depend on which server was connected first.
pub(super) fn assign(fixed: &BTreeSet<&str>, served: &[(&str, &str)]) -> Vec<String> {
    let wanted: Vec<String> = served.iter().map(|(_, tool)| clean(tool)).collect();
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for name in &wanted {
        *uses.entry(name).or_default() += 1;
    }
    let keeps = |name: &str| uses[name] == 1 && !fixed.contains(name) && !is_reserved(name);
    let mut taken: BTreeSet<String> = fixed.iter().map(|name| (*name).to_owned()).collect();
    taken.extend(wanted.iter().filter(|name| keeps(name)).cloned());
    let prefixed = |(index, name): (usize, &String)| {
        if keeps(name) {
            return name.clone();
        }
        let (server, tool) = served[index];
        let name = free(with_server(server, tool), &taken);
        taken.insert(name.clone());
        name
    };
    wanted.iter().enumerate().map(prefixed).collect()
}

/// The name itself, or with the first number that makes it unique.
fn free(name: String, taken: &BTreeSet<String>) -> String {
    let is_free = |name: &String| !taken.contains(name) && !is_reserved(name);
    if is_free(&name) {
        return name;
    }
    (2_usize..)
        .map(|number| {
            let number = format!("_{number}");
            let start = name.len().min(MAX_LEN - number.len());
            format!("{}{number}", &name[..start])
        })
        .find(is_free)
        .unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_prefixed_only_if_it_is_not_unique() {
        let fixed = BTreeSet::from(["fetch", "a__dup"]);
        for (served, names) in [
            ("a:search b:read", "search read"),
            ("a:search b:search", "a__search b__search"),
            ("a:fetch", "a__fetch"),
            ("a:subagent a:shared_context", "a__subagent a__shared_context"),
            ("a:get/it.now a:größe", "get_it_now gr__e"),
            ("a:x.y a:x/y", "a__x_y a__x_y_2"),
            ("a:dup b:dup", "a__dup_2 b__dup"),
            ("a:x b:x c:a__x", "a__x_2 b__x a__x"),
            ("my.server:fetch", "my_server__fetch"),
            ("a:", "_"),
        ] {
            let served: Vec<_> =
                served.split(' ').filter_map(|tool| tool.split_once(':')).collect();
            assert_eq!(assign(&fixed, &served).join(" "), names, "{served:?}");
        }
    }

    #[test]
    fn every_name_is_valid_and_unique() {
        let long = "n".repeat(200);
        let served: Vec<(&str, &str)> = vec![
            ("a", &long),
            ("a", &long),
            ("b", &long),
            ("é", "\0"),
            ("é", "\n"),
            ("", ""),
            ("", ""),
        ];
        let names = assign(&BTreeSet::from(["fetch"]), &served);
        assert!(names.iter().all(|name| check_characters(name).is_ok()), "{names:?}");
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), served.len());
        for name in ["", "a b", "a\n", &long] {
            assert!(check_characters(name).is_err(), "{name:?}");
        }
        assert_eq!(check_characters("a-B_9"), Ok(()));
    }
}
