//! Markdown is wrapped at 100 columns.

use crate::markdown::{prose, width};
use crate::{assert_none, texts};

const WIDTH: usize = 100;

#[test]
fn lines_of_documents_have_at_most_100_characters() {
    let mut long = Vec::new();
    for page in texts()
        .iter()
        .filter(|text| text.has_extension(&["md"]) && !text.path.starts_with("migrations"))
    {
        let lines = prose(&page.text).into_iter();
        let too_long = lines
            .filter(|(_, line)| !line.trim_start().starts_with('|') && width(line) > WIDTH)
            .map(|(number, _)| page.at(number));
        long.extend(too_long);
    }
    assert_none("lines of Markdown over 100 columns", &long);
}
