//! What tools are called. Names are such that every vendor takes them, and depend on nothing but the set of tools.

use std::collections::{BTreeSet, HashMap};

/// The longest that vendors take.
const LONGEST: usize = 64;

/// Names that mean something to us, whoever else would like to have them.
const RESERVED: [&str; 8] = [
    "shared_context",
    "subagent",
    "subagent_status",
    "subagent_result",
    "subagent_wait",
    "subagent_cancel",
    "dispatch_subagent",
    "AgentTool",
];

pub(super) fn is_valid(name: &str) -> bool {
    (1..=LONGEST).contains(&name.len()) && name.chars().all(is_allowed)
}

pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

fn is_allowed(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_' || character == '-'
}

fn clean(name: &str) -> String {
    let clean: String = name.chars().take(LONGEST).map(|c| if is_allowed(c) { c } else { '_' }).collect();
    if clean.is_empty() { "_".to_owned() } else { clean }
}

/// By which a tool of a server can always be named, whatever the others are called.
pub(super) fn with_server(server: &str, tool: &str) -> String {
    clean(&format!("{server}__{tool}"))
}

/// Names for the tools of servers, given as server and name, in the same order. A tool keeps its name if nobody else wants
/// it; of several that want it none gets it, so that a name never means one tool today and another tomorrow.
pub(super) fn assign(fixed: &BTreeSet<&str>, served: &[(&str, &str)]) -> Vec<String> {
    let wanted: Vec<String> = served.iter().map(|(_, tool)| clean(tool)).collect();
    let mut wanting: HashMap<&str, usize> = HashMap::new();
    for name in &wanted {
        *wanting.entry(name).or_default() += 1;
    }
    let keeps = |name: &str| wanting[name] == 1 && !fixed.contains(name) && !is_reserved(name);
    let mut taken: BTreeSet<String> = fixed.iter().map(|name| (*name).to_owned()).collect();
    taken.extend(wanted.iter().filter(|name| keeps(name)).cloned());
    let prefixed = |(place, name): (usize, &String)| {
        if keeps(name) {
            return name.clone();
        }
        let (server, tool) = served[place];
        let name = free(with_server(server, tool), &taken);
        taken.insert(name.clone());
        name
    };
    wanted.iter().enumerate().map(prefixed).collect()
}

/// The name itself, or with the first number that nobody has.
fn free(name: String, taken: &BTreeSet<String>) -> String {
    let is_free = |name: &String| !taken.contains(name) && !is_reserved(name);
    if is_free(&name) {
        return name;
    }
    (2_usize..)
        .map(|number| {
            let number = format!("_{number}");
            let start = name.len().min(LONGEST - number.len());
            format!("{}{number}", &name[..start])
        })
        .find(is_free)
        .unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_prefixed_only_if_somebody_else_wants_it() {
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
            let served: Vec<_> = served.split(' ').filter_map(|tool| tool.split_once(':')).collect();
            assert_eq!(assign(&fixed, &served).join(" "), names, "{served:?}");
        }
    }

    #[test]
    fn every_name_is_one_that_vendors_take_and_no_two_are_the_same() {
        let long = "n".repeat(200);
        let served: Vec<(&str, &str)> =
            vec![("a", &long), ("a", &long), ("b", &long), ("é", "\0"), ("é", "\n"), ("", ""), ("", "")];
        let names = assign(&BTreeSet::from(["fetch"]), &served);
        assert!(names.iter().all(|name| is_valid(name)), "{names:?}");
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), served.len());
        assert!(
            !is_valid("") && !is_valid("a b") && !is_valid("a\n") && !is_valid(&long) && is_valid("a-B_9")
        );
    }
}
