//! docs/conformance.md names tests that exist, and misses no row.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const TABLE: &str = include_str!("../docs/conformance.md");

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

fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("target") {
                functions(&path, found);
            }
            continue;
        }
        let before = match path.extension().and_then(|ending| ending.to_str()) {
            Some("rs") => "fn ",
            Some("py") => "def ",
            _ => continue,
        };
        let text = fs::read_to_string(&path).unwrap();
        let names = text.split(before).skip(1).filter_map(|after| after.split('(').next());
        found.extend(names.map(str::to_owned));
    }
}

#[test]
fn every_test_that_the_table_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut known = BTreeSet::new();
    functions(&root.join("tests"), &mut known);
    functions(&root.join("crates"), &mut known);
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
        .chain((1..=36).map(|row| format!("G{row}")));
    for id in wanted {
        let found: Vec<_> = rows.iter().filter(|row| row[0] == id).collect();
        assert_eq!(found.len(), 1, "{id}: {found:?}");
        let [_, _, tests, state] = found[0][..] else { panic!("{id}: {found:?}") };
        match state {
            "met" | "met in part" => assert!(names(tests).next().is_some(), "{id}: no test"),
            other => assert!(other.starts_with("n/a: ") || other == "6 of 6", "{id}: {other}"),
        }
    }
}
