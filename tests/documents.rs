//! The documents: links lead somewhere, lines are short, cited rules exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const SPECIFICATION: &str = include_str!("../docs/specification.md");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The files below a folder of the repository with this ending.
fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if !matches!(name, "target" | "claude_agents") && !name.starts_with('.') {
                files(&path, ending, found);
            }
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
}

fn markdown() -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(&root(), ".md", &mut found);
    assert!(found.len() > 10, "{found:?}");
    found
}

/// The lines of a Markdown file, each with whether it is code.
fn lines(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut is_code = false;
    text.lines().map(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (line, is_code || is_fence)
    })
}

/// The anchors of a Markdown file's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = lines(text).filter(|(line, is_code)| !is_code && line.starts_with('#'));
    let slug = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        words.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
    };
    headings.map(|(line, _)| slug(line)).collect()
}

/// The targets of a Markdown file's links, without those to other sites.
fn links(text: &str) -> Vec<String> {
    let prose: Vec<&str> =
        lines(text).filter(|(_, is_code)| !is_code).map(|(line, _)| line).collect();
    let prose = prose.join("\n");
    let targets = prose.split("](").skip(1).filter_map(|after| after.split(')').next());
    targets.filter(|target| !target.contains("://")).map(str::to_owned).collect()
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let mut broken = Vec::new();
    for page in markdown() {
        let text = fs::read_to_string(&page).unwrap();
        for link in links(&text) {
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target =
                if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            let is_there = if anchor.is_empty() {
                target.exists()
            } else {
                fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(anchor))
            };
            if !is_there {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn lines_of_documents_have_at_most_100_characters() {
    let mut long = Vec::new();
    let own = ["CONTRIBUTING.md", "tests/clients/conformance.md", "migrations/README.md"];
    for page in markdown().into_iter().filter(|page| !own.iter().any(|own| page.ends_with(own))) {
        let text = fs::read_to_string(&page).unwrap();
        let too_long = |line: &&str| line.chars().count() > 100 && !line.starts_with('|');
        long.extend(
            text.lines().filter(too_long).map(|line| format!("{}: {line}", page.display())),
        );
    }
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn the_readme_is_short() {
    assert!(include_str!("../README.md").lines().count() <= 150);
}

/// The rules that a test's name cites: `row_2_35_...`, `rows_2_33_and_2_34_...`, `row_sc_16_...`, `row_g_28_...`.
fn cited(name: &str) -> Vec<String> {
    let words: Vec<&str> = name.split('_').collect();
    let [row, section, number, ..] = words[..] else { return Vec::new() };
    if !matches!(row, "row" | "rows") || !number.chars().all(|c| c.is_ascii_digit()) {
        return Vec::new();
    }
    match section {
        "sc" => vec![format!("SC.{number}")],
        "g" | "i" => vec![format!("{}{number}", section.to_uppercase())],
        "0" | "1" | "2" | "3" | "4" => vec![format!("{section}.{number}")],
        _ => Vec::new(),
    }
}

#[test]
fn every_rule_that_a_test_cites_is_in_the_specification() {
    let mut sources = Vec::new();
    files(&root().join("tests"), ".rs", &mut sources);
    files(&root().join("crates"), ".rs", &mut sources);
    let mut unknown = BTreeSet::new();
    let mut cited_rules = 0;
    for source in sources {
        let text = fs::read_to_string(&source).unwrap();
        let names = text.split("fn ").skip(1).filter_map(|after| after.split('(').next());
        for rule in names.flat_map(cited) {
            cited_rules += 1;
            if !SPECIFICATION.contains(&format!("\n| {rule} |")) {
                unknown.insert(rule);
            }
        }
    }
    assert!(cited_rules > 100, "{cited_rules}");
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// Every `path` of the repository and every `file.rs` in code spans of a text.
fn named_files(text: &str) -> impl Iterator<Item = &str> {
    let spans = text.split('`').skip(1).step_by(2);
    spans.filter(|span| {
        let is_path = ["crates/", "docs/", "migrations/", "tests/", "deploy/"]
            .iter()
            .any(|folder| span.starts_with(folder));
        let is_file = [".rs", ".sql", ".toml", ".md"].iter().any(|ending| span.ends_with(ending));
        (is_path || is_file) && !span.contains([' ', '*', '{'])
    })
}

#[test]
fn every_file_that_the_architecture_names_exists() {
    let root = root();
    let mut sources = Vec::new();
    for ending in [".rs", ".sql", ".toml", ".md"] {
        files(&root, ending, &mut sources);
    }
    let mut pages = vec![root.join("ARCHITECTURE.md"), root.join("docs/glossary.md")];
    files(&root.join("docs/internals"), ".md", &mut pages);
    let mut missing = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        let prose: Vec<&str> =
            lines(&text).filter(|(_, is_code)| !is_code).map(|(line, _)| line).collect();
        for name in named_files(&prose.join("\n")) {
            let is_there = if name.contains('/') {
                root.join(name).exists()
            } else {
                sources.iter().any(|source| source.ends_with(name))
            };
            if !is_there {
                missing.push(format!("{}: {name}", page.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
