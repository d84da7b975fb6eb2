use serde_json::{Map, Value};

use crate::{ActionForm, Refusal};

/// The fields of a tool call that are not null, taken one by one; what is left at the end is unknown.
#[derive(Debug)]
pub struct Fields<'a>(Vec<(&'a str, &'a Value)>);

impl<'a> Fields<'a> {
    /// Refuses what is not an object.
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

    /// Refuses a field that has no place in any of these forms by its name: who misspells one is told so, and not that
    /// another is missing.
    pub fn only(&self, forms: &[ActionForm]) -> Result<(), Refusal> {
        let known = |name: &str| {
            forms.iter().any(|form| form.needed.contains(&name) || form.optional.contains(&name))
        };
        let unknown = self.0.iter().map(|(name, _)| *name).filter(|name| !known(name)).min();
        unknown.map_or(Ok(()), |name| Err(not_a_field(name)))
    }

    pub fn take(&mut self, name: &str) -> Option<&'a Value> {
        let place = self.0.iter().position(|(known, _)| *known == name)?;
        Some(self.0.swap_remove(place).1)
    }

    pub fn text(&mut self, name: &str) -> Result<&'a str, Refusal> {
        let value = self.take(name).ok_or_else(|| Refusal::invalid(name, "is required"))?;
        text_in(name, value)
    }

    /// A text that has something in it.
    pub fn filled(&mut self, name: &str) -> Result<&'a str, Refusal> {
        let text = match self.take(name) {
            Some(value) => text_in(name, value)?,
            None => "",
        };
        if text.trim().is_empty() {
            return Err(Refusal::invalid(name, "is required and must not be empty"));
        }
        Ok(text)
    }

    pub fn text_if_any(&mut self, name: &str) -> Result<Option<&'a str>, Refusal> {
        self.take(name).map(|value| text_in(name, value)).transpose()
    }

    /// A text of 1 to so many characters.
    pub fn short_text(&mut self, name: &str, longest: usize) -> Result<Option<&'a str>, Refusal> {
        let text = self.text_if_any(name)?;
        match text.map(|text| text.chars().count()) {
            Some(chars) if chars == 0 || chars > longest => {
                Err(Refusal::invalid(name, format_args!("must have 1 to {longest} characters")))
            }
            Some(_) | None => Ok(text),
        }
    }

    pub fn whole(&mut self, name: &str) -> Result<Option<i64>, Refusal> {
        let Some(value) = self.take(name) else { return Ok(None) };
        whole_in(value).map(Some).ok_or_else(|| Refusal::invalid(name, "must be a whole number"))
    }

    pub fn number(&mut self, name: &str) -> Result<Option<f64>, Refusal> {
        let Some(value) = self.take(name) else { return Ok(None) };
        value.as_f64().map(Some).ok_or_else(|| Refusal::invalid(name, "must be a number"))
    }

    pub fn flag(&mut self, name: &str) -> Result<Option<bool>, Refusal> {
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

    /// Ends the reading: a field that nobody asked for is refused by its name.
    pub fn end(mut self) -> Result<(), Refusal> {
        self.0.sort_unstable_by_key(|(name, _)| *name);
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(not_a_field(name)),
        }
    }
}

fn not_a_field(name: &str) -> Refusal {
    Refusal::invalid(name, "is not a field of this action")
}

/// The text in a value. A NUL cannot be stored, so it is refused.
pub fn text_in<'a>(name: &str, value: &'a Value) -> Result<&'a str, Refusal> {
    let text = value.as_str().ok_or_else(|| Refusal::invalid(name, "must be a string"))?;
    if text.contains('\0') {
        return Err(Refusal::invalid(name, "must not contain a NUL character"));
    }
    Ok(text)
}

/// The whole number in a value; `12.0` is one, as JSON Schema has it.
pub fn whole_in(value: &Value) -> Option<i64> {
    let float = || value.as_f64().filter(|number| number.fract() == 0.0);
    // By way of text, since there is no conversion of a float that refuses what does not fit.
    value.as_i64().or_else(|| format!("{:.0}", float()?).parse().ok())
}

/// Refuses a NUL wherever it is in the value, in names too.
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
    fn a_number_is_whole_however_it_is_written() {
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
            assert_eq!(whole_in(&value), whole, "{value}");
        }
    }
}
