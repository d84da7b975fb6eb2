/// What an operator says about this dialect.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// How deep subagents may nest, 1 to 10, within what is allowed for all.
    pub max_depth: i32,
    /// For calls that do not say, 1 to 100.
    pub default_max_turns: i32,
    /// The most bytes of an output that are shown, at least 1024.
    pub output_max_size: usize,
    /// Whether what happens to subagents is told in the log.
    pub telemetry_enabled: bool,
    pub quota: Quota,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_depth: 3,
            default_max_turns: 10,
            output_max_size: 4_096,
            telemetry_enabled: true,
            quota: Quota::default(),
        }
    }
}

/// What all subagents of one session may use together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Quota {
    pub max_executions: Option<i64>,
    pub max_total_tokens: Option<i64>,
    /// In seconds.
    pub max_total_time: Option<f64>,
}
