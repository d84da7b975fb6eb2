//! docs/conformance.md names tests that exist, and misses no row.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const TABLE: &str = include_str!("../docs/conformance.md");

/// The rows of our own wire, but for MCP's, which has several lines.
const H: [&str; 11] = [
    "sessions",
    "calls",
    "definitions",
    "errors",
    "history",
    "live",
    "operations",
    "auth",
    "idempotency",
    "config",
    "command line",
];

/// The cells of each row of its tables.
fn rows() -> Vec<Vec<&'static str>> {
    let lines = TABLE.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| row"));
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// Every `name` in a cell that could be a test's.
fn names(cell: &str) -> impl Iterator<Item = &str> {
    let quoted = cell.split('`').skip(1).step_by(2);
    quoted.filter(|name| name.contains('_') && !name.contains(['.', ' ', ':']))
}

/// The tests in a text of Rust: functions with the attribute, and names in the lists of macros that run them over wires.
fn rust_tests(text: &str) -> Vec<&str> {
    let attributes = text.split("#[test]").skip(1).chain(text.split("#[tokio::test").skip(1));
    let functions = attributes.filter_map(|after| after.split_once("fn ")?.1.split('(').next());
    let lists = text.split("over_").skip(1).filter_map(|after| {
        let (name, list) = after.split_once('!')?;
        let list = list.trim_start().strip_prefix(['{', '('])?;
        let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        is_name.then(|| list.split(['}', ')']).next()).flatten()
    });
    functions.chain(lists.flat_map(|list| list.split(',').map(str::trim))).collect()
}

fn python_tests(text: &str) -> Vec<&str> {
    let functions = text.split("def ").skip(1).filter_map(|after| after.split('(').next());
    functions.filter(|name| name.starts_with("test_")).collect()
}

fn tests(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("target") {
                tests(&path, found);
            }
            continue;
        }
        let read: fn(&str) -> Vec<&str> = match path.extension().and_then(|ending| ending.to_str()) {
            Some("rs") => rust_tests,
            Some("py") => python_tests,
            _ => continue,
        };
        let text = fs::read_to_string(&path).unwrap();
        found.extend(read(&text).into_iter().map(str::to_owned));
    }
}

#[test]
fn every_test_that_the_table_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut known = BTreeSet::new();
    tests(&root.join("tests"), &mut known);
    tests(&root.join("crates"), &mut known);
    let rows = rows();
    let missing: Vec<&str> =
        rows.iter().flat_map(|row| names(row[2])).filter(|name| !known.contains(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_row_is_in_the_table_once_with_a_test_or_a_reason() {
    let rows = rows();
    let wanted = (1..=40)
        .map(|row| format!("0.{row}"))
        .chain((1..=6).map(|row| format!("0.E{row}")))
        .chain((1..=20).map(|row| format!("SC.{row}")))
        .chain((1..=15).map(|row| format!("1.{row}")))
        .chain((1..=36).map(|row| format!("2.{row}")))
        .chain((1..=18).chain([20]).map(|row| format!("3.{row}")))
        .chain((1..=10).map(|row| format!("4.{row}")))
        .chain((1..=36).map(|row| format!("G{row}")))
        .chain((1..=13).map(|row| format!("I{row}")))
        .chain(H.map(|row| format!("H: {row}")));
    for id in wanted {
        let found: Vec<_> = rows.iter().filter(|row| row[0] == id).collect();
        assert_eq!(found.len(), 1, "{id}: {found:?}");
        let [_, _, tests, state] = found[0][..] else { panic!("{id}: {found:?}") };
        match state {
            "met" | "met in part" => assert!(names(tests).next().is_some(), "{id}: no test"),
            other => assert!(other.starts_with("n/a: "), "{id}: {other}"),
        }
    }
}
