use std::path::PathBuf;

use serde::Deserialize;

/// A text that `Debug` does not show.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// Where a key comes from. A file is read for every call, so that the key can be rotated.
#[derive(Debug)]
pub(super) enum KeySource {
    Fixed(Secret),
    File(PathBuf),
}

impl KeySource {
    pub(super) fn read(&self) -> std::io::Result<Secret> {
        match self {
            Self::Fixed(key) => Ok(key.clone()),
            Self::File(path) => Ok(Secret::new(std::fs::read_to_string(path)?.trim())),
        }
    }
}
