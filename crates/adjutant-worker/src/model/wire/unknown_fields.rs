//! Fields of an answer that Adjutant does not know, such as `reasoning_content` or the signature of
//! a thought. Models refuse or forget their own reasoning without them, so they are stored with the
//! answer and sent back on the wire that they came from.

use adjutant_agent::WireFields;
use serde_json::{Map, Value};

use crate::model::Wire;

/// Texts that name something: a stream may repeat them, and they are not in pieces.
const WHOLE_TEXTS: &[&str] = &["type", "id", "format", "name", "role", "encoding"];

/// The fields of an object besides the known ones. Nothing is kept of a field without a value.
pub(super) fn unknown_fields(object: &Value, known: &[&str]) -> Map<String, Value> {
    let fields = object.as_object().into_iter().flatten();
    fields
        .filter(|(name, value)| !known.contains(&name.as_str()) && has_value(value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// An empty text counts: some servers refuse a message without the field.
fn has_value(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Adds the fields of a call, or of a piece of it in a stream.
pub(super) fn add_to_call(extra: &mut Option<WireFields>, wire: Wire, fields: Map<String, Value>) {
    if !fields.is_empty() {
        let new = || WireFields { wire: wire.as_str().to_owned(), fields: Map::new() };
        merge_fields(&mut extra.get_or_insert_with(new).fields, fields);
    }
}

/// Adds a piece of a stream: texts are continued, objects are merged, and items of a list are
/// appended, or merged with the item of the same `index`, `type` and `id`.
pub(super) fn merge_fields(so_far: &mut Map<String, Value>, piece: Map<String, Value>) {
    for (name, value) in piece {
        match so_far.get_mut(&name) {
            Some(known) => merge(&name, known, value),
            None => {
                so_far.insert(name, value);
            }
        }
    }
}

fn merge(name: &str, so_far: &mut Value, piece: Value) {
    match (so_far, piece) {
        (_, Value::Null) => {}
        (Value::String(text), Value::String(piece)) if !WHOLE_TEXTS.contains(&name) => {
            text.push_str(&piece);
        }
        (Value::Object(fields), Value::Object(piece)) => merge_fields(fields, piece),
        (Value::Array(items), Value::Array(pieces)) => {
            for piece in pieces {
                match items.iter_mut().rev().find(|item| continues(item, &piece)) {
                    Some(item) => merge(name, item, piece),
                    None => items.push(piece),
                }
            }
        }
        (so_far, piece) => *so_far = piece,
    }
}

/// Whether the piece belongs to the item of a list. Some servers number all items 0, and only the
/// type and the id tell them apart.
fn continues(item: &Value, piece: &Value) -> bool {
    let same = |name: &str| match (&item[name], &piece[name]) {
        (Value::Null, _) | (_, Value::Null) => true,
        (known, new) => known == new,
    };
    piece["index"].is_u64() && item["index"] == piece["index"] && same("type") && same("id")
}

/// Adds stored fields to a message or a call that is sent back, below those that it has.
pub(super) fn send_back(object: &mut Value, fields: &Map<String, Value>) {
    for (name, value) in fields {
        match object.get_mut(name) {
            None => object[name.as_str()] = value.clone(),
            Some(inner @ Value::Object(_)) => {
                if let Value::Object(fields) = value {
                    send_back(inner, fields);
                }
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(pieces: &[Value]) -> Value {
        let mut so_far = Map::new();
        for piece in pieces {
            merge_fields(&mut so_far, unknown_fields(piece, &["content"]));
        }
        so_far.into()
    }

    #[test]
    fn texts_are_continued_and_names_and_null_are_not() {
        let pieces = [
            json!({"content": "So", "reasoning_content": "", "refusal": null, "tags": []}),
            json!({"reasoning_content": "Hm, "}),
            json!({"reasoning_content": "ä.", "effort": {"name": "high", "left": 2}}),
            json!({"reasoning_content": null, "effort": {"name": "high", "left": 1}}),
        ];
        let expected =
            json!({"reasoning_content": "Hm, ä.", "effort": {"name": "high", "left": 1}});
        assert_eq!(merged(&pieces), expected);
    }

    #[test]
    fn items_of_a_list_are_merged_by_index_type_and_id_or_appended() {
        let item = |kind: &str, text: &str| json!({"reasoning_details": [{"type": kind, "text": text, "index": 0}]});
        let signed =
            json!({"reasoning_details": [{"signature": "c2ln", "index": 0, "type": "text"}]});
        let pieces = [item("text", "Hm, "), item("text", "so."), signed, item("hidden", "x")];
        let expected = json!({"reasoning_details": [
            {"type": "text", "text": "Hm, so.", "signature": "c2ln", "index": 0},
            {"type": "hidden", "text": "x", "index": 0},
        ]});
        assert_eq!(merged(&pieces), expected);
        let unnumbered = json!({"parts": [{"text": "a"}]});
        assert_eq!(
            merged(&[unnumbered.clone(), unnumbered]),
            json!({"parts": [{"text": "a"}, {"text": "a"}]})
        );
    }

    #[test]
    fn what_is_sent_back_overrides_nothing() {
        let mut call = json!({"id": "a", "function": {"name": "fetch"}});
        let fields = json!({"id": "b", "function": {"name": "x", "signature": "s"}, "extra": 1});
        send_back(&mut call, fields.as_object().unwrap());
        let function = json!({"name": "fetch", "signature": "s"});
        assert_eq!(call, json!({"id": "a", "function": function, "extra": 1}));
    }
}
