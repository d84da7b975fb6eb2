//! docs/conformance.md has a row for every rule of docs/specification.md, and names tests that
//! exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const TABLE: &str = include_str!("../../docs/conformance.md");
const SPECIFICATION: &str = include_str!("../../docs/specification.md");

/// The cells of each row of the tables of a document.
fn rows(document: &'static str) -> Vec<Vec<&'static str>> {
    let lines =
        document.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| row"));
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// The ids of the rules: the first cells of the specification's tables that are an id.
fn rules() -> Vec<&'static str> {
    let is_id = |cell: &str| {
        let prefixes = ["0.", "SC.", "1.", "2.", "3.", "4.", "G: ", "H: "];
        let number = cell.strip_prefix(['G', 'I']).unwrap_or_default();
        prefixes.iter().any(|prefix| cell.starts_with(prefix))
            || (!number.is_empty() && number.chars().all(|c| c.is_ascii_digit()))
    };
    rows(SPECIFICATION).iter().map(|row| row[0]).filter(|cell| is_id(cell)).collect()
}

/// Every `name` in a cell that could be a test's.
fn names(cell: &str) -> impl Iterator<Item = &str> {
    let quoted = cell.split('`').skip(1).step_by(2);
    quoted.filter(|name| name.contains('_') && !name.contains(['.', ' ', ':']))
}

/// The tests in a text of Rust: functions with the attribute, and names in the lists of macros that
/// run them over wires.
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
        let read: fn(&str) -> Vec<&str> = match path.extension().and_then(|ending| ending.to_str())
        {
            Some("rs") => rust_tests,
            Some("py") => python_tests,
            _ => continue,
        };
        let text = fs::read_to_string(&path).unwrap();
        found.extend(read(&text).into_iter().map(str::to_owned));
    }
}

fn known_tests() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut known = BTreeSet::new();
    tests(&root.join("tests"), &mut known);
    tests(&root.join("crates"), &mut known);
    known
}

#[test]
fn every_test_that_the_table_names_exists() {
    let known = known_tests();
    let rows = rows(TABLE);
    let missing: Vec<&str> =
        rows.iter().flat_map(|row| names(row[2])).filter(|name| !known.contains(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_test_that_a_guarantee_or_an_invariant_names_exists() {
    let known = known_tests();
    let guarantees =
        include_str!("../../docs/guarantees.md").split("\n\n").filter_map(|guarantee| {
            let (_, tests) = guarantee.split_once("*Tests:*")?;
            Some(tests)
        });
    let invariants = include_str!("../../ARCHITECTURE.md").split("## Invariants").skip(1);
    let texts: Vec<&str> = guarantees.chain(invariants).collect();
    assert!(texts.len() > 10, "{texts:?}");
    let named = texts.iter().flat_map(|text| names(text)).filter(|name| name.len() > 20);
    let missing: Vec<&str> = named.filter(|name| !known.contains(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_rule_is_in_the_table_with_a_test_or_a_reason() {
    let rows = rows(TABLE);
    let rules = rules();
    assert!(rules.len() >= 226, "{}", rules.len());
    for id in rules {
        let found: Vec<_> = rows.iter().filter(|row| row[0] == id).collect();
        // MCP has a row for each of its parts.
        let is_right_number = if id == "H: MCP" { found.len() > 1 } else { found.len() == 1 };
        assert!(is_right_number, "{id}: {found:?}");
        for row in found {
            let [_, _, tests, state] = row[..] else { panic!("{id}: {row:?}") };
            match state {
                "met" | "met in part" => assert!(names(tests).next().is_some(), "{id}: no test"),
                other => assert!(other.starts_with("n/a: "), "{id}: {other}"),
            }
        }
    }
}

#[test]
fn the_table_has_no_row_without_a_rule() {
    let rules = rules();
    let ids = rows(TABLE).into_iter().map(|row| row[0]).filter(|id| !id.starts_with("---"));
    let unknown: Vec<&str> = ids.filter(|id| *id != "G: G-map" && !rules.contains(id)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
