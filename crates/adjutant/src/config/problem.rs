use std::fmt;
use std::sync::Arc;

/// Where a setting was written: what whoever has to mend it opens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The name of an environment variable.
    Variable(Arc<str>),
    /// A file that could not be read at all.
    WholeFile(Arc<str>),
    /// Lines and columns count from 1, columns in characters.
    Line { file: Arc<str>, line: usize, column: usize },
}

impl Place {
    pub fn file(&self) -> Option<&str> {
        match self {
            Self::Variable(_) => None,
            Self::WholeFile(file) | Self::Line { file, .. } => Some(file),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => f.write_str(name),
            Self::WholeFile(file) => f.write_str(file),
            Self::Line { file, line, column } => write!(f, "{file}:{line}:{column}"),
        }
    }
}

/// One thing that is wrong with the config, and how to mend it. It never has a setting's text in it, but for names and numbers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    pub place: Place,
    /// The setting's dotted name; empty if it is not about one.
    pub name: String,
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.name.is_empty() {
            write!(f, "{}: ", self.name)?;
        }
        f.write_str(&self.text)
    }
}

/// What was found while reading: errors refuse the config, warnings do not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    pub errors: Vec<Problem>,
    pub warnings: Vec<Problem>,
}

impl Findings {
    pub fn error(&mut self, place: &Place, name: impl Into<String>, text: impl Into<String>) {
        self.errors.push(Problem { place: place.clone(), name: name.into(), text: text.into() });
    }

    /// That a setting is not there, unless it only seems so because it was wrong.
    pub fn missing(&mut self, place: &Place, name: impl Into<String>, text: impl Into<String>) {
        let name = name.into();
        let was_wrong = |problem: &Problem| {
            // Names of front matter are not dotted: every file has them.
            problem.name == name && (name.contains('.') || problem.place.file() == place.file())
        };
        if !self.errors.iter().any(was_wrong) {
            self.error(place, name, text);
        }
    }

    pub fn warning(&mut self, place: &Place, name: impl Into<String>, text: impl Into<String>) {
        self.warnings.push(Problem { place: place.clone(), name: name.into(), text: text.into() });
    }

    /// In the order in which a reader meets them.
    pub fn sort(&mut self) {
        self.errors.sort();
        self.errors.dedup();
        self.warnings.sort();
        self.warnings.dedup();
    }
}

/// A config that cannot be used: everything that is wrong with it, a line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(pub Vec<Problem>);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the config cannot be used")?;
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for Refused {}
