use serde_json::{Map, Value};

use crate::Refusal;

/// The fields of a tool call that are not null, taken one by one; what is left at the end is unknown.
#[derive(Debug)]
pub struct Fields<'a>(Vec<(&'a str, &'a Value)>);

impl<'a> Fields<'a> {
    /// Refuses what is not an object.
    pub fn of(arguments: &'a Value) -> Result<Self, Refusal> {
        let fields: &Map<String, Value> =
            arguments.as_object().ok_or_else(|| Refusal::invalid("arguments", "must be an object"))?;
        Ok(Self(
            fields
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name.as_str(), value))
                .collect(),
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

    /// Ends the reading: a field that nobody asked for is refused by its name.
    pub fn end(mut self) -> Result<(), Refusal> {
        self.0.sort_unstable_by_key(|(name, _)| *name);
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(Refusal::invalid(name, "is not a field of this action")),
        }
    }
}

/// The text in a value. A NUL cannot be stored, so it is refused.
pub fn text_in<'a>(name: &str, value: &'a Value) -> Result<&'a str, Refusal> {
    let text = value.as_str().ok_or_else(|| Refusal::invalid(name, "must be a string"))?;
    if text.contains('\0') {
        return Err(Refusal::invalid(name, "must not contain a NUL character"));
    }
    Ok(text)
}
