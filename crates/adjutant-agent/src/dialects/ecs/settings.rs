use crate::InheritancePolicy;

/// What the operator decides for the dialect.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// How long tasks may run whose calls do not say, in seconds; none: as long as others.
    pub default_timeout: Option<f64>,
    /// Of agents that have none of their own.
    pub inheritance: InheritancePolicy,
}
