use sqlx::PgPool;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::PgPoolOptions;

use crate::store::connect;
use crate::time_limits::TimeLimits;
use crate::{Error, Result, Store};

static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations");

/// Why a database cannot be used by this program, and how to repair it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SchemaMismatch {
    #[error("the database has no Adjutant schema yet; run `adjutant migrate`")]
    Empty,
    #[error("the database has tables of another program; give Adjutant a database of its own")]
    NotOurs,
    #[error("the database is PostgreSQL {0}; Adjutant needs version 15 or newer")]
    Server(String),
    #[error(
        "the database's schema is at {found}, and this program needs {needed}; run `adjutant migrate` with this program"
    )]
    TooOld { found: i64, needed: i64 },
    #[error(
        "the database's schema ({found}) is too new for this program (made for {made_for}); install the release that migrated it, or a newer one"
    )]
    TooNew { found: i64, made_for: i64 },
    #[error(
        "the database's default_transaction_isolation is {0:?}, and Adjutant's transactions need \"read committed\"; set it with: \
         alter database ... set default_transaction_isolation = 'read committed'"
    )]
    Isolation(String),
    #[error("migration {0} was interrupted; run `adjutant migrate` again")]
    Interrupted(i64),
    #[error(
        "migration {0} differs from the one that was applied to the database; use the release that created the schema"
    )]
    Altered(i64),
    #[error("the migration failed: {0}")]
    Failed(String),
}

/// The schema's version before and after a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    pub from: i64,
    pub to: i64,
}

impl Store {
    /// Migrates the database to this program's schema. Idempotent, and safe to run concurrently.
    pub async fn migrate(url: &str) -> Result<Migrated> {
        let options = PgPoolOptions::new().max_connections(2);
        let pool = connect(url, options, TimeLimits::MIGRATIONS).await?;
        let from = newest_applied(&pool).await?.unwrap_or(0);
        // A newer schema is kept: in a rolling deploy the old release may still run its migrate
        // step.
        if from <= made_for() {
            MIGRATIONS.run(&pool).await.map_err(migrate_error)?;
        }
        check(&pool).await?;
        let to = newest_applied(&pool).await?.unwrap_or(0);
        pool.close().await;
        Ok(Migrated { from, to })
    }

    /// Checks that the database answers and that its schema fits this program.
    pub async fn check_schema(&self) -> Result<()> {
        check(&self.pool).await
    }
}

fn made_for() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0)
}

fn migrate_error(error: MigrateError) -> Error {
    if let MigrateError::VersionMismatch(version) = error {
        SchemaMismatch::Altered(version).into()
    } else if let MigrateError::Dirty(version) = error {
        SchemaMismatch::Interrupted(version).into()
    } else if let MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) = error {
        error.into()
    } else {
        SchemaMismatch::Failed(error.to_string()).into()
    }
}

/// Migrations are additive, so older programs fit a newer schema, down to the release in
/// `schema_fit`.
pub(crate) async fn check(pool: &PgPool) -> Result<()> {
    let Some(found) = newest_applied(pool).await? else {
        return Err(SchemaMismatch::Empty.into());
    };
    let isolation = sqlx::query_scalar!(
        "select current_setting('default_transaction_isolation') as \"isolation!\""
    )
    .fetch_one(pool)
    .await?;
    if isolation != "read committed" {
        return Err(SchemaMismatch::Isolation(isolation).into());
    }
    let made_for = made_for();
    if found < made_for {
        return Err(SchemaMismatch::TooOld { found, needed: made_for }.into());
    }
    let oldest =
        sqlx::query_scalar!("select oldest_release from schema_fit").fetch_one(pool).await?;
    if made_for < oldest {
        return Err(SchemaMismatch::TooNew { found, made_for }.into());
    }
    Ok(())
}

/// The newest migration in the database; none if the database is empty. Fails for an unsupported
/// server and for a database of another program.
async fn newest_applied(pool: &PgPool) -> Result<Option<i64>> {
    let about = sqlx::query!(
        r#"select
            current_setting('server_version') as "version!",
            current_setting('server_version_num')::integer >= 150000 as "new_enough!",
            to_regclass('_sqlx_migrations') is not null as "migrated!",
            exists (
                select from pg_class
                where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p', 'v', 'm')
            ) as "occupied!""#
    )
    .fetch_one(pool)
    .await?;
    if !about.new_enough {
        return Err(SchemaMismatch::Server(about.version).into());
    }
    if !about.migrated {
        return if about.occupied { Err(SchemaMismatch::NotOurs.into()) } else { Ok(None) };
    }
    // Not checked at compile time: sqlx creates this table with the first migration.
    let rows: Vec<(i64, String, bool)> = sqlx::query_as(
        "select version, description, success from _sqlx_migrations order by version",
    )
    .fetch_all(pool)
    .await?;
    let ours = MIGRATIONS.iter().next().map(|first| first.description.as_ref());
    if rows.first().is_some_and(|(_, description, _)| Some(description.as_str()) != ours) {
        return Err(SchemaMismatch::NotOurs.into());
    }
    if let Some((version, _, _)) = rows.iter().find(|(_, _, success)| !success) {
        return Err(SchemaMismatch::Interrupted(*version).into());
    }
    Ok(rows.last().map(|(version, _, _)| *version))
}
