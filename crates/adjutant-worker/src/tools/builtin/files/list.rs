use std::ops::ControlFlow;
use std::path::Path;

use serde_json::{Value, json};

use super::pattern::Pattern;
use super::root::{Entry, Kind, Root};
use super::walk::{Coverage, walk};
use crate::tools::builtin::arguments::Arguments;

pub(super) const DESCRIPTION: &str = "Lists the files of a folder, one a line; folders end in `/`, symbolic links in `@`. With a \
    pattern, the files in it and in all folders below it that match.";

/// The most entries in one result.
const MAX_SHOWN: usize = 1000;

pub(super) fn input_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "description": "A folder, relative to the root folder. Default: the root folder." },
            "pattern": {
                "type": "string",
                "description": "`*` and `?` match inside a name, `**` any folders: `*.md`, `src/**/*.rs`.",
            },
        },
        "additionalProperties": false,
    })
}

pub(super) fn list(root: &Root, arguments: &Value) -> Result<String, String> {
    let arguments = Arguments::of(arguments, &["path", "pattern"])?;
    let path = Path::new(arguments.optional_text("path")?.unwrap_or("."));
    let mut lines = Vec::new();
    let coverage = match arguments.optional_text("pattern")? {
        Some(pattern) => {
            let pattern = Pattern::new(pattern);
            walk(root, path, |path, entry| {
                let path = path.to_string_lossy();
                if entry.kind == Kind::Folder || !pattern.matches(&path) {
                    return ControlFlow::Continue(());
                }
                if lines.len() == MAX_SHOWN {
                    return ControlFlow::Break(());
                }
                lines.push(line(&path, entry));
                ControlFlow::Continue(())
            })?
        }
        None => {
            let (entries, more) = root.entries(path)?;
            let coverage =
                if more || entries.len() > MAX_SHOWN { Coverage::Part } else { Coverage::All };
            lines.extend(entries.iter().take(MAX_SHOWN).map(|entry| line(&entry.name, entry)));
            coverage
        }
    };
    if lines.is_empty() && coverage == Coverage::All {
        return Ok("[no files]".to_owned());
    }
    if coverage == Coverage::Part {
        lines.push("[there are more: name a folder below, or a narrower pattern]".to_owned());
    }
    Ok(lines.join("\n"))
}

fn line(path: &str, entry: &Entry) -> String {
    // A name with a line break must not look like two entries.
    let path = path.replace(['\n', '\r'], "\u{fffd}");
    match entry.kind {
        Kind::Folder => path + "/",
        Kind::Link => path + "@",
        Kind::File | Kind::Other => path,
    }
}
