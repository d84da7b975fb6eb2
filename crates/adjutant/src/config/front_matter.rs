//! Markdown with YAML front matter, as in `.claude/agents`. Many of these files are not valid YAML,
//! for example because a description contains colons, quotes and `\n`. Front matter that the YAML
//! parser rejects is therefore parsed line by line.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;
use serde_saphyr::Spanned;

use super::problem::{Location, Problem};
use super::tree::{Node, Table, Value};

/// The settings of a file, and the text below them.
#[derive(Debug, PartialEq)]
pub struct FrontMatter {
    pub settings: Table,
    pub body: String,
}

/// Parses a file; `None` if it has no front matter.
pub fn read(file: &Arc<str>, text: &str) -> Result<Option<FrontMatter>, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let mut lines = text.split('\n').enumerate().skip_while(|(_, line)| line.trim().is_empty());
    let Some((opening, _)) = lines.next().filter(|(_, line)| line.trim_end() == "---") else {
        return Ok(None);
    };
    let front: Vec<(usize, &str)> =
        lines.by_ref().take_while(|(_, line)| line.trim_end() != "---").collect();
    let first = opening + 2;
    if text.split('\n').nth(opening + 1 + front.len()).is_none() {
        let location = at(file, opening + 1, 1);
        let text = "front matter starts here and never ends: add a closing --- line".to_owned();
        return Err(Problem { location, name: String::new(), text });
    }
    let body: Vec<&str> = lines.map(|(_, line)| line).collect();
    let source: Vec<&str> = front.iter().map(|(_, line)| *line).collect();
    let settings = match parse_yaml(file, &source.join("\n"), first) {
        Ok(settings) => settings,
        Err(problem) => parse_lines(file, &source, first).ok_or(problem)?,
    };
    Ok(Some(FrontMatter { settings, body: body.join("\n").trim().to_owned() }))
}

fn at(file: &Arc<str>, line: usize, column: usize) -> Location {
    Location::Line { file: file.clone(), line, column }
}

/// `first` is the line of the file at which `yaml` starts.
fn parse_yaml(file: &Arc<str>, yaml: &str, first: usize) -> Result<Table, Problem> {
    if yaml.trim().is_empty() {
        return Ok(Table::new());
    }
    let location = |line: u64, column: u64| {
        let line = usize::try_from(line).unwrap_or(1).max(1);
        at(file, first + line - 1, usize::try_from(column).unwrap_or(1).max(1))
    };
    // `off` is a word of some settings, not a boolean.
    let options = serde_saphyr::options! { strict_booleans: true };
    let settings: BTreeMap<String, Spanned<Json>> =
        serde_saphyr::from_str_with_options(yaml, options).map_err(|error| {
            let location = error
                .location()
                .map_or_else(|| location(1, 1), |at| location(at.line(), at.column()));
            // The first line is the error; the others quote the text.
            let text = error.without_snippet().to_string();
            let text = format!("invalid YAML: {}", text.lines().next().unwrap_or("unreadable"));
            Problem { location, name: String::new(), text }
        })?;
    let node = |(name, value): (String, Spanned<Json>)| {
        let location = location(value.referenced.line(), value.referenced.column());
        Some((name, from_yaml(value.value, &location)?))
    };
    Ok(settings.into_iter().filter_map(node).collect())
}

/// A value without content counts as missing.
fn from_yaml(json: Json, location: &Location) -> Option<Node> {
    let value = match json {
        Json::Null => return None,
        // The setting's kind decides the type: a name may look like a number.
        Json::Bool(flag) => Value::Raw(flag.to_string()),
        Json::Number(number) => Value::Raw(number.to_string()),
        Json::String(text) => Value::Raw(text),
        Json::Array(items) => Value::List(
            items.into_iter().filter_map(|item| from_yaml(item, location).map(as_text)).collect(),
        ),
        Json::Object(table) => Value::Table(
            table
                .into_iter()
                .filter_map(|(name, value)| Some((name, from_yaml(value, location)?)))
                .collect(),
        ),
    };
    Some(Node { key: location.clone(), location: location.clone(), value })
}

fn as_text(node: Node) -> Node {
    let value = if let Value::Raw(text) = node.value { Value::Text(text) } else { node.value };
    Node { value, ..node }
}

/// A setting before its value is parsed.
struct RawSetting<'a> {
    line: usize,
    column: usize,
    after_colon: &'a str,
    continuation: Vec<&'a str>,
}

/// `None` if the lines are not settings either.
fn parse_lines(file: &Arc<str>, lines: &[&str], first: usize) -> Option<Table> {
    let mut settings: Vec<(&str, RawSetting<'_>)> = Vec::new();
    let mut in_example = false;
    for (index, line) in lines.iter().enumerate() {
        let setting = if in_example { None } else { key_and_rest(line) };
        match (setting, settings.last_mut()) {
            (Some((key, rest)), _) => {
                let column = line.len() - rest.len() + 1;
                let (line, after_colon) = (first + index, rest);
                let setting = RawSetting { line, column, after_colon, continuation: Vec::new() };
                settings.push((key, setting));
            }
            (None, Some((_, setting))) => setting.continuation.push(line),
            (None, None) if line.trim().is_empty() || line.starts_with('#') => {}
            (None, None) => return None,
        }
        // Inside an example, a line such as `user: ...` is part of a dialogue, not a setting.
        in_example = match (line.rfind("<example>"), line.rfind("</example>")) {
            (Some(open), Some(close)) => open > close,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => in_example,
        };
    }
    let mut table = Table::new();
    for (key, setting) in settings {
        let location = at(file, setting.line, setting.column);
        if let Some(value) = setting.value(&location) {
            let node = Node { key: at(file, setting.line, 1), location, value };
            if table.insert(key.to_owned(), node).is_some() {
                return None;
            }
        }
    }
    Some(table)
}

fn key_and_rest(line: &str) -> Option<(&str, &str)> {
    let (key, rest) = line.split_once(':')?;
    let is_key = key.starts_with(|c: char| c.is_ascii_alphabetic())
        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let ends = rest.is_empty() || rest.starts_with([' ', '\t']);
    (is_key && ends).then(|| (key, rest.trim_start()))
}

impl RawSetting<'_> {
    fn value(&self, location: &Location) -> Option<Value> {
        let inline = self.after_colon.trim();
        let lines =
            || self.continuation.iter().map(|line| line.trim()).filter(|line| !line.is_empty());
        let items: Option<Vec<&str>> = lines().map(|line| line.strip_prefix("- ")).collect();
        let text = match (inline, items) {
            ("", Some(items)) if !items.is_empty() => {
                let item = |text: &str| Node {
                    key: location.clone(),
                    location: location.clone(),
                    value: Value::Text(unquoted(text.trim())),
                };
                return Some(Value::List(items.into_iter().map(item).collect()));
            }
            ("|" | "|-" | "|+", _) => {
                self.continuation.iter().map(|line| line.trim()).collect::<Vec<_>>().join("\n")
            }
            (">" | ">-" | ">+" | "", _) => lines().collect::<Vec<_>>().join(" "),
            (inline, _) => {
                unquoted(&[inline].into_iter().chain(lines()).collect::<Vec<_>>().join(" "))
            }
        };
        Some(text.trim().to_owned()).filter(|text| !text.is_empty()).map(Value::Raw)
    }
}

/// Removes quotes that surround the whole text.
fn unquoted(text: &str) -> String {
    let within = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    if let Some(inner) = within('"') {
        return inner.replace("\\\"", "\"");
    }
    within('\'').map_or_else(|| text.to_owned(), |inner| inner.replace("''", "'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<FrontMatter>, String> {
        super::read(&"agents/a.md".into(), text).map_err(|problem| problem.to_string())
    }

    fn setting(text: &str, name: &str) -> serde_json::Value {
        read(text)
            .unwrap()
            .expect("front matter")
            .settings
            .get(name)
            .map_or(Json::Null, Node::to_json)
    }

    #[test]
    fn yaml_is_read_as_yaml() {
        let text = "---\nname: reviewer\ndescription: >\n  Reviews\n  code\ntools:\n  - Read\n  - Grep\nmax_turns: 5\n---\n\nYou review.\n";
        assert_eq!(setting(text, "description"), "Reviews code\n");
        assert_eq!(setting(text, "tools"), serde_json::json!(["Read", "Grep"]));
        assert_eq!(setting(text, "max_turns"), "5");
        assert_eq!(read(text).unwrap().unwrap().body, "You review.");
    }

    #[test]
    fn invalid_yaml_is_parsed_line_by_line() {
        let text = "---\nname: reviewer\ndescription: Use this: when \"code\" is there. Examples:\\n<example>user: 'x'</example>\ntools: Read, Grep\ncolor: red\n---\nBody: with a colon\n";
        assert_eq!(
            setting(text, "description"),
            "Use this: when \"code\" is there. Examples:\\n<example>user: 'x'</example>"
        );
        assert_eq!(setting(text, "tools"), "Read, Grep");
        assert_eq!(read(text).unwrap().unwrap().body, "Body: with a colon");
    }

    #[test]
    fn an_example_over_several_lines_belongs_to_its_description() {
        let text = "---\nname: a\ndescription: Use this: often\n<example>\nuser: \"hi\"\n</example>\ntools:\n- Read\n- 'Grep'\n---\nx";
        assert_eq!(
            setting(text, "description"),
            "Use this: often <example> user: \"hi\" </example>"
        );
        assert_eq!(setting(text, "tools"), serde_json::json!(["Read", "Grep"]));
        assert_eq!(setting(text, "user"), Json::Null);
    }

    #[test]
    fn byte_order_marks_line_ends_and_blank_lines_do_not_matter() {
        for text in
            ["\u{feff}---\r\nname: a\r\n---\r\n\r\nBody\r\n", "\n\n---  \nname: a\n---\nBody"]
        {
            assert_eq!(setting(text, "name"), "a", "{text:?}");
            assert_eq!(read(text).unwrap().unwrap().body, "Body", "{text:?}");
        }
        assert_eq!(setting("---\n---\nBody", "name"), Json::Null);
        assert_eq!(setting("---\nname:\n---\nBody", "name"), Json::Null);
    }

    #[test]
    fn a_file_without_front_matter_is_not_an_agent() {
        for text in ["", "# Title\n", "text\n---\nname: a\n---\n", "--- \t x\n"] {
            assert_eq!(read(text), Ok(None), "{text:?}");
        }
    }

    #[test]
    fn unreadable_front_matter_is_an_error_with_its_line() {
        for (text, expected) in [
            (
                "---\nname: a\n",
                "agents/a.md:1:1: front matter starts here and never ends: add a closing --- line",
            ),
            (
                "\n---\nname: a",
                "agents/a.md:2:1: front matter starts here and never ends: add a closing --- line",
            ),
        ] {
            assert_eq!(read(text), Err(expected.to_owned()), "{text:?}");
        }
        for (text, location) in [
            ("---\nname: a\nname: b\n---\nx", "agents/a.md:3:1: invalid YAML: "),
            ("---\n- a\n- b\n---\nx", "agents/a.md:2:1: invalid YAML: "),
            ("---\n\t: [\n---\nx", "agents/a.md:2:"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(location), "{text:?}: {error}");
        }
    }
}
