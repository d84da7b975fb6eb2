//! A config file as a tree of values, each with its location. Names and types are not checked yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Findings, Location};

pub type Table = BTreeMap<String, Node>;

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Where its name is written.
    pub key: Location,
    /// Where its value is written.
    pub location: Location,
    pub value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Text(String),
    /// A string from an environment variable or from front matter, to be parsed by the kind of its
    /// setting.
    Raw(String),
    Integer(i64),
    Number(f64),
    Boolean(bool),
    Date,
    List(Vec<Node>),
    Table(Table),
}

impl Value {
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) | Self::Raw(_) => "a string",
            Self::Integer(_) => "a whole number",
            Self::Number(_) => "a number",
            Self::Boolean(_) => "true or false",
            Self::Date => "a date",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

impl Node {
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Text(text) | Value::Raw(text) => json!(text),
            Value::Integer(integer) => json!(integer),
            Value::Number(number) => json!(number),
            Value::Boolean(flag) => json!(flag),
            Value::Date => json!(null),
            Value::List(nodes) => nodes.iter().map(Self::to_json).collect(),
            Value::Table(table) => table
                .iter()
                .map(|(name, node)| (name.clone(), node.to_json()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }

    pub fn as_table(&self) -> Option<&Table> {
        if let Value::Table(table) = &self.value { Some(table) } else { None }
    }

    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) | Value::Raw(text) => Some(text),
            Value::Integer(_) | Value::Number(_) | Value::Boolean(_) | Value::Date => None,
            Value::List(_) | Value::Table(_) => None,
        }
    }

    /// The strings in a list, or the node itself if it is a string.
    pub fn texts(&self) -> impl Iterator<Item = (&Self, &str)> {
        let nodes = match &self.value {
            Value::List(nodes) => nodes.as_slice(),
            Value::Text(_) | Value::Raw(_) | Value::Integer(_) | Value::Number(_) => {
                std::slice::from_ref(self)
            }
            Value::Boolean(_) | Value::Date | Value::Table(_) => std::slice::from_ref(self),
        };
        nodes.iter().filter_map(|node| Some((node, node.as_text()?)))
    }

    pub fn as_integer(&self) -> Option<i64> {
        if let Value::Integer(integer) = self.value { Some(integer) } else { None }
    }

    pub fn as_number(&self) -> Option<f64> {
        if let Value::Number(number) = self.value { Some(number) } else { None }
    }

    pub fn is_true(&self) -> bool {
        self.value == Value::Boolean(true)
    }

    /// Whether the node is or contains exactly this string.
    pub fn mentions(&self, text: &str) -> bool {
        match &self.value {
            Value::Text(here) | Value::Raw(here) => here == text,
            Value::Integer(_) | Value::Number(_) | Value::Boolean(_) | Value::Date => false,
            Value::List(nodes) => nodes.iter().any(|node| node.mentions(text)),
            Value::Table(table) => table.values().any(|node| node.mentions(text)),
        }
    }
}

/// Parses a TOML file. If it is not valid TOML, the table is empty and every error is reported.
pub fn read_toml(file: &Arc<str>, text: &str, findings: &mut Findings) -> Table {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let source = SourceText { file, text };
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut last_line = 0;
    for error in &errors {
        let location = source.location(error.span().map_or(0, |span| span.start));
        // One mistake causes several errors on its line; the first describes it.
        if let Location::Line { line, .. } = &location
            && *line != last_line
        {
            last_line = *line;
            findings.error(
                &location,
                "",
                format!("invalid TOML: {}", error.message().replace('\n', "; ")),
            );
        }
    }
    if errors.is_empty() { source.table(document.get_ref(), findings) } else { Table::new() }
}

/// Parses the value of an environment variable as a TOML value.
pub fn read_toml_value(location: &Location, text: &str) -> Result<Value, String> {
    let document = format!("value = {text}");
    let parsed = DeTable::parse(&document).map_err(|error| error.message().to_owned())?;
    let mut findings = Findings::default();
    let file = Arc::from("");
    let source = SourceText { file: &file, text: &document };
    let mut table = source.table(parsed.get_ref(), &mut findings);
    match (findings.errors.pop(), table.remove("value")) {
        (None, Some(mut node)) => {
            set_location(&mut node, location);
            Ok(node.value)
        }
        (Some(problem), _) => Err(problem.text),
        (None, None) => Err("the value is empty".to_owned()),
    }
}

fn set_location(node: &mut Node, location: &Location) {
    node.key = location.clone();
    node.location = location.clone();
    match &mut node.value {
        Value::List(nodes) => nodes.iter_mut().for_each(|node| set_location(node, location)),
        Value::Table(table) => table.values_mut().for_each(|node| set_location(node, location)),
        Value::Text(_) | Value::Raw(_) | Value::Integer(_) | Value::Number(_) => {}
        Value::Boolean(_) | Value::Date => {}
    }
}

/// Finds the line and column of an offset.
struct SourceText<'a> {
    file: &'a Arc<str>,
    text: &'a str,
}

impl SourceText<'_> {
    fn location(&self, offset: usize) -> Location {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Location::Line {
            file: self.file.clone(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }

    fn table(&self, table: &DeTable<'_>, findings: &mut Findings) -> Table {
        table
            .iter()
            .map(|(name, value)| {
                let key = self.location(name.span().start);
                (name.get_ref().to_string(), self.node(key, value, findings))
            })
            .collect()
    }

    fn node(&self, key: Location, value: &Spanned<DeValue<'_>>, findings: &mut Findings) -> Node {
        let location = self.location(value.span().start);
        let value = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(integer) => {
                match i64::from_str_radix(integer.as_str(), integer.radix()) {
                    Ok(integer) => Value::Integer(integer),
                    Err(_) => {
                        findings.error(&location, "", "invalid TOML: this number is too large");
                        Value::Integer(0)
                    }
                }
            }
            DeValue::Float(number) => Value::Number(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(flag) => Value::Boolean(*flag),
            DeValue::Datetime(_) => Value::Date,
            DeValue::Array(values) => Value::List(
                values
                    .iter()
                    .map(|value| self.node(self.location(value.span().start), value, findings))
                    .collect(),
            ),
            DeValue::Table(table) => Value::Table(self.table(table, findings)),
        };
        Node { key, location, value }
    }
}
