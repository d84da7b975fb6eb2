use serde_json::{Map, Value};

use crate::{ActionForm, Refusal};

/// The fields of a JSON object that are not null, taken one by one. [`Fields::end`] refuses those
/// that were not taken.
#[derive(Debug)]
pub struct Fields<'a>(Vec<(&'a str, &'a Value)>);

impl<'a> Fields<'a> {
    /// Refuses a value that is not an object.
    pub fn of(arguments: &'a Value) -> Result<Self, Refusal> {
        let fields: &Map<String, Value> = arguments
            .as_object()
            .ok_or_else(|| Refusal::invalid("arguments", "must be an object"))?;
        Ok(Self(
            fields
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name.as_str(), value))
                .collect(),
        ))
    }

    /// Refuses a field that none of these forms has. Called before the fields are taken, so that a
    /// misspelled field is reported as unknown, and not the correct one as missing.
    pub fn refuse_unknown(&self, forms: &[ActionForm]) -> Result<(), Refusal> {
        let known = |name: &str| {
            forms.iter().any(|form| form.required.contains(&name) || form.optional.contains(&name))
        };
        let unknown = self.0.iter().map(|(name, _)| *name).filter(|name| !known(name)).min();
        let Some(name) = unknown else { return Ok(()) };
        let fields = forms.iter().flat_map(|form| form.required.iter().chain(form.optional));
        let mut known: Vec<&str> = Vec::new();
        for field in fields {
            if !known.contains(field) {
                known.push(field);
            }
        }
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(Refusal::invalid(
            name,
            format_args!("is not a field of this action, whose fields are: {known}"),
        ))
    }

    pub fn take(&mut self, name: &str) -> Option<&'a Value> {
        let place = self.0.iter().position(|(known, _)| *known == name)?;
        Some(self.0.swap_remove(place).1)
    }

    pub fn text(&mut self, name: &str) -> Result<&'a str, Refusal> {
        let value = self.take(name).ok_or_else(|| Refusal::invalid(name, "is required"))?;
        text_in(name, value)
    }

    /// A required text that is not blank.
    pub fn non_empty_text(&mut self, name: &str) -> Result<&'a str, Refusal> {
        let text = match self.take(name) {
            Some(value) => text_in(name, value)?,
            None => "",
        };
        if text.trim().is_empty() {
            return Err(Refusal::invalid(name, "is required and must not be empty"));
        }
        Ok(text)
    }

    pub fn optional_text(&mut self, name: &str) -> Result<Option<&'a str>, Refusal> {
        self.take(name).map(|value| text_in(name, value)).transpose()
    }

    /// An optional text of 1 to `max` characters.
    pub fn short_text(&mut self, name: &str, max: usize) -> Result<Option<&'a str>, Refusal> {
        let text = self.optional_text(name)?;
        match text.map(|text| text.chars().count()) {
            Some(chars) if chars == 0 || chars > max => {
                Err(Refusal::invalid(name, format_args!("must have 1 to {max} characters")))
            }
            Some(_) | None => Ok(text),
        }
    }

    pub fn integer(&mut self, name: &str) -> Result<Option<i64>, Refusal> {
        let Some(value) = self.take(name) else { return Ok(None) };
        integer_in(value).map(Some).ok_or_else(|| Refusal::invalid(name, "must be a whole number"))
    }

    pub fn number(&mut self, name: &str) -> Result<Option<f64>, Refusal> {
        let Some(value) = self.take(name) else { return Ok(None) };
        value.as_f64().map(Some).ok_or_else(|| Refusal::invalid(name, "must be a number"))
    }

    pub fn boolean(&mut self, name: &str) -> Result<Option<bool>, Refusal> {
        let Some(value) = self.take(name) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| Refusal::invalid(name, "must be true or false"))
    }

    pub fn array(&mut self, name: &str) -> Result<Option<&'a [Value]>, Refusal> {
        let Some(value) = self.take(name) else { return Ok(None) };
        value
            .as_array()
            .map(|items| Some(items.as_slice()))
            .ok_or_else(|| Refusal::invalid(name, "must be an array"))
    }

    pub fn texts(&mut self, name: &str) -> Result<Option<Vec<&'a str>>, Refusal> {
        let Some(items) = self.array(name)? else { return Ok(None) };
        let texts = items
            .iter()
            .enumerate()
            .map(|(place, item)| text_in(&format!("{name}[{place}]"), item));
        texts.collect::<Result<_, _>>().map(Some)
    }

    pub fn object(&mut self, name: &str) -> Result<Option<&'a Map<String, Value>>, Refusal> {
        let Some(value) = self.take(name) else { return Ok(None) };
        refuse_nul(name, value)?;
        value.as_object().map(Some).ok_or_else(|| Refusal::invalid(name, "must be an object"))
    }

    /// Refuses a field that was not taken, by its name.
    pub fn end(mut self) -> Result<(), Refusal> {
        self.0.sort_unstable_by_key(|(name, _)| *name);
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(unknown_field(name)),
        }
    }
}

fn unknown_field(name: &str) -> Refusal {
    Refusal::invalid(name, "is not a field of this action")
}

/// The text of a string value. NUL characters are refused, because PostgreSQL cannot store them.
pub fn text_in<'a>(name: &str, value: &'a Value) -> Result<&'a str, Refusal> {
    let text = value.as_str().ok_or_else(|| Refusal::invalid(name, "must be a string"))?;
    if text.contains('\0') {
        return Err(Refusal::invalid(name, "must not contain a NUL character"));
    }
    Ok(text)
}

/// The integer of a number value. `12.0` is an integer, as in JSON Schema.
pub fn integer_in(value: &Value) -> Option<i64> {
    let float = || value.as_f64().filter(|number| number.fract() == 0.0);
    // Through text, because no conversion from a float fails for values that do not fit.
    value.as_i64().or_else(|| format!("{:.0}", float()?).parse().ok())
}

/// Refuses NUL characters in all strings and names of a value.
fn refuse_nul(name: &str, value: &Value) -> Result<(), Refusal> {
    match value {
        Value::String(_) => text_in(name, value).map(|_| ()),
        Value::Array(items) => items.iter().try_for_each(|item| refuse_nul(name, item)),
        Value::Object(fields) => fields.iter().try_for_each(|(key, value)| {
            if key.contains('\0') {
                return Err(Refusal::invalid(name, "must not contain a NUL character"));
            }
            refuse_nul(name, value)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_without_a_fraction_is_an_integer_in_any_notation() {
        for (value, whole) in [
            (json!(12), Some(12)),
            (json!(12.0), Some(12)),
            (json!(-1e3), Some(-1000)),
            (json!(1e18), Some(1_000_000_000_000_000_000)),
            (json!(i64::MAX), Some(i64::MAX)),
            (json!(1e19), None),
            (json!(12.5), None),
            (json!("12"), None),
            (json!(true), None),
        ] {
            assert_eq!(integer_in(&value), whole, "{value}");
        }
    }
}
