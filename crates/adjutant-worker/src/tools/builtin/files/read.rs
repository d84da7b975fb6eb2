use std::path::Path;

use serde_json::{Value, json};

use super::root::{Root, Text};
use crate::tools::Limits;
use crate::tools::builtin::arguments::Arguments;

pub(super) const DESCRIPTION: &str =
    "Reads a text file, in parts if it is long: the last line of the result says how to continue.";

const DEFAULT_LINES: usize = 2000;

/// Bytes that are reserved for the notes at the end.
const NOTES: usize = 400;

pub(super) fn input_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "description": "A file, relative to the root folder." },
            "offset": { "type": "integer", "minimum": 1, "description": "The first line to read. Default: 1." },
            "limit": { "type": "integer", "minimum": 1, "description": "The most lines to read. Default: 2000." },
        },
        "required": ["path"],
        "additionalProperties": false,
    })
}

pub(super) fn read(root: &Root, arguments: &Value) -> Result<String, String> {
    let arguments = Arguments::of(arguments, &["path", "offset", "limit"])?;
    let path = arguments.text("path")?;
    let offset = arguments.count("offset")?.unwrap_or(1);
    let limit = arguments.count("limit")?.unwrap_or(DEFAULT_LINES);
    let file = root.read(Path::new(path))?;
    part(&file, offset, limit)
}

/// As many whole lines as were requested and fit.
fn part(file: &Text, offset: usize, limit: usize) -> Result<String, String> {
    let room = Limits::default().bytes - NOTES;
    let mut shown = String::new();
    let mut last = offset - 1;
    let mut notes = Vec::new();
    for line in file.text.split_inclusive('\n').skip(offset - 1).take(limit) {
        if line.len() > room - shown.len() {
            if shown.is_empty() {
                shown = line[..line.floor_char_boundary(room)].to_owned();
                last += 1;
                notes.push(format!("line {last} is {} bytes long, and truncated", line.len()));
            }
            break;
        }
        shown += line;
        last += 1;
    }
    let lines = file.text.split_inclusive('\n').count();
    if offset > lines.max(1) {
        return Err(format!("The file has only {lines} lines."));
    }
    if offset > 1 || last < lines {
        notes.push(format!("lines {offset} to {last} of {lines}"));
    }
    if last < lines {
        notes.push(format!("continue with offset {}", last + 1));
    }
    if file.is_cut && last == lines {
        notes.push("the file is longer, but too long to be read to its end".to_owned());
    }
    if file.is_lossy {
        notes.push("some bytes are not UTF-8, and are shown as \u{fffd}".to_owned());
    }
    if lines == 0 {
        notes.push("the file is empty".to_owned());
    }
    if !notes.is_empty() {
        let line_break = if shown.is_empty() || shown.ends_with('\n') { "" } else { "\n" };
        shown += &format!("{line_break}[{}]", notes.join("; "));
    }
    Ok(shown)
}
