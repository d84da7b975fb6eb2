//! The documents agree with the repository: links, cited documents, cited rules and named files
//! exist.

use std::collections::BTreeSet;
use std::path::Path;

use crate::markdown::{anchors, links, prose_text};
use crate::{Text, assert_none, root, texts};

const SPECIFICATION: &str = include_str!("../../docs/specification.md");

#[test]
fn every_document_that_is_cited_is_in_the_repository() {
    let texts = texts();
    let known: Vec<&Path> = texts.iter().map(|text| text.path.as_path()).collect();
    let mut missing = Vec::new();
    for text in texts.iter().filter(|text| text.has_extension(&["md", "rs", "sql", "toml", "sh"])) {
        if text.path.ends_with("repository/documents.rs") {
            continue;
        }
        for (number, line) in text.text.lines().enumerate() {
            let is_prose = text.has_extension(&["md"])
                || ["//", "--", "#"].iter().any(|mark| line.trim_start().starts_with(mark));
            if !is_prose {
                continue;
            }
            if line.contains("seed 00") {
                missing.push(format!("{} {line}", text.at(number + 1)));
            }
            let is_part = |c: char| c.is_alphanumeric() || "._-/".contains(c);
            let names = line.split(|c: char| !is_part(c)).map(|name| name.trim_end_matches('.'));
            let names = names.filter(|name| name.ends_with(".md"));
            let cited = names.filter(|name| !line.contains("://") && !is_known(name, &known));
            missing.extend(cited.map(|name| format!("{} {name}", text.at(number + 1))));
        }
    }
    assert_none("not in the repository", &missing);
}

/// A document is known by its path from the root or from any folder. Names of a user's own files in
/// examples are known too.
fn is_known(name: &str, known: &[&Path]) -> bool {
    const EXAMPLES: [&str; 5] =
        ["report.md", "CLAUDE.md", "AGENTS.md", "SKILL.md", "prompts/writer.md"];
    let name = name.trim_start_matches("./").trim_start_matches("../");
    EXAMPLES.contains(&name) || known.iter().any(|path| path.ends_with(name))
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let mut broken = Vec::new();
    for page in markdown() {
        let folder = root().join(page.path.parent().unwrap());
        for link in links(&page.text) {
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() { root().join(&page.path) } else { folder.join(path) };
            let exists = if anchor.is_empty() {
                target.exists()
            } else {
                std::fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(anchor))
            };
            if !exists {
                broken.push(format!("{}: {link}", page.path.display()));
            }
        }
    }
    assert_none("links to nothing", &broken);
}

#[test]
fn the_readme_is_short() {
    assert!(include_str!("../../README.md").lines().count() <= 150);
}

#[test]
fn every_rule_that_a_test_cites_is_in_the_specification() {
    let mut unknown = BTreeSet::new();
    let mut cited_rules = 0;
    for source in texts().iter().filter(|text| text.has_extension(&["rs"])) {
        let names = source.text.split("fn ").skip(1).filter_map(|after| after.split('(').next());
        for rule in names.filter_map(cited_rule) {
            cited_rules += 1;
            if !SPECIFICATION.contains(&format!("\n| {rule} |")) {
                unknown.insert(rule);
            }
        }
    }
    assert!(cited_rules > 100, "{cited_rules}");
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// The first rule that a test's name cites: `row_2_35_...`, `rows_2_33_and_2_34_...`,
/// `row_sc_16_...`, `row_g_28_...`.
fn cited_rule(name: &str) -> Option<String> {
    let words: Vec<&str> = name.split('_').collect();
    let [row, section, number, ..] = words[..] else { return None };
    if !matches!(row, "row" | "rows") || !number.chars().all(|c| c.is_ascii_digit()) {
        return None;
    }
    match section {
        "sc" => Some(format!("SC.{number}")),
        "g" | "i" => Some(format!("{}{number}", section.to_uppercase())),
        "0" | "1" | "2" | "3" | "4" => Some(format!("{section}.{number}")),
        _ => None,
    }
}

#[test]
fn every_file_that_the_architecture_names_exists() {
    let texts = texts();
    let is_about_structure = |page: &&Text| {
        page.path == Path::new("ARCHITECTURE.md")
            || page.path == Path::new("docs/glossary.md")
            || (page.path.starts_with("docs/internals") && page.has_extension(&["md"]))
    };
    let mut missing = Vec::new();
    for page in texts.iter().filter(is_about_structure) {
        for name in named_files(&prose_text(&page.text)) {
            let exists = if name.contains('/') {
                root().join(name).exists()
            } else {
                texts.iter().any(|text| text.path.ends_with(name))
            };
            if !exists {
                missing.push(format!("{}: {name}", page.path.display()));
            }
        }
    }
    assert_none("files that do not exist", &missing);
}

/// Every path of the repository and every file name in the code spans of a text.
fn named_files(text: &str) -> impl Iterator<Item = &str> {
    let spans = text.split('`').skip(1).step_by(2);
    spans.filter(|span| {
        let folders = ["crates/", "docs/", "migrations/", "tests/", "deploy/"];
        let is_path = folders.iter().any(|folder| span.starts_with(folder));
        let is_file = [".rs", ".sql", ".toml", ".md"].iter().any(|ending| span.ends_with(ending));
        (is_path || is_file) && !span.contains([' ', '*', '{'])
    })
}

fn markdown() -> Vec<Text> {
    let found: Vec<Text> = texts().into_iter().filter(|text| text.has_extension(&["md"])).collect();
    assert!(found.len() > 10, "the documents are not where they should be");
    found
}
