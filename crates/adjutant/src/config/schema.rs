//! Every setting that there is. Names, environment variables, suggestions and the test of the example all come from here.

/// A setting: its dotted name, in which `*` stands for a name that the operator chooses, and what it may be.
pub struct Setting {
    pub name: &'static str,
    pub kind: Kind,
}

/// What a setting may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Not empty.
    Text,
    /// Begins with http:// or https://.
    Url,
    /// Relative to the file that it is written in.
    Path,
    /// One, or a list of them.
    Paths,
    Word(&'static [&'static str]),
    Whole {
        least: i64,
        most: i64,
    },
    /// From `least` to `most`.
    Number {
        least: f64,
        most: f64,
    },
    /// A number above zero, of seconds or of money.
    Positive,
    Flag,
    Texts,
    /// Names and texts.
    TextTable,
    /// The same, where a text may also be `{ env = "NAME" }`.
    SecretTable,
    /// Whatever TOML can say.
    Table,
}

const ANY: i64 = i32::MAX as i64;

const fn at_least(least: i64) -> Kind {
    Kind::Whole { least, most: ANY }
}

/// Of a tool's call: it should be over within a day.
const SECONDS: Kind = Kind::Number { least: 0.001, most: 86_400.0 };

/// In USD per million tokens.
const PRICE: Kind = Kind::Number { least: 0.0, most: 1e6 };

macro_rules! settings {
    ($($name:literal: $kind:expr,)*) => {
        &[$(Setting { name: $name, kind: $kind },)*]
    };
}

pub const SETTINGS: &[Setting] = settings! {
    "default_model": Kind::Text,
    "agents_dir": Kind::Paths,
    "skills_dir": Kind::Paths,
    "log_payloads": Kind::Flag,
    "model_aliases": Kind::TextTable,

    "models.*.wire": Kind::Word(&["openai", "anthropic"]),
    "models.*.base_url": Kind::Url,
    "models.*.api_key_env": Kind::Text,
    "models.*.api_key_file": Kind::Path,
    "models.*.model": Kind::Text,
    "models.*.max_tokens": at_least(1),
    "models.*.max_tokens_field": Kind::Word(&["max_tokens", "max_completion_tokens"]),
    "models.*.temperature": Kind::Number { least: 0.0, most: 2.0 },
    "models.*.parameters": Kind::Table,
    "models.*.headers": Kind::TextTable,
    "models.*.context_window": at_least(1000),
    "models.*.prices.input": PRICE,
    "models.*.prices.output": PRICE,
    "models.*.prices.cache_read": PRICE,
    "models.*.prices.cache_write": PRICE,
    "models.*.max_concurrency": at_least(1),
    "models.*.idle_timeout_s": Kind::Positive,
    "models.*.timeout_s": Kind::Positive,

    "agents.*.description": Kind::Text,
    "agents.*.system_prompt": Kind::Text,
    "agents.*.system_prompt_file": Kind::Path,
    "agents.*.tools": Kind::Texts,
    "agents.*.model": Kind::Text,
    "agents.*.max_turns": at_least(1),
    "agents.*.summary_prompt": Kind::Text,
    "agents.*.timeout_s": Kind::Positive,
    "agents.*.max_input_tokens": Kind::Whole { least: 0, most: i64::MAX },
    "agents.*.max_output_tokens": Kind::Whole { least: 0, most: i64::MAX },
    "agents.*.max_cost_usd": Kind::Number { least: 0.0, most: 1e9 },
    "agents.*.on_worker_loss": Kind::Word(&["resume", "fail"]),
    "agents.*.may_delegate": Kind::Flag,
    "agents.*.skills": Kind::Texts,
    "agents.*.inheritance.enabled": Kind::Flag,
    "agents.*.inheritance.inherit_system_prompt": Kind::Flag,
    "agents.*.inheritance.inherit_tools": Kind::Texts,
    "agents.*.inheritance.inherit_permissions": Kind::Flag,
    "agents.*.inheritance.tool_conflict_policy": Kind::Word(&["skip", "error", "override"]),
    "agents.*.inheritance.missing_skill_policy": Kind::Word(&["warn", "error"]),

    "skills.*.description": Kind::Text,
    "skills.*.instructions": Kind::Text,
    "skills.*.tools": Kind::Texts,

    "free_form.enabled": Kind::Flag,
    "free_form.system_prompt": Kind::Text,
    "free_form.tools": Kind::Texts,
    "free_form.skills": Kind::Texts,
    "free_form.max_turns": at_least(1),

    "tools.files.root": Kind::Path,
    "tools.files.max_bytes": at_least(1),

    "tools.fetch.enabled": Kind::Flag,
    "tools.fetch.max_bytes": at_least(1),
    "tools.fetch.timeout_s": SECONDS,
    "tools.fetch.allow_private": Kind::Flag,

    "tools.http.*.description": Kind::Text,
    "tools.http.*.url": Kind::Url,
    "tools.http.*.input_schema": Kind::Table,
    "tools.http.*.replay": Kind::Word(&["safe", "unsafe"]),
    "tools.http.*.allow_private": Kind::Flag,
    "tools.http.*.headers": Kind::SecretTable,
    "tools.http.*.timeout_s": SECONDS,
    "tools.http.*.max_bytes": at_least(1),

    "tools.mcp.*.command": Kind::Texts,
    "tools.mcp.*.env": Kind::SecretTable,
    "tools.mcp.*.cwd": Kind::Path,
    "tools.mcp.*.url": Kind::Url,
    "tools.mcp.*.headers": Kind::SecretTable,
    "tools.mcp.*.replay": Kind::Word(&["safe", "unsafe"]),
    "tools.mcp.*.timeout_s": SECONDS,
    "tools.mcp.*.start_timeout_s": SECONDS,
    "tools.mcp.*.max_bytes": at_least(1),
    "tools.mcp.*.allow": Kind::Texts,
    "tools.mcp.*.deny": Kind::Texts,

    "limits.cap": Kind::Whole { least: 0, most: 10_000 },
    "limits.session_max_active": at_least(1),
    "limits.session_max_queued": at_least(1),
    "limits.max_turns_ceiling": Kind::Whole { least: 1, most: 100 },
    "limits.max_depth": Kind::Whole { least: 1, most: 10 },
    "limits.define_may_delegate": Kind::Flag,
    "limits.task_timeout_s": Kind::Positive,
    "limits.task_timeout_max_s": Kind::Positive,

    "server.listen": Kind::Text,
    "server.max_body_bytes": Kind::Whole { least: 1024, most: 64 << 20 },
    "server.tenant_max_sessions": at_least(1),
    "server.tenant_max_active": at_least(1),
    "server.tenant_max_queued": at_least(1),
    "server.tenant_requests_per_s": Kind::Positive,
    "server.session_status_per_s": Kind::Positive,

    "webhooks.allow_private": Kind::Flag,
    "webhooks.timeout_s": Kind::Number { least: 0.1, most: 300.0 },
    "webhooks.max_tries": Kind::Whole { least: 1, most: 100 },
    "webhooks.retry_s": Kind::Number { least: 0.01, most: 86_400.0 },
    "webhooks.retry_max_s": Kind::Number { least: 0.01, most: 604_800.0 },
    "dialects.longest_wait_s": Kind::Number { least: 0.1, most: 45.0 },
    "dialects.ecs.default_timeout": Kind::Positive,
    "dialects.ecs.max_background_concurrency": Kind::Whole { least: 0, most: 10_000 },
    "dialects.ecs.inheritance.enabled": Kind::Flag,
    "dialects.ecs.inheritance.inherit_system_prompt": Kind::Flag,
    "dialects.ecs.inheritance.inherit_tools": Kind::Texts,
    "dialects.ecs.inheritance.inherit_permissions": Kind::Flag,
    "dialects.ecs.inheritance.tool_conflict_policy": Kind::Word(&["skip", "error", "override"]),
    "dialects.ecs.inheritance.missing_skill_policy": Kind::Word(&["warn", "error"]),
    "dialects.xzatoma.max_depth": Kind::Whole { least: 1, most: 10 },
    "dialects.xzatoma.default_max_turns": Kind::Whole { least: 1, most: 100 },
    "dialects.xzatoma.output_max_size": at_least(1024),
    "dialects.xzatoma.telemetry_enabled": Kind::Flag,
    "dialects.xzatoma.persistence_enabled": Kind::Flag,
    "dialects.xzatoma.max_executions": at_least(1),
    "dialects.xzatoma.max_total_tokens": Kind::Whole { least: 1, most: i64::MAX },
    "dialects.xzatoma.max_total_time": Kind::Positive,

    "lease.seconds": Kind::Whole { least: 2, most: 3600 },
};

/// The kind of the setting of this name, `*` and all.
pub fn kind_of(pattern: &str) -> Option<Kind> {
    SETTINGS.iter().find(|setting| setting.name == pattern).map(|setting| setting.kind)
}

/// What may stand in the table of this name, `*` for any name; the empty name is the whole file.
pub fn names_in(pattern: &str) -> Vec<&'static str> {
    let mut names: Vec<&str> = SETTINGS
        .iter()
        .filter_map(|setting| match pattern {
            "" => Some(setting.name),
            _ => setting.name.strip_prefix(pattern)?.strip_prefix('.'),
        })
        .filter_map(|rest| rest.split('.').next())
        .collect();
    names.dedup();
    names
}

/// A dotted name one level down, as TOML would have it written.
pub fn dotted(table: &str, name: &str) -> String {
    let bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let name = if bare { name.to_owned() } else { format!("{name:?}") };
    if table.is_empty() { name } else { format!("{table}.{name}") }
}
