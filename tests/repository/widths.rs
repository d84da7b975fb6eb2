//! Markdown and comments are wrapped at 100 columns.

use crate::markdown::{prose, width};
use crate::{Text, assert_none, texts};

const WIDTH: usize = 100;

#[test]
fn lines_of_documents_have_at_most_100_characters() {
    let mut long = Vec::new();
    for page in texts().iter().filter(|text| text.has_extension(&["md"])) {
        let lines = prose(&page.text).into_iter();
        let too_long = lines
            .filter(|(_, line)| !line.trim_start().starts_with('|') && width(line) > WIDTH)
            .map(|(number, _)| page.at(number));
        long.extend(too_long);
    }
    assert_none("lines of Markdown over 100 columns", &long);
}

#[test]
fn lines_of_comments_have_at_most_100_characters() {
    let mut long = Vec::new();
    for text in &texts() {
        let marks = comment_marks(text);
        let lines = text.text.lines().enumerate();
        let too_long = lines
            .filter(|(_, line)| marks.iter().any(|mark| line.trim_start().starts_with(mark)))
            // A URL cannot be wrapped.
            .filter(|(_, line)| !line.contains("://") && line.chars().count() > WIDTH)
            .map(|(index, _)| text.at(index + 1));
        long.extend(too_long);
    }
    assert_none("lines of comments over 100 columns", &long);
}

/// What a line of comment starts with. Rust has SQL in its strings, which has comments too.
fn comment_marks(text: &Text) -> &'static [&'static str] {
    let extension = text.path.extension().and_then(|extension| extension.to_str());
    let name = text.path.file_name().and_then(|name| name.to_str());
    match (extension, name) {
        (Some("rs"), _) => &["//", "-- "],
        (Some("c" | "js" | "ts" | "mjs"), _) => &["//"],
        (Some("sql"), _) => &["--"],
        // Settings of adjutant.example.toml are commented out without a space.
        (Some("toml"), _) => &["# "],
        (Some("sh" | "py" | "yml" | "yaml"), _) | (_, Some("Makefile" | "Dockerfile")) => &["#"],
        _ => &[],
    }
}
