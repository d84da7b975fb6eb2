//! The search of the history, page after page.

use chrono::{DateTime, Utc};
use clap::Args;
use serde_json::{Map, Value};

use crate::client::Client;
use crate::moment::{as_rfc3339, parse_time};
use crate::output::Spinner;
use crate::signals::Signals;
use crate::table::{items, text};

/// The most tasks that the server returns in one page.
const MAX_PAGE: usize = 500;

#[derive(Debug, Args)]
#[command(next_help_heading = "Filters")]
pub(super) struct Filter {
    /// Only tasks in this state
    #[arg(long, value_name = "STATE", value_parser = ["queued", "running", "waiting", "completed", "failed", "cancelled"])]
    state: Option<String>,

    /// Only tasks that failed for this reason
    #[arg(long, value_name = "KIND", value_parser = ["max_turns", "timeout", "budget", "model", "tool", "empty_result", "lost", "dependency", "internal"])]
    failure: Option<String>,

    /// Only tasks of this agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,

    /// Only tasks of this session [default: all]
    #[arg(long, short, value_name = "SESSION")]
    pub(super) session: Option<String>,

    /// Only tasks with this model
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,

    /// Spawned at this time or later: 2h, 3d, 2026-07-01, 2026-07-01T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<DateTime<Utc>>,

    /// Spawned before this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    until: Option<DateTime<Utc>>,

    /// Only tasks with this text in the id, the label or the agent's name
    #[arg(long, short, value_name = "TEXT")]
    q: Option<String>,
}

/// Tasks of one or more pages of the server.
pub(super) struct TaskPage {
    pub(super) tasks: Vec<Value>,
    pub(super) next_cursor: Option<String>,
    /// How far back was searched; empty if everything was.
    pub(super) searched_until: String,
    /// The signal that stopped the search.
    pub(super) stopped_by: Option<&'static str>,
}

/// Requests page after page until there are so many tasks, or the end is reached: for a rare match
/// pages may be short or empty. A signal ends the search with what it has found.
pub(super) async fn find(
    client: &Client,
    mut query: Vec<(&str, String)>,
    max_tasks: usize,
) -> anyhow::Result<TaskPage> {
    let (bar, mut signals) = (Spinner::start("searching")?, Signals::listen()?);
    let cursor = query.iter().find(|(name, _)| *name == "cursor").map(|(_, cursor)| cursor.clone());
    let mut found = TaskPage {
        tasks: Vec::new(),
        next_cursor: cursor,
        searched_until: String::new(),
        stopped_by: None,
    };
    loop {
        let mut page = query.clone();
        page.push(("limit", (max_tasks - found.tasks.len()).min(MAX_PAGE).to_string()));
        let answer = tokio::select! {
            answer = client.get(&["v1", "tasks"], page) => answer?.value,
            name = signals.next() => {
                found.stopped_by = Some(name);
                break;
            }
        };
        found.tasks.extend(items(&answer, "tasks").iter().cloned());
        found.searched_until = text(&answer, "searched_until");
        found.next_cursor = Some(text(&answer, "next_cursor")).filter(|next| !next.is_empty());
        match &found.next_cursor {
            Some(next) if found.tasks.len() < max_tasks => {
                query.retain(|(name, _)| *name != "cursor");
                query.push(("cursor", next.clone()));
                show(&bar, &found);
            }
            _ => break,
        }
    }
    bar.clear();
    Ok(found)
}

fn show(bar: &Spinner, found: &TaskPage) {
    bar.show(&format!("searched back to {}, {} found", found.searched_until, found.tasks.len()));
}

impl Filter {
    pub(super) fn query(&self) -> Vec<(&'static str, String)> {
        let all = [
            ("state", self.state.clone()),
            ("failure", self.failure.clone()),
            ("agent", self.agent.clone()),
            ("session", self.session.clone()),
            ("model", self.model.clone()),
            ("since", self.since.map(as_rfc3339)),
            ("until", self.until.map(as_rfc3339)),
            ("q", self.q.clone()),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// The fields of a request's body.
    pub(super) fn fields(&self) -> Map<String, Value> {
        let fields = self.query().into_iter();
        fields.map(|(name, value)| (name.to_owned(), Value::String(value))).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        filter: Filter,
    }

    #[test]
    fn every_filter_is_sent_under_its_name() {
        let line = "tasks --state failed --failure max_turns --agent a --session s --model m --since 2026-07-01 \
            --until 2026-07-02T00:00:00Z -q nightly";
        let query = Line::try_parse_from(line.split_whitespace()).unwrap().filter.query();
        let expected = [
            ("state", "failed"),
            ("failure", "max_turns"),
            ("agent", "a"),
            ("session", "s"),
            ("model", "m"),
            ("since", "2026-07-01T00:00:00.000Z"),
            ("until", "2026-07-02T00:00:00.000Z"),
            ("q", "nightly"),
        ];
        assert_eq!(query, expected.map(|(name, value)| (name, value.to_owned())));
        assert!(Line::try_parse_from(["tasks"]).unwrap().filter.query().is_empty());
    }
}
