//! Texts that are too long for one value: `write --file` divides them among several keys.

use std::io::Read;
use std::path::Path;

use adjutant_agent::{check_key, estimate_tokens, longest};
use anyhow::Context;
use serde_json::json;

use super::{TOOL, print_written, write_value};
use crate::client::{CallError, Client, OutputFormat};
use crate::exit::{CommandError, Exit};
use crate::output::{print_content, print_json, print_line};
use crate::table::{items, text};

/// A shared context has no room for more. An agent may write what looks like the value of a text in
/// parts.
const MOST_PARTS: usize = 100_000;

/// The most keys of one `read_batch`.
const BATCH: usize = 100;

/// The text of a file, or of standard input for `-`, without its final line break.
pub fn text_of(file: &Path) -> anyhow::Result<String> {
    let name = file.display();
    let bytes = if file == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
        bytes
    } else {
        std::fs::read(file).with_context(|| format!("cannot read {name}"))?
    };
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        CommandError::usage(format!(
            "--file: {name} is not UTF-8 text: byte {at} is not; convert it with iconv"
        ))
    })?;
    if let Some(at) = text.find('\0') {
        let why = format!("--file: {name} is not text: byte {at} is NUL");
        return Err(CommandError::usage(why).into());
    }
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

/// Writes a text: to the key if it fits into one value, else to `KEY_1`, `KEY_2` and so on. Then
/// the key names these. Parts of an earlier, longer text are deleted.
pub async fn write(client: &Client, session: &str, key: &str, whole: &str) -> anyhow::Result<()> {
    let list = json!({"action": "list_keys"});
    let keys = client.tool_creating_session(session, TOOL, &list).await?.value;
    let details = client.get(&["v1", "sessions", session], Vec::new()).await?.value;
    let limit = |name: &str| details["text_limits"][name].as_i64().context("no limits of texts");
    let (value_limit, store_limit) = (limit("max_value_tokens")?, limit("max_store_tokens")?);
    let parts = split(whole, usize::try_from(longest(value_limit)).unwrap_or(usize::MAX));
    let count = parts.len();
    let last = if count > 1 { part(key, count) } else { key.to_owned() };
    check_key(key).map_err(|refusal| CommandError::usage(refusal.message))?;
    check_key(&last).map_err(|_| {
        let why = format!(
            "key: is too long: the last part would be {last:?}, and a key has 64 characters at most"
        );
        CommandError::usage(why)
    })?;

    let old = old_parts(client, session, key).await?;
    let first_surplus = if count > 1 { count + 1 } else { 1 };
    let surplus: Vec<String> = (first_surplus..=old).map(|n| part(key, n)).collect();
    let is_replaced = |name: &str| {
        name == key || surplus.iter().chain(&names(key, count)).any(|part| part == name)
    };
    let kept = items(&keys, "keys").iter().filter(|entry| !is_replaced(&text(entry, "key")));
    let used: i64 = kept.filter_map(|entry| entry["value_size_tokens"].as_i64()).sum();
    let wanted: i64 = parts.iter().map(|part| estimate_tokens(part)).sum();
    let index = index(key, count);
    let wanted = if count > 1 { wanted + estimate_tokens(&index) } else { wanted };
    if used + wanted > store_limit {
        return Err(no_room(whole, wanted, store_limit - used, store_limit).into());
    }

    for name in &surplus {
        delete(client, session, name).await?;
    }
    if count == 1 {
        return print_written(client, key, &write_value(client, session, key, whole).await?);
    }
    for (name, part) in names(key, count).iter().zip(&parts) {
        let written = write_value(client, session, name, part).await;
        written.with_context(|| {
            format!(
                "{name} of {count} parts was not written, nor those after it; write the file again"
            )
        })?;
    }
    let answer = write_value(client, session, key, &index).await?;
    let chars = whole.chars().count();
    match client.format() {
        OutputFormat::Json => print_json(
            &json!({
                "key": key, "version": answer.value["version"], "characters": chars,
                "parts": names(key, count),
            })
            .to_string(),
        ),
        OutputFormat::Text => print_line(format!(
            "{chars} characters are in {}, and {key} says so. In a task: \"Read the keys {} of the shared context, \
             then ...\"",
            range(key, count),
            range(key, count)
        )),
    }
}

/// Prints what [`write`] has divided among so many keys.
pub async fn print(client: &Client, session: &str, key: &str, count: usize) -> anyhow::Result<()> {
    let names = names(key, count);
    let mut whole = String::new();
    for batch in names.chunks(BATCH) {
        let call = json!({"action": "read_batch", "keys": batch});
        let answer = client.tool(session, TOOL, &call).await?.value;
        for name in batch {
            let entry = items(&answer, "entries").iter().find(|entry| text(entry, "key") == *name);
            let entry = entry.with_context(|| format!("{name} is missing: {key} is incomplete"))?;
            whole.push_str(&text(entry, "value"));
        }
    }
    match client.format() {
        OutputFormat::Json => {
            print_json(&json!({"key": key, "parts": names, "value": whole}).to_string())
        }
        OutputFormat::Text => print_content(&whole),
    }
}

/// How many parts the value of a key names, if [`write`] wrote it.
pub fn count(key: &str, value: &str) -> Option<usize> {
    let count: usize = value.strip_prefix("This text has ")?.split_once(' ')?.0.parse().ok()?;
    (count <= MOST_PARTS && value == index(key, count)).then_some(count)
}

/// The value of the key of a text in parts.
fn index(key: &str, count: usize) -> String {
    format!("This text has {count} parts: read the keys {} in order.", range(key, count))
}

fn range(key: &str, count: usize) -> String {
    format!("{} to {}", part(key, 1), part(key, count))
}

fn part(key: &str, n: usize) -> String {
    format!("{key}_{n}")
}

/// The keys of the parts; none for a text that fits into one value.
fn names(key: &str, count: usize) -> Vec<String> {
    if count > 1 { (1..=count).map(|n| part(key, n)).collect() } else { Vec::new() }
}

/// Divides a text into pieces of at most `limit` characters, after line breaks where it can.
fn split(text: &str, limit: usize) -> Vec<&str> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while let Some((end, _)) = rest.char_indices().nth(limit) {
        let end = rest[..end].rfind('\n').map_or(end, |line| line + 1);
        let (piece, more) = rest.split_at(end);
        pieces.push(piece);
        rest = more;
    }
    pieces.push(rest);
    pieces
}

/// How many parts the key named before.
async fn old_parts(client: &Client, session: &str, key: &str) -> Result<usize, CallError> {
    match client.tool(session, TOOL, &json!({"action": "read", "key": key})).await {
        Ok(answer) => Ok(count(key, &text(&answer.value, "value")).unwrap_or(0)),
        Err(error) if error.has_code("KEY_NOT_FOUND") => Ok(0),
        Err(error) => Err(error),
    }
}

async fn delete(client: &Client, session: &str, key: &str) -> Result<(), CallError> {
    match client.tool(session, TOOL, &json!({"action": "delete", "key": key})).await {
        Err(error) if !error.has_code("KEY_NOT_FOUND") => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn no_room(whole: &str, wanted: i64, room: i64, limit: i64) -> CommandError {
    let message = format!(
        "the text has {} characters, which are {wanted} tokens, and the shared context has room for {} of its {limit} \
         tokens (STORE_FULL)
Nothing was written. Delete keys that are no longer needed, raise limits.max_store_tokens, or let an agent with file \
         tools read the file in the folder tools.files.root.",
        whole.chars().count(),
        room.max(0)
    );
    CommandError { exit: Exit::Refused, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_divided_after_line_breaks_and_loses_nothing() {
        for (text, limit, pieces) in [
            ("", 3, &[""][..]),
            ("abc", 3, &["abc"]),
            ("abcd", 3, &["abc", "d"]),
            ("a\nbc\nd", 4, &["a\n", "bc\nd"]),
            ("éé\né", 3, &["éé\n", "é"]),
            ("\n\n\n", 2, &["\n\n", "\n"]),
            ("ab\ncdefg", 3, &["ab\n", "cde", "fg"]),
        ] {
            assert_eq!(split(text, limit), pieces, "{text:?}");
            assert_eq!(split(text, limit).concat(), text);
        }
    }

    #[test]
    fn the_value_of_the_key_tells_how_many_parts_there_are() {
        assert_eq!(count("diff", &index("diff", 12)), Some(12));
        assert_eq!(count("other", &index("diff", 12)), None, "a copy under another key");
        for value in ["", "This text has ", "This text has 3 parts", "This text has many parts"] {
            assert_eq!(count("diff", value), None, "{value}");
        }
    }
}
