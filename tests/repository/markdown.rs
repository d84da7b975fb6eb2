//! What the checks read of a Markdown document: its lines outside code, its headings, its links.

use std::collections::BTreeSet;

/// The numbers and texts of the lines that are in no code fence. Numbers start at 1.
pub fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut is_code = false;
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    numbered
        .filter(|(_, line)| {
            let is_fence = line.trim_start().starts_with("```");
            is_code ^= is_fence;
            !is_code && !is_fence
        })
        .collect()
}

/// The prose of a document as one text.
pub fn prose_text(text: &str) -> String {
    let lines: Vec<&str> = prose(text).into_iter().map(|(_, line)| line).collect();
    lines.join("\n")
}

/// The anchors of the headings, as GitHub generates them.
pub fn anchors(text: &str) -> BTreeSet<String> {
    let slug = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        words.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
    };
    let headings = prose(text).into_iter().filter(|(_, line)| line.starts_with('#'));
    headings.map(|(_, line)| slug(line)).collect()
}

/// The targets of the links, without those to other sites.
pub fn links(text: &str) -> Vec<String> {
    let prose = prose_text(text);
    let targets = prose.split("](").skip(1).filter_map(|after| after.split(')').next());
    targets.filter(|target| !target.contains("://")).map(str::to_owned).collect()
}

/// The width of a line without the targets of its links, which cannot be wrapped.
pub fn width(line: &str) -> usize {
    let mut width = 0;
    for (index, part) in line.split("](").enumerate() {
        let shown = if index == 0 { part } else { part.split_once(')').map_or(part, |(_, s)| s) };
        let words = shown.split(' ').filter(|word| !word.contains("://"));
        width += words.map(|word| word.chars().count() + 1).sum::<usize>();
    }
    width.saturating_sub(1)
}

#[test]
fn a_link_counts_only_with_its_text() {
    assert_eq!(width("a [b](c/d.md) e"), "a [b e".len() + 1);
    assert_eq!(width("plain words"), "plain words".len());
    assert_eq!(width("see https://example.org/long"), "see".len());
}
