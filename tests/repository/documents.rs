//! Every document that a text cites is in the repository.

use std::path::Path;

use crate::{assert_none, texts};

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
            let names = line.split(|c: char| !is_part(c)).filter(|name| name.ends_with(".md"));
            let cited = names.filter(|name| !line.contains("://") && !is_known(name, &known));
            missing.extend(cited.map(|name| format!("{} {name}", text.at(number + 1))));
        }
    }
    assert_none("not in the repository", &missing);
}

/// By its path from the root or from any folder; files that are examples of a user's are known too.
fn is_known(name: &str, known: &[&Path]) -> bool {
    const EXAMPLES: [&str; 5] =
        ["report.md", "CLAUDE.md", "AGENTS.md", "SKILL.md", "prompts/writer.md"];
    let name = name.trim_start_matches("./").trim_start_matches("../");
    EXAMPLES.contains(&name) || known.iter().any(|path| path.ends_with(name))
}
