//! Parses the arguments of the built-in tools, with precise errors for the model.

use serde_json::{Map, Value};

/// The arguments of one call. `null` counts as absent: strict modes send every field.
pub(super) struct Arguments<'a>(&'a Map<String, Value>);

impl<'a> Arguments<'a> {
    pub(super) fn of(arguments: &'a Value, known: &[&str]) -> Result<Self, String> {
        let fields = arguments.as_object().ok_or("The arguments are not an object.")?;
        match fields
            .iter()
            .find(|(name, value)| !value.is_null() && !known.contains(&name.as_str()))
        {
            Some((name, _)) => {
                Err(format!("There is no argument `{name:.64}`. There are: {}.", known.join(", ")))
            }
            None => Ok(Self(fields)),
        }
    }

    pub(super) fn text(&self, name: &str) -> Result<&'a str, String> {
        self.optional_text(name)?.ok_or_else(|| format!("`{name}` is missing."))
    }

    pub(super) fn optional_text(&self, name: &str) -> Result<Option<&'a str>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let text = value.as_str().ok_or_else(|| format!("`{name}` must be a string."))?;
        if text.contains('\0') {
            return Err(format!("`{name}` must not contain a NUL character."));
        }
        if text.is_empty() {
            return Err(format!("`{name}` must not be empty."));
        }
        Ok(Some(text))
    }

    /// An integer of 1 or more.
    pub(super) fn count(&self, name: &str) -> Result<Option<usize>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let count =
            value.as_u64().and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0);
        count.map(Some).ok_or_else(|| format!("`{name}` must be a whole number of 1 or more."))
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }
}
