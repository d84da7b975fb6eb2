//! A config as it was written, every value with its place: before anything is known of what it means.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Findings, Place};

pub type Table = BTreeMap<String, Node>;

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Where its name is.
    pub key: Place,
    /// Where its value is.
    pub place: Place,
    pub value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Text(String),
    /// A text that becomes what its setting wants: from an environment variable, or from front matter.
    Raw(String),
    Integer(i64),
    Number(f64),
    Flag(bool),
    Date,
    List(Vec<Node>),
    Table(Table),
}

impl Value {
    pub fn is_called(&self) -> &'static str {
        match self {
            Self::Text(_) | Self::Raw(_) => "a string",
            Self::Integer(_) => "a whole number",
            Self::Number(_) => "a number",
            Self::Flag(_) => "true or false",
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
            Value::Flag(flag) => json!(flag),
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
            Value::Integer(_) | Value::Number(_) | Value::Flag(_) | Value::Date => None,
            Value::List(_) | Value::Table(_) => None,
        }
    }

    /// Of a list, the texts in it with their places; of a text, itself.
    pub fn texts(&self) -> impl Iterator<Item = (&Self, &str)> {
        let nodes = match &self.value {
            Value::List(nodes) => nodes.as_slice(),
            Value::Text(_) | Value::Raw(_) | Value::Integer(_) | Value::Number(_) => {
                std::slice::from_ref(self)
            }
            Value::Flag(_) | Value::Date | Value::Table(_) => std::slice::from_ref(self),
        };
        nodes.iter().filter_map(|node| Some((node, node.as_text()?)))
    }

    pub fn as_integer(&self) -> Option<i64> {
        if let Value::Integer(integer) = self.value { Some(integer) } else { None }
    }

    pub fn as_number(&self) -> Option<f64> {
        if let Value::Number(number) = self.value { Some(number) } else { None }
    }

    /// Whether some text in it is exactly this one.
    pub fn mentions(&self, text: &str) -> bool {
        match &self.value {
            Value::Text(here) | Value::Raw(here) => here == text,
            Value::Integer(_) | Value::Number(_) | Value::Flag(_) | Value::Date => false,
            Value::List(nodes) => nodes.iter().any(|node| node.mentions(text)),
            Value::Table(table) => table.values().any(|node| node.mentions(text)),
        }
    }
}

/// What a TOML file says; of one that is not TOML, nothing but every place where it is not.
pub fn read_toml(file: &Arc<str>, text: &str, findings: &mut Findings) -> Table {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = Lines { file, text };
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut last_line = 0;
    for error in &errors {
        let place = lines.place(error.span().map_or(0, |span| span.start));
        // One slip of the pen makes several errors on its line; the first says what it is.
        if let Place::Line { line, .. } = &place
            && *line != last_line
        {
            last_line = *line;
            findings.error(&place, "", format!("not TOML: {}", error.message().replace('\n', "; ")));
        }
    }
    if errors.is_empty() { lines.table(document.get_ref(), findings) } else { Table::new() }
}

/// The value of an environment variable, as TOML has it.
pub fn read_toml_value(place: &Place, text: &str) -> Result<Value, String> {
    let document = format!("value = {text}");
    let parsed = DeTable::parse(&document).map_err(|error| error.message().to_owned())?;
    let mut findings = Findings::default();
    let file = Arc::from("");
    let mut table = Lines { file: &file, text: &document }.table(parsed.get_ref(), &mut findings);
    match (findings.errors.pop(), table.remove("value")) {
        (None, Some(mut node)) => {
            stand_at(&mut node, place);
            Ok(node.value)
        }
        (Some(problem), _) => Err(problem.text),
        (None, None) => Err("nothing is there".to_owned()),
    }
}

fn stand_at(node: &mut Node, place: &Place) {
    node.key = place.clone();
    node.place = place.clone();
    match &mut node.value {
        Value::List(nodes) => nodes.iter_mut().for_each(|node| stand_at(node, place)),
        Value::Table(table) => table.values_mut().for_each(|node| stand_at(node, place)),
        Value::Text(_) | Value::Raw(_) | Value::Integer(_) | Value::Number(_) => {}
        Value::Flag(_) | Value::Date => {}
    }
}

struct Lines<'a> {
    file: &'a Arc<str>,
    text: &'a str,
}

impl Lines<'_> {
    fn place(&self, offset: usize) -> Place {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Place::Line {
            file: self.file.clone(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }

    fn table(&self, table: &DeTable<'_>, findings: &mut Findings) -> Table {
        table
            .iter()
            .map(|(name, value)| {
                let key = self.place(name.span().start);
                (name.get_ref().to_string(), self.node(key, value, findings))
            })
            .collect()
    }

    fn node(&self, key: Place, value: &Spanned<DeValue<'_>>, findings: &mut Findings) -> Node {
        let place = self.place(value.span().start);
        let value = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
                Ok(integer) => Value::Integer(integer),
                Err(_) => {
                    findings.error(&place, "", "not TOML: this number is too large");
                    Value::Integer(0)
                }
            },
            DeValue::Float(number) => Value::Number(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(flag) => Value::Flag(*flag),
            DeValue::Datetime(_) => Value::Date,
            DeValue::Array(values) => Value::List(
                values
                    .iter()
                    .map(|value| self.node(self.place(value.span().start), value, findings))
                    .collect(),
            ),
            DeValue::Table(table) => Value::Table(self.table(table, findings)),
        };
        Node { key, place, value }
    }
}
