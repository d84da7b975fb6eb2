//! Whether a tree has only names that there are, and values of the right kind. What is wrong is said and left out, so that the
//! rest can be looked at too.

use super::nearest::{nearest, suggestion};
use super::problem::{Findings, Place};
use super::schema::{Kind, SETTINGS, dotted, kind_of, names_in};
use super::tree::{Node, Table, Value, read_toml_value};

/// The whole config, with what is wrong left out.
pub fn check(table: Table, findings: &mut Findings) -> Table {
    check_table(table, Level { pattern: "", name: "" }, findings)
}

/// Where in the schema, and where in the config.
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
            findings.error(&node.key, &name, format!("unknown name; {}", meant(&key, level)));
            continue;
        }
        let pattern = dotted_pattern(level.pattern, known);
        let fitting = match kind_of(&pattern) {
            Some(kind) => fit(kind, &name, node, findings),
            None => {
                if let Value::Table(table) = node.value {
                    let below = Level { pattern: &pattern, name: &name };
                    Some(Node { value: Value::Table(check_table(table, below, findings)), ..node })
                } else {
                    findings.error(&node.place, &name, wanted("a table", &node.value));
                    None
                }
            }
        };
        checked.extend(fitting.map(|node| (key, node)));
    }
    checked
}

fn dotted_pattern(pattern: &str, name: &str) -> String {
    if pattern.is_empty() { name.to_owned() } else { format!("{pattern}.{name}") }
}

/// What somebody who wrote an unknown name may have meant: one of its table, or one that belongs elsewhere.
fn meant(key: &str, level: Level<'_>) -> String {
    let names = names_in(level.pattern);
    if let Some(near) = nearest(key, names.iter().copied()) {
        return format!("did you mean {}?", dotted(level.name, near));
    }
    let elsewhere = SETTINGS.iter().find(|setting| setting.name.rsplit('.').next() == Some(key));
    match elsewhere {
        Some(setting) => format!("did you mean {}?", setting.name.replace('*', "NAME")),
        None => suggestion(key, names),
    }
}

/// The value as its setting wants it, or nothing and an error.
pub fn fit(kind: Kind, name: &str, node: Node, findings: &mut Findings) -> Option<Node> {
    let Node { key, place, value } = node;
    match fit_value(kind, value, &place) {
        Ok(value) => Some(Node { key, place, value }),
        Err(problem) => {
            findings.error(&place, name, problem);
            None
        }
    }
}

fn fit_value(kind: Kind, value: Value, place: &Place) -> Result<Value, String> {
    let value = if let Value::Raw(text) = value { from_raw(kind, text, place)? } else { value };
    match (kind, value) {
        (Kind::Text | Kind::Path, Value::Text(text)) => not_empty(text).map(Value::Text),
        (Kind::Url, Value::Text(text)) => url(text).map(Value::Text),
        (Kind::Word(words), Value::Text(text)) => word(words, text).map(Value::Text),
        (Kind::Paths, Value::Text(text)) => {
            let text = Value::Text(not_empty(text)?);
            Ok(Value::List(vec![Node { key: place.clone(), place: place.clone(), value: text }]))
        }
        (Kind::Paths | Kind::Texts, Value::List(nodes)) => texts(nodes).map(Value::List),
        (Kind::Whole { least, most }, Value::Integer(integer)) => {
            whole(integer, least, most).map(Value::Integer)
        }
        (Kind::Number { .. } | Kind::Positive, Value::Number(number)) => {
            in_range(kind, number).map(Value::Number)
        }
        (Kind::Number { .. } | Kind::Positive, Value::Integer(integer)) => {
            in_range(kind, integer as f64).map(Value::Number)
        }
        (Kind::Flag, Value::Flag(flag)) => Ok(Value::Flag(flag)),
        (Kind::Table, Value::Table(table)) => Ok(Value::Table(table)),
        (Kind::TextTable, Value::Table(table)) => {
            match table.iter().find(|(_, node)| !matches!(node.value, Value::Text(_))) {
                None => Ok(Value::Table(table)),
                Some((name, node)) => Err(format!("{name}: {}", wanted("a string", &node.value))),
            }
        }
        (Kind::SecretTable, Value::Table(table)) => match table.iter().find(|(_, node)| !is_secret(node)) {
            None => Ok(Value::Table(table)),
            Some((name, _)) => Err(format!("{name}: must be a string or {{ env = \"NAME\" }}")),
        },
        (kind, other) => Err(wanted(kind.is_called(), &other)),
    }
}

impl Kind {
    fn is_called(self) -> &'static str {
        match self {
            Self::Text | Self::Url | Self::Path | Self::Word(_) => "a string",
            Self::Paths => "a string or a list of strings",
            Self::Whole { .. } => "a whole number",
            Self::Number { .. } | Self::Positive => "a number",
            Self::Flag => "true or false",
            Self::Texts => "a list of strings",
            Self::TextTable | Self::SecretTable => "a table of strings",
            Self::Table => "a table",
        }
    }
}

fn is_secret(node: &Node) -> bool {
    let is_text = |node: &Node| matches!(node.value, Value::Text(_));
    let from_environment = |table: &Table| table.len() == 1 && table.get("env").is_some_and(is_text);
    is_text(node) || node.as_table().is_some_and(from_environment)
}

fn wanted(kind: &str, found: &Value) -> String {
    format!("must be {kind}, and is {}", found.is_called())
}

fn from_raw(kind: Kind, text: String, place: &Place) -> Result<Value, String> {
    let trimmed = text.trim();
    match kind {
        Kind::Text | Kind::Url | Kind::Path | Kind::Word(_) => Ok(Value::Text(text)),
        Kind::Paths | Kind::Texts if !trimmed.starts_with('[') => {
            Ok(Value::List(split_list(trimmed).map(|text| raw_item(text, place)).collect()))
        }
        Kind::Paths | Kind::Texts | Kind::TextTable | Kind::SecretTable | Kind::Table => {
            read_toml_value(place, trimmed)
                .map_err(|error| format!("must be {} as TOML has it: {error}", kind.is_called()))
        }
        Kind::Whole { .. } | Kind::Number { .. } | Kind::Positive | Kind::Flag => {
            let value = read_toml_value(place, trimmed).ok();
            value
                .filter(|value| matches!(value, Value::Integer(_) | Value::Number(_) | Value::Flag(_)))
                .ok_or_else(|| format!("must be {}", kind.is_called()))
        }
    }
}

fn raw_item(text: &str, place: &Place) -> Node {
    Node { key: place.clone(), place: place.clone(), value: Value::Text(text.to_owned()) }
}

/// At commas, but for those in parentheses: `Read, Bash(git add, git commit)` are two.
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
        return Err("must not have a NUL character in it".to_owned());
    }
    Ok(text)
}

fn texts(nodes: Vec<Node>) -> Result<Vec<Node>, String> {
    for node in &nodes {
        if let Value::Text(text) = &node.value {
            not_empty(text.clone())?;
        } else {
            return Err(format!("must be a list of strings, and has {} in it", node.value.is_called()));
        }
    }
    Ok(nodes)
}

fn url(text: String) -> Result<String, String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match rest {
        Some(rest) if !rest.is_empty() && !rest.starts_with('/') && !text.contains(char::is_whitespace) => {
            Ok(text)
        }
        // Not shown: a URL may have a password in it.
        _ => Err("must be a URL that begins with http:// or https://".to_owned()),
    }
}

fn word(words: &'static [&'static str], text: String) -> Result<String, String> {
    if words.contains(&text.as_str()) {
        return Ok(text);
    }
    let all: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    Err(match nearest(&text, words.iter().copied()) {
        Some(near) => format!("must be {}; did you mean {near:?}?", all.join(" or ")),
        None => format!("must be {}", all.join(" or ")),
    })
}

fn whole(integer: i64, least: i64, most: i64) -> Result<i64, String> {
    if integer < least {
        return Err(format!("must be at least {least}, and is {integer}"));
    }
    if integer > most {
        return Err(format!("must be at most {most}, and is {integer}"));
    }
    Ok(integer)
}

fn in_range(kind: Kind, number: f64) -> Result<f64, String> {
    if let Kind::Number { least, most } = kind
        && !(least..=most).contains(&number)
    {
        return Err(format!("must be from {least} to {most}, and is {number}"));
    }
    if kind == Kind::Positive && !(number > 0.0 && number <= 1e9) {
        return Err(format!("must be above 0 and at most a billion, and is {number}"));
    }
    Ok(number)
}
