use crate::{Result, Store};

/// A session in a list of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionEntry {
    pub name: String,
    pub archived: bool,
    /// Of its shared context.
    pub key_count: i64,
    pub total_size_tokens: i64,
}

impl Store {
    /// A tenant's sessions by name, at most `limit` of those after the name `after`.
    pub async fn sessions(&self, tenant: &str, after: Option<&str>, limit: i64) -> Result<Vec<SessionEntry>> {
        let sessions = self
            .call(async |connection| {
                sqlx::query_as!(
                    SessionEntry,
                    r#"select s.name, s.archived_at is not null as "archived!", context.key_count as "key_count!",
                        context.total_size_tokens as "total_size_tokens!"
                       from (
                           select * from session where tenant = $1 and name > coalesce($2, '') order by name limit $3
                       ) s
                       cross join lateral (
                           select count(*) as key_count, coalesce(sum(e.tokens), 0) as total_size_tokens
                           from context_entry e
                           where e.session = s.id
                       ) context
                       order by s.name"#,
                    tenant,
                    after,
                    limit
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        Ok(sessions)
    }
}
