//! The parser of request bodies: JSON in UTF-8 without duplicate keys, NUL characters, trailing
//! text or deep nesting.

use std::cell::RefCell;
use std::fmt;

use adjutant_agent::Refusal;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The deepest nesting of arrays and objects.
pub const MAX_DEPTH: usize = 64;

/// Parses a body, or names the field that is wrong.
pub fn parse(body: &[u8]) -> Result<Value, Refusal> {
    let text = std::str::from_utf8(body).map_err(|_| Refusal::invalid("body", "must be UTF-8"))?;
    if text.trim().is_empty() {
        return Err(Refusal::invalid("body", "is required: a JSON object"));
    }
    let state = ParseState::default();
    let mut json = serde_json::Deserializer::from_str(text);
    let parsed = Strict(&state).deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    parsed.map_err(|error| state.refusal(&error))
}

/// The position of the parser, and why it stopped.
#[derive(Default)]
struct ParseState {
    /// The names of the enclosing fields; array items have none.
    path: RefCell<Vec<String>>,
    depth: RefCell<usize>,
    problem: RefCell<Option<&'static str>>,
}

impl ParseState {
    fn refuse<E: serde::de::Error>(&self, problem: &'static str) -> E {
        *self.problem.borrow_mut() = Some(problem);
        E::custom(problem)
    }

    fn refusal(self, error: &serde_json::Error) -> Refusal {
        let path = self.path.into_inner().join(".");
        let field = if path.is_empty() { "body" } else { &path };
        match self.problem.into_inner() {
            Some(problem) => Refusal::invalid(field, problem),
            None => Refusal::invalid(field, format_args!("is not valid JSON: {error}")),
        }
    }

    fn refuse_nul<E: serde::de::Error>(&self, text: &str) -> Result<(), E> {
        if text.contains('\0') {
            Err(self.refuse("must not contain a NUL character"))
        } else {
            Ok(())
        }
    }

    fn enter<E: serde::de::Error>(&self) -> Result<(), E> {
        let mut depth = self.depth.borrow_mut();
        *depth += 1;
        if *depth > MAX_DEPTH { Err(self.refuse("is nested too deeply")) } else { Ok(()) }
    }

    fn leave(&self) {
        *self.depth.borrow_mut() -= 1;
    }
}

struct Strict<'a>(&'a ParseState);

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Value, E> {
        Number::from_f64(number)
            .map(Value::Number)
            .ok_or_else(|| self.0.refuse("is not a finite number"))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        self.0.refuse_nul(text)?;
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.0.enter()?;
        let mut values = Vec::new();
        while let Some(item) = items.next_element_seed(Strict(self.0))? {
            values.push(item);
        }
        self.0.leave();
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        self.0.enter()?;
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            // Stays in the path if the value is refused, so that the refusal names it.
            self.0.path.borrow_mut().push(name.replace('\0', "\\0"));
            self.0.refuse_nul::<A::Error>(&name)?;
            if object.contains_key(&name) {
                return Err(self.0.refuse("appears twice"));
            }
            let value = fields.next_value_seed(Strict(self.0))?;
            self.0.path.borrow_mut().pop();
            object.insert(name, value);
        }
        self.0.leave();
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn refused(body: impl AsRef<[u8]>) -> String {
        parse(body.as_ref()).expect_err("should be refused").message
    }

    #[test]
    fn duplicate_keys_are_refused_at_every_depth() {
        assert_eq!(refused(r#"{"task": 1, "task": 1}"#), "task: appears twice");
        assert_eq!(
            refused(r#"{"metadata": {"a": 1, "b": 2, "a": null}}"#),
            "metadata.a: appears twice"
        );
        assert_eq!(refused(r#"{"tasks": [{"x": 1}, {"x": 1, "x": 2}]}"#), "tasks.x: appears twice");
        assert_eq!(refused(r#"{"t\u0061sk": 1, "task": 1}"#), "task: appears twice");
        assert!(parse(br#"{"a": {"a": 1}, "b": [{"a": 1}, {"a": 1}]}"#).is_ok());
    }

    #[test]
    fn a_nul_character_is_refused_in_every_string() {
        assert_eq!(refused(r#"{"task": "a\u0000b"}"#), "task: must not contain a NUL character");
        assert_eq!(
            refused(r#"{"tasks": [{"task": ["\u0000"]}]}"#),
            "tasks.task: must not contain a NUL character"
        );
        assert_eq!(refused(r#"{"a\u0000": 1}"#), "a\\0: must not contain a NUL character");
        assert_eq!(refused(r#"["\u0000"]"#), "body: must not contain a NUL character");
    }

    #[test]
    fn a_lone_surrogate_is_refused_by_the_name_of_its_field() {
        for half in [r"\ud800", r"\udc00", r"\ud800x", r"\ud800\ud800"] {
            let message = refused(format!(r#"{{"action": "spawn", "task": "{half}"}}"#));
            assert!(message.starts_with("task: is not valid JSON: "), "{half}: {message}");
        }
        assert_eq!(parse(br#""\ud83d\ude00""#), Ok(json!("\u{1f600}")));
    }

    #[test]
    fn only_one_complete_json_value_is_accepted() {
        for body in [
            "{} {}",
            "{},",
            "[1] x",
            "null null",
            "{\"a\": 1",
            "{'a': 1}",
            "{\"a\": 1,}",
            "nul",
            "\u{feff}{}",
        ] {
            assert!(refused(body).contains("is not valid JSON"), "{body}");
        }
        assert_eq!(parse(b" {\"a\": 1}\r\n\t "), Ok(json!({"a": 1})));
    }

    #[test]
    fn an_empty_body_is_refused() {
        for body in ["", " \n"] {
            assert_eq!(refused(body), "body: is required: a JSON object");
        }
        assert_eq!(refused(b"{\"a\": \"\xff\"}"), "body: must be UTF-8");
    }

    #[test]
    fn nesting_is_limited() {
        let nested = |open: &str, close: &str, depth| {
            format!("{}1{}", open.repeat(depth), close.repeat(depth))
        };
        assert!(parse(nested("[", "]", MAX_DEPTH).as_bytes()).is_ok());
        assert_eq!(refused(nested("[", "]", MAX_DEPTH + 1)), "body: is nested too deeply");
        assert!(parse(nested("{\"a\":", "}", MAX_DEPTH).as_bytes()).is_ok());
        assert!(refused(nested("{\"a\":", "}", MAX_DEPTH + 1)).ends_with(": is nested too deeply"));
        assert_eq!(refused("[".repeat(1_000_000)), "body: is nested too deeply");
        let wide = format!("[{}1]", "[[]],".repeat(1000));
        assert!(parse(wide.as_bytes()).is_ok(), "siblings do not add to the depth");
    }

    #[test]
    fn a_number_that_is_not_finite_is_refused() {
        assert!(refused(r#"{"n": 1e999}"#).starts_with("n: "));
        assert_eq!(parse(b"18446744073709551616"), Ok(json!(18_446_744_073_709_551_616.0)));
    }

    /// Any JSON without NULs, up to a depth.
    fn json() -> impl Strategy<Value = Value> {
        let plain = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<i32>().prop_map(|eighths| Value::from(f64::from(eighths) / 8.0)),
            "[^\0]{0,8}".prop_map(Value::from),
        ];
        plain.prop_recursive(5, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map("[^\0]{0,4}", inner, 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_written_value_is_parsed_to_the_same_value(value in json()) {
            prop_assert_eq!(parse(value.to_string().as_bytes()), Ok(value.clone()));
            prop_assert_eq!(parse(format!("{value:#}").as_bytes()), Ok(value));
        }

        #[test]
        fn any_bytes_are_refused_or_parsed_as_serde_json_parses_them(
            bytes in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            if let Ok(value) = parse(&bytes) {
                prop_assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), value);
            }
        }

        #[test]
        fn a_truncated_body_is_refused(value in json(), cut in any::<prop::sample::Index>()) {
            let text = json!({"value": value}).to_string();
            let cut = cut.index(text.len());
            prop_assert!(parse(&text.as_bytes()[..cut]).is_err());
        }
    }
}
