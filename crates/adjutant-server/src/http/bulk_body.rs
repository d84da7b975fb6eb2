//! The body of a request that cancels or retries all tasks that match a filter.

use std::fmt::Display;
use std::str::FromStr;

use adjutant_agent::{FailureKind, Fields, Refusal, TaskState};
use adjutant_store::{Cursor, TaskFilter};
use chrono::{DateTime, Utc};
use serde_json::Value;
use utoipa::ToSchema;

/// Which tasks a request is about, and where it goes on
#[derive(ToSchema)]
#[schema(example = json!({"filter": {"state": "queued", "agent": "researcher"}, "dry_run": true}))]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct TaskSelection {
    /// At least one field is required, unless `all` is true.
    #[schema(value_type = Option<TaskFilterBody>)]
    filter: Option<TaskFilterBody>,
    /// Every task of the tenant, without a filter.
    all: Option<bool>,
    /// Only count the tasks that match, up to about 10,000. Nothing changes.
    dry_run: Option<bool>,
    /// `next_cursor` of the batch before.
    #[schema(pattern = "^[0-9a-f]{32}$")]
    cursor: Option<String>,
}

/// The fields that tasks must have, as in the list of tasks
#[derive(ToSchema)]
#[schema(as = TaskFilter)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct TaskFilterBody {
    #[schema(value_type = Option<String>)]
    state: Option<TaskState>,
    /// The kind of the failure.
    #[schema(value_type = Option<String>)]
    failure: Option<FailureKind>,
    #[schema(min_length = 1, pattern = "^[^\\u0000]*$")]
    agent: Option<String>,
    #[schema(min_length = 1, pattern = "^[^\\u0000]*$")]
    session: Option<String>,
    #[schema(min_length = 1, pattern = "^[^\\u0000]*$")]
    model: Option<String>,
    /// Created at this time or later.
    since: Option<DateTime<Utc>>,
    /// Created before this time.
    until: Option<DateTime<Utc>>,
    /// A part of the id, the label or the agent's name.
    #[schema(min_length = 1, pattern = "^[^\\u0000]*$")]
    q: Option<String>,
}

/// A parsed request.
#[derive(Debug, PartialEq)]
pub(super) struct Bulk {
    pub(super) filter: TaskFilter,
    pub(super) dry_run: bool,
    pub(super) after: Option<Cursor>,
}

impl Bulk {
    pub(super) fn parse(body: &Value, tenant: &str) -> Result<Self, Refusal> {
        let mut fields =
            Fields::of(body).map_err(|_| Refusal::invalid("body", "must be an object"))?;
        let filter = match fields.take("filter") {
            Some(filter) => parse_filter(filter, tenant)?,
            None => TaskFilter { tenant: tenant.to_owned(), ..TaskFilter::default() },
        };
        let all = fields.boolean("all")?.unwrap_or(false);
        let dry_run = fields.boolean("dry_run")?.unwrap_or(false);
        let after = fields.optional_text("cursor")?.map(str::parse::<Cursor>).transpose()?;
        fields.end()?;
        let is_empty = filter == TaskFilter { tenant: tenant.to_owned(), ..TaskFilter::default() };
        match (all, is_empty) {
            (false, true) => Err(Refusal::invalid(
                "filter",
                "has no field, so that every task would match; say \"all\": true if you mean that",
            )),
            (true, false) => {
                Err(Refusal::invalid("all", "means every task, and cannot be used with a filter"))
            }
            (false, false) | (true, true) => Ok(Self { filter, dry_run, after }),
        }
    }
}

fn parse_filter(value: &Value, tenant: &str) -> Result<TaskFilter, Refusal> {
    let within =
        |refusal: Refusal| Refusal { message: format!("filter.{}", refusal.message), ..refusal };
    let mut fields =
        Fields::of(value).map_err(|_| Refusal::invalid("filter", "must be an object"))?;
    let filter = take_filter(&mut fields, tenant).map_err(within)?;
    fields.end().map_err(within)?;
    Ok(filter)
}

fn take_filter(fields: &mut Fields<'_>, tenant: &str) -> Result<TaskFilter, Refusal> {
    let time = "a time as 2026-01-31T12:00:00Z";
    Ok(TaskFilter {
        tenant: tenant.to_owned(),
        state: word(fields, "state", TaskState::ALL)?,
        failure: word(fields, "failure", FailureKind::ALL)?,
        agent: filled(fields, "agent")?.map(str::to_owned),
        session: filled(fields, "session")?.map(str::to_owned),
        model: filled(fields, "model")?.map(str::to_owned),
        since: parsed(fields, "since", time)?,
        until: parsed(fields, "until", time)?,
        q: filled(fields, "q")?.map(str::to_owned),
    })
}

fn filled<'a>(fields: &mut Fields<'a>, name: &str) -> Result<Option<&'a str>, Refusal> {
    match fields.optional_text(name)? {
        Some("") => Err(Refusal::invalid(name, "must not be empty")),
        text => Ok(text),
    }
}

fn parsed<T: FromStr>(
    fields: &mut Fields<'_>,
    name: &str,
    expected: &str,
) -> Result<Option<T>, Refusal> {
    let wrong = |_| Refusal::invalid(name, format_args!("must be {expected}"));
    filled(fields, name)?.map(|text| text.parse().map_err(wrong)).transpose()
}

fn word<T: FromStr + Display>(
    fields: &mut Fields<'_>,
    name: &str,
    words: &[T],
) -> Result<Option<T>, Refusal> {
    let words: Vec<String> = words.iter().map(T::to_string).collect();
    parsed(fields, name, &format!("one of {}", words.join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(body: &Value) -> Result<Bulk, String> {
        Bulk::parse(body, "t").map_err(|refusal| refusal.message)
    }

    #[test]
    fn every_field_of_the_filter_is_parsed() {
        let cursor = "0198c0de000070008000000000000001";
        let body = json!({"dry_run": true, "cursor": cursor, "filter": {
            "state": "failed", "failure": "timeout", "agent": "a", "session": "s", "model": "m",
            "since": "2026-01-31T12:00:00Z", "until": "2026-02-01T00:00:00+01:00", "q": "x",
        }});
        let filter = TaskFilter {
            tenant: "t".to_owned(),
            state: Some(TaskState::Failed),
            failure: Some(FailureKind::Timeout),
            agent: Some("a".to_owned()),
            session: Some("s".to_owned()),
            model: Some("m".to_owned()),
            since: "2026-01-31T12:00:00Z".parse().ok(),
            until: "2026-01-31T23:00:00Z".parse().ok(),
            q: Some("x".to_owned()),
        };
        assert_eq!(parse(&body), Ok(Bulk { filter, dry_run: true, after: cursor.parse().ok() }));
        let all = parse(&json!({"all": true, "filter": {"agent": null}})).unwrap();
        assert_eq!(
            all.filter,
            TaskFilter { tenant: "t".to_owned(), ..TaskFilter::default() },
            "the tenant is that of the caller"
        );
    }

    #[test]
    fn a_wrong_field_is_refused_by_name() {
        for (body, name) in [
            (json!([]), "body"),
            (json!({}), "filter"),
            (json!({"filter": {}}), "filter"),
            (json!({"filter": {"agent": null}}), "filter"),
            (json!({"filter": {}, "all": false}), "filter"),
            (json!({"filter": "queued"}), "filter"),
            (json!({"filter": {"state": "done"}}), "filter.state"),
            (json!({"filter": {"state": 1}}), "filter.state"),
            (json!({"filter": {"failure": "x"}}), "filter.failure"),
            (json!({"filter": {"agent": ""}}), "filter.agent"),
            (json!({"filter": {"session": "a\u{0}"}}), "filter.session"),
            (json!({"filter": {"since": "yesterday"}}), "filter.since"),
            (json!({"filter": {"until": "2026-01-31"}}), "filter.until"),
            (json!({"filter": {"colour": "red"}}), "filter.colour"),
            (json!({"filter": {"tenant": "other"}}), "filter.tenant"),
            (json!({"filter": {"agent": "a"}, "all": true}), "all"),
            (json!({"all": "yes"}), "all"),
            (json!({"all": true, "dry_run": 1}), "dry_run"),
            (json!({"all": true, "cursor": "x"}), "cursor"),
            (json!({"all": true, "dryrun": true}), "dryrun"),
            (json!({"state": "queued", "filter": {"agent": "a"}}), "state"),
        ] {
            let message = parse(&body).unwrap_err();
            assert!(message.starts_with(&format!("{name}: ")), "{body}: {message}");
        }
    }
}
