//! Checks the names and types of a tree against the schema. Settings with errors are reported and
//! left out, so that the rest can be checked too.

use super::problem::{Findings, Location};
use super::schema::{Kind, all_settings, dotted, kind_of, names_in};
use super::suggest::{choice, nearest, suggestion};
use super::tree::{Node, Table, Value, read_toml_value};

/// The whole config, without the settings that have errors.
pub fn check(table: Table, findings: &mut Findings) -> Table {
    check_table(table, Level { pattern: "", name: "" }, findings)
}

/// A table: its name in the schema and its name in the config.
#[derive(Clone, Copy)]
struct Level<'a> {
    pattern: &'a str,
    name: &'a str,
}

fn check_table(table: Table, level: Level<'_>, findings: &mut Findings) -> Table {
    let names = names_in(level.pattern);
    let mut checked = Table::new();
    for (key, node) in table {
        let name = dotted(level.name, &key);
        let known = if names.contains(&"*") { "*" } else { key.as_str() };
        if !names.contains(&known) {
            findings.error(&node.key, &name, format!("unknown setting; {}", suggest(&key, level)));
            continue;
        }
        let pattern = dotted_pattern(level.pattern, known);
        let converted = match kind_of(&pattern) {
            Some(kind) => convert(kind, &name, node, findings),
            None => {
                if let Value::Table(table) = node.value {
                    let below = Level { pattern: &pattern, name: &name };
                    Some(Node { value: Value::Table(check_table(table, below, findings)), ..node })
                } else {
                    findings.error(&node.location, &name, wrong_type("a table", &node.value));
                    None
                }
            }
        };
        checked.extend(converted.map(|node| (key, node)));
    }
    checked
}

fn dotted_pattern(pattern: &str, name: &str) -> String {
    if pattern.is_empty() { name.to_owned() } else { format!("{pattern}.{name}") }
}

/// The setting that an unknown name may stand for: one of its table, or one of another table.
fn suggest(key: &str, level: Level<'_>) -> String {
    let names = names_in(level.pattern);
    if let Some(near) = nearest(key, names.iter().copied()) {
        return format!("did you mean {}?", dotted(level.name, near));
    }
    let elsewhere = all_settings().find(|setting| setting.name.rsplit('.').next() == Some(key));
    match elsewhere {
        Some(setting) => format!("did you mean {}?", setting.name.replace('*', "NAME")),
        None => suggestion(key, names),
    }
}

/// Converts a value to the kind of its setting, or reports an error.
pub fn convert(kind: Kind, name: &str, node: Node, findings: &mut Findings) -> Option<Node> {
    let Node { key, location, value } = node;
    match convert_value(kind, value, &location) {
        Ok(value) => Some(Node { key, location, value }),
        Err(problem) => {
            findings.error(&location, name, problem);
            None
        }
    }
}

fn convert_value(kind: Kind, value: Value, location: &Location) -> Result<Value, String> {
    let value = if let Value::Raw(text) = value { parse_raw(kind, text, location)? } else { value };
    match (kind, value) {
        (Kind::Text | Kind::Path, Value::Text(text)) => not_empty(text).map(Value::Text),
        (Kind::Url, Value::Text(text)) => url(text).map(Value::Text),
        (Kind::OneOf(words), Value::Text(text)) => one_of(words, text).map(Value::Text),
        (Kind::PathList, Value::Text(text)) => {
            Ok(Value::List(vec![text_node(&not_empty(text)?, location)]))
        }
        (Kind::PathList | Kind::TextList, Value::List(nodes)) => texts(nodes).map(Value::List),
        (Kind::Integer { min, max }, Value::Integer(integer)) => {
            in_range(integer, min, max).map(Value::Integer)
        }
        (Kind::Number { .. } | Kind::PositiveNumber, Value::Number(number)) => {
            number_in_range(kind, number).map(Value::Number)
        }
        (Kind::Number { .. } | Kind::PositiveNumber, Value::Integer(integer)) => {
            number_in_range(kind, integer as f64).map(Value::Number)
        }
        (Kind::Boolean, Value::Boolean(value)) => Ok(Value::Boolean(value)),
        (Kind::Table, Value::Table(table)) => Ok(typed(Value::Table(table), location)),
        (Kind::TextTable, Value::Table(table)) => {
            match table.iter().find(|(_, node)| !matches!(node.value, Value::Text(_))) {
                None => Ok(Value::Table(table)),
                Some((name, node)) => {
                    Err(format!("{name}: {}", wrong_type("a string", &node.value)))
                }
            }
        }
        (Kind::SecretTable, Value::Table(table)) => {
            match table.iter().find(|(_, node)| !is_secret(node)) {
                None => Ok(Value::Table(table)),
                Some((name, _)) => Err(format!("{name}: must be a string or {{ env = \"NAME\" }}")),
            }
        }
        (kind, other) => Err(wrong_type(kind.type_name(), &other)),
    }
}

impl Kind {
    fn type_name(self) -> &'static str {
        match self {
            Self::Text | Self::Url | Self::Path | Self::OneOf(_) => "a string",
            Self::PathList => "a string or a list of strings",
            Self::Integer { .. } => "a whole number",
            Self::Number { .. } | Self::PositiveNumber => "a number",
            Self::Boolean => "true or false",
            Self::TextList => "a list of strings",
            Self::TextTable | Self::SecretTable => "a table of strings",
            Self::Table => "a table",
        }
    }
}

fn is_secret(node: &Node) -> bool {
    let is_text = |node: &Node| matches!(node.value, Value::Text(_));
    let from_environment =
        |table: &Table| table.len() == 1 && table.get("env").is_some_and(is_text);
    is_text(node) || node.as_table().is_some_and(from_environment)
}

fn wrong_type(expected: &str, found: &Value) -> String {
    format!("must be {expected}, not {}", found.type_name())
}

/// Parses a string by the kind of its setting.
fn parse_raw(kind: Kind, text: String, location: &Location) -> Result<Value, String> {
    let trimmed = text.trim();
    match kind {
        Kind::Text | Kind::Url | Kind::Path | Kind::OneOf(_) => Ok(Value::Text(text)),
        Kind::PathList | Kind::TextList if !trimmed.starts_with('[') => {
            Ok(Value::List(split_list(trimmed).map(|text| text_node(text, location)).collect()))
        }
        Kind::PathList | Kind::TextList | Kind::TextTable | Kind::SecretTable | Kind::Table => {
            read_toml_value(location, trimmed)
                .map_err(|error| format!("must be {} in TOML: {error}", kind.type_name()))
        }
        Kind::Integer { .. } | Kind::Number { .. } | Kind::PositiveNumber | Kind::Boolean => {
            let value = read_toml_value(location, trimmed).ok();
            value
                .filter(|value| {
                    matches!(value, Value::Integer(_) | Value::Number(_) | Value::Boolean(_))
                })
                .ok_or_else(|| format!("must be {}", kind.type_name()))
        }
    }
}

/// Front matter has strings only. In a table of any names, what looks like a number is one.
fn typed(value: Value, location: &Location) -> Value {
    let node = |node: Node| Node { value: typed(node.value, location), ..node };
    match value {
        Value::Raw(text) => match read_toml_value(location, text.trim()) {
            Ok(scalar @ (Value::Integer(_) | Value::Number(_) | Value::Boolean(_))) => scalar,
            Ok(_) | Err(_) => Value::Text(text),
        },
        Value::Table(table) => {
            Value::Table(table.into_iter().map(|(name, value)| (name, node(value))).collect())
        }
        Value::List(items) => Value::List(items.into_iter().map(node).collect()),
        other @ (Value::Text(_)
        | Value::Integer(_)
        | Value::Number(_)
        | Value::Boolean(_)
        | Value::Date) => other,
    }
}

fn text_node(text: &str, location: &Location) -> Node {
    let value = Value::Text(text.to_owned());
    Node { key: location.clone(), location: location.clone(), value }
}

/// Splits at commas outside of parentheses: `Read, Bash(git add, git commit)` are two items.
pub fn split_list(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0usize;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|item| !item.is_empty())
}

fn not_empty(text: String) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("must not be empty".to_owned());
    }
    if text.contains('\0') {
        return Err("must not contain a NUL character".to_owned());
    }
    Ok(text)
}

fn texts(nodes: Vec<Node>) -> Result<Vec<Node>, String> {
    for node in &nodes {
        if let Value::Text(text) = &node.value {
            not_empty(text.clone())?;
        } else {
            return Err(format!(
                "must be a list of strings, but contains {}",
                node.value.type_name()
            ));
        }
    }
    Ok(nodes)
}

fn url(text: String) -> Result<String, String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match rest {
        Some(rest)
            if !rest.is_empty()
                && !rest.starts_with('/')
                && !text.contains(char::is_whitespace) =>
        {
            Ok(text)
        }
        // The URL is not quoted, because it may contain a password.
        _ => Err("must be a URL that starts with http:// or https://".to_owned()),
    }
}

fn one_of(words: &'static [&'static str], text: String) -> Result<String, String> {
    if words.contains(&text.as_str()) {
        return Ok(text);
    }
    let all = choice(words);
    Err(match nearest(&text, words.iter().copied()) {
        Some(near) => format!("must be {all}; did you mean {near:?}?"),
        None => format!("must be {all}"),
    })
}

fn in_range(integer: i64, min: i64, max: i64) -> Result<i64, String> {
    if integer < min {
        return Err(format!("must be at least {min}, not {integer}"));
    }
    if integer > max {
        return Err(format!("must be at most {max}, not {integer}"));
    }
    Ok(integer)
}

fn number_in_range(kind: Kind, number: f64) -> Result<f64, String> {
    if let Kind::Number { min, max } = kind
        && !(min..=max).contains(&number)
    {
        return Err(format!("must be from {min} to {max}, not {number}"));
    }
    if kind == Kind::PositiveNumber && !(number > 0.0 && number <= 1e9) {
        return Err(format!("must be above 0 and at most 1000000000, not {number}"));
    }
    Ok(number)
}
