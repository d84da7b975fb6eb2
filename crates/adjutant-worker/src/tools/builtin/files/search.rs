use std::ops::ControlFlow;
use std::path::Path;

use serde_json::{Value, json};

use super::root::{Kind, Root};
use super::walk::{Coverage, walk};
use crate::tools::builtin::arguments::Arguments;

pub(super) const DESCRIPTION: &str = "Searches text files, in a folder and all folders below it, for a text. Answers with \
    `path:line: text` for each line that has it.";

const DEFAULT_RESULTS: usize = 100;
const MAX_RESULTS: usize = 1000;

/// The most bytes that are shown of a line.
const MAX_LINE: usize = 300;

pub(super) fn input_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "pattern": {
                "type": "string",
                "description": "The text to search for, inside a line, exactly as it is: not a regular expression, upper and \
                                lower case are different.",
            },
            "path": {
                "type": "string",
                "description": "A folder or a file, relative to the root folder. Default: the root folder.",
            },
            "max_results": { "type": "integer", "minimum": 1, "description": "Default: 100. At most 1000." },
        },
        "required": ["pattern"],
        "additionalProperties": false,
    })
}

pub(super) fn search(root: &Root, arguments: &Value) -> Result<String, String> {
    let arguments = Arguments::of(arguments, &["pattern", "path", "max_results"])?;
    let pattern = arguments.text("pattern")?;
    if pattern.contains('\n') {
        return Err(
            "`pattern` must not contain a line break: lines are searched one by one.".to_owned()
        );
    }
    let path = Path::new(arguments.optional_text("path")?.unwrap_or("."));
    let max = arguments.count("max_results")?.unwrap_or(DEFAULT_RESULTS).min(MAX_RESULTS);
    let mut found = Found { pattern, max, lines: Vec::new() };
    let coverage = match root.read(path) {
        Ok(file) if found.search(&path.to_string_lossy(), &file.text).is_break() => Coverage::Part,
        Ok(_) => Coverage::All,
        Err(why) => walk(root, path, |inner, entry| {
            if !matches!(entry.kind, Kind::File | Kind::Link) {
                return ControlFlow::Continue(());
            }
            let inside = path.join(inner);
            // Binary and unreadable files are skipped.
            match root.read(&inside) {
                Ok(file) => found.search(&inside.to_string_lossy(), &file.text),
                Err(_) => ControlFlow::Continue(()),
            }
        })
        .map_err(|_| why)?,
    };
    let mut lines = found.lines;
    match coverage {
        Coverage::All if lines.is_empty() => lines.push("[not found]".to_owned()),
        Coverage::All => {}
        Coverage::Part => {
            lines.push("[not everything was searched or shown: search a folder below]".to_owned())
        }
    }
    Ok(lines.join("\n"))
}

struct Found<'a> {
    pattern: &'a str,
    max: usize,
    lines: Vec<String>,
}

impl Found<'_> {
    /// Breaks when the limit of results is exceeded.
    fn search(&mut self, path: &str, text: &str) -> ControlFlow<()> {
        let path = path.strip_prefix("./").unwrap_or(path);
        for (number, line) in
            text.lines().enumerate().filter(|(_, line)| line.contains(self.pattern))
        {
            if self.lines.len() == self.max {
                return ControlFlow::Break(());
            }
            let shown = &line[..line.floor_char_boundary(MAX_LINE)];
            let rest = if shown.len() < line.len() { " [...]" } else { "" };
            self.lines.push(format!("{path}:{}: {shown}{rest}", number + 1));
        }
        ControlFlow::Continue(())
    }
}
