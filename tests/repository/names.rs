//! Identifiers are the conventional words of the field; these were replaced once and stay away.

use crate::source_code::{identifiers, rust_code, sql_code};
use crate::{Text, assert_none, texts};

/// Words of type names.
const TYPE_WORDS: [&str; 14] = [
    "Audience",
    "Board",
    "Crew",
    "Desk",
    "Door",
    "News",
    "Place",
    "Seat",
    "Shelf",
    "Stage",
    "Station",
    "Vigil",
    "Whereabouts",
    "Whom",
];
/// Type names; `HeldLease` and `OutOfReach` are fine.
const TYPES: [&str; 7] = ["At", "Held", "Hold", "Reach", "Reading", "Together", "Visit"];

/// Words and phrases in the names of functions, variables, columns and SQL functions.
const WORDS: [&str; 16] = [
    "audience",
    "clearance",
    "crew",
    "desk",
    "door",
    "falls_silent",
    "go_on",
    "homeless",
    "let_in",
    "seat",
    "told_of",
    "turn_over",
    "turnover",
    "vigil",
    "whereabouts",
    "whom",
];
/// Whole names of variables, functions and files; they are fine as words of a test's name.
const NAMES: [&str; 13] = [
    "ask",
    "asked",
    "asking",
    "begins",
    "board",
    "look",
    "look_around",
    "news",
    "shelf",
    "station",
    "tell",
    "telling",
    "told",
];
const FILES: [&str; 3] = ["reading", "together", "visit"];

#[test]
fn no_name_is_a_metaphor_that_was_replaced() {
    let mut found = Vec::new();
    for text in &texts() {
        if text.path.starts_with("tests/repository") {
            continue;
        }
        let code = match text.path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => rust_code(&text.text),
            Some("sql") => sql_code(&text.text),
            _ => continue,
        };
        let stem = text.path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if FILES.contains(&stem) {
            found.push(text.path.display().to_string());
        }
        let names = identifiers(&code).into_iter().chain([(1, stem)]);
        let replaced = names.filter(|(_, name)| is_replaced(name) && !is_of_others(name, text));
        found.extend(replaced.map(|(line, name)| format!("{} {name}", text.at(line))));
    }
    found.dedup();
    assert_none("names that docs/glossary.md and the conventions of the field replaced", &found);
}

fn is_replaced(name: &str) -> bool {
    let padded = format!("_{name}_");
    let has = |word: &&&str| padded.contains(&format!("_{word}_"));
    TYPES.contains(&name)
        || NAMES.contains(&name)
        || WORDS.iter().find(has).is_some()
        || (name.starts_with(char::is_uppercase)
            && words_of_type(name).iter().any(|word| TYPE_WORDS.contains(word)))
}

/// `tracing` has a trait `Visit`.
fn is_of_others(name: &str, text: &Text) -> bool {
    name == "Visit" && text.text.contains("tracing::field")
}

/// The words of a name in camel case.
fn words_of_type(name: &str) -> Vec<&str> {
    let starts = name.char_indices().filter(|(_, c)| c.is_uppercase()).map(|(at, _)| at);
    let mut ends: Vec<usize> = starts.clone().skip(1).collect();
    ends.push(name.len());
    starts.zip(ends).map(|(start, end)| &name[start..end]).collect()
}

#[test]
fn only_whole_words_are_replaced_names() {
    for name in ["TaskPlace", "News", "told_of", "children_told_of", "Visit", "look"] {
        assert!(is_replaced(name), "{name}");
    }
    for name in ["Placeholder", "HeldLease", "Visitor", "turn_overhead", "lookup", "Holder"] {
        assert!(!is_replaced(name), "{name}");
    }
}
