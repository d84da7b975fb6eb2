//! Where SQL is, and that the central writes exist once.

use crate::sizes::sql_function_name;
use crate::{Text, assert_none, root, source_code, texts};

#[test]
fn one_statement_inserts_tasks() {
    let inserts = occurrences(&migrations(), "insert into task");
    assert_eq!(inserts.len(), 1, "insert into task: {inserts:#?}");
    // The benchmark fills a database with history in one statement.
    let store = crates(|path| path.starts_with("crates/adjutant-store"));
    let store: Vec<Text> =
        store.into_iter().filter(|text| !text.path.ends_with("bench.rs")).collect();
    assert_none("inserts tasks without the verb", &occurrences(&store, "insert into task"));
}

#[test]
fn one_function_writes_end_events() {
    let mut writers = Vec::new();
    for text in &migrations() {
        for (name, body) in functions(&text.text) {
            let has = |words: &str| body.contains(words);
            let is_about_ends = has("insert into notification")
                || ["'completed'", "'failed'", "'cancelled'"].iter().any(|state| has(state));
            if has("insert into event ") && is_about_ends {
                writers.push(format!("{} {name}", text.path.display()));
            }
        }
    }
    assert_eq!(writers.len(), 1, "functions that write end events: {writers:#?}");
    let notifications = occurrences(&migrations(), "insert into notification");
    assert_eq!(notifications.len(), 1, "inserts of notifications: {notifications:#?}");
}

#[test]
fn only_the_store_has_sql() {
    let mut found = Vec::new();
    for text in &crates(|path| !path.starts_with("crates/adjutant-store")) {
        for (number, literal) in source_code::string_literals(&text.text) {
            if is_sql(&literal) {
                found.push(format!("{} {literal:?}", text.at(number)));
            }
        }
        if text.text.contains("sqlx::") {
            found.push(format!("{} uses sqlx", text.path.display()));
        }
    }
    assert_none("SQL outside of adjutant-store and migrations", &found);
}

fn is_sql(literal: &str) -> bool {
    let words: Vec<&str> = literal.split_whitespace().take(4).collect();
    match words[..] {
        ["select" | "with", ..] => literal.contains(" from ") || words[1].ends_with("()"),
        ["insert", "into", ..] | ["delete", "from", ..] | ["update", _, "set", ..] => true,
        ["create" | "alter" | "drop", "database" | "table" | "role" | "function", ..] => true,
        _ => false,
    }
}

fn migrations() -> Vec<Text> {
    let found: Vec<Text> = texts()
        .into_iter()
        .filter(|text| text.path.starts_with("migrations") && text.has_extension(&["sql"]))
        .collect();
    assert!(found.len() > 10, "no migrations in {}", root().display());
    found
}

/// The sources of the crates, without tests.
fn crates(is_wanted: impl Fn(&std::path::Path) -> bool) -> Vec<Text> {
    let is_test = |text: &Text| {
        let mut parts = text.path.iter();
        parts.any(|part| part == "tests" || part == "tests.rs" || part == "examples")
    };
    let sources = texts().into_iter().filter(|text| text.has_extension(&["rs"]));
    let sources = sources.filter(|text| text.path.starts_with("crates") && !is_test(text));
    sources.filter(|text| is_wanted(&text.path)).collect()
}

/// Where the words are in the text, outside of comments and not as the start of a longer name.
fn occurrences(texts: &[Text], words: &str) -> Vec<String> {
    let mut found = Vec::new();
    for text in texts {
        for (index, line) in text.text.lines().enumerate() {
            let is_comment = ["--", "//"].iter().any(|mark| line.trim_start().starts_with(mark));
            let after = line.split_once(words).map(|(_, after)| after);
            let is_name = |after: &str| {
                !after.starts_with(|next: char| next.is_alphanumeric() || next == '_')
            };
            if !is_comment && after.is_some_and(is_name) {
                found.push(text.at(index + 1));
            }
        }
    }
    found
}

/// The name and the text of each function of a migration.
fn functions(text: &str) -> Vec<(&str, String)> {
    let mut found: Vec<(&str, String)> = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        if let Some(name) = sql_function_name(line) {
            found.push((name, String::new()));
            is_inside = true;
        }
        if is_inside && let Some((_, body)) = found.last_mut() {
            body.push_str(line);
            body.push('\n');
        }
        is_inside &= !line.trim_end().ends_with("$$;");
    }
    found
}
