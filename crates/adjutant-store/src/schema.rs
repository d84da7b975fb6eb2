use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Executor, PgPool};

use crate::store::connect;
use crate::{Error, Result, Store};

static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations");

/// Why a program and a database do not go together, and the command that mends it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SchemaMisfit {
    #[error("the database has no Adjutant schema yet; run `adjutant migrate`")]
    Empty,
    #[error("the database has tables of something else in it; give Adjutant a database of its own")]
    NotOurs,
    #[error("the database is PostgreSQL {0}; Adjutant needs version 15 or newer")]
    Server(String),
    #[error(
        "the database's schema is at {found}, and this program needs {needed}; run `adjutant migrate` with this program"
    )]
    TooOld { found: i64, needed: i64 },
    #[error(
        "the database's schema ({found}) no longer fits this program (made for {made_for}); install the release that migrated it, or a newer one"
    )]
    TooNew { found: i64, made_for: i64 },
    #[error(
        "the database's default_transaction_isolation is {0:?}, and Adjutant's steps need \"read committed\"; set it with: \
         alter database ... set default_transaction_isolation = 'read committed'"
    )]
    Isolation(String),
    #[error("migration {0} was interrupted; run `adjutant migrate` again")]
    Interrupted(i64),
    #[error(
        "migration {0} is in the database in another form; this program is not of the release that made the schema"
    )]
    Altered(i64),
    #[error("the migration failed: {0}")]
    Failed(String),
}

/// What a migration did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    pub from: i64,
    pub to: i64,
}

impl Store {
    /// Brings the database's schema up to this program's. Running it twice, or twice at once, is harmless.
    pub async fn migrate(url: &str) -> Result<Migrated> {
        // A migration takes as long as it takes, whatever the database allows others.
        let patient = PgPoolOptions::new().max_connections(2).after_connect(|connection, _| {
            Box::pin(async move { connection.execute("set statement_timeout = 0").await.map(drop) })
        });
        let pool = connect(url, patient).await?;
        let from = newest_applied(&pool).await?.unwrap_or(0);
        // A newer schema is left alone: during a rolling deploy the old release may still run its migrate step.
        if from <= made_for() {
            MIGRATIONS.run(&pool).await.map_err(misfit)?;
        }
        check(&pool).await?;
        let to = newest_applied(&pool).await?.unwrap_or(0);
        pool.close().await;
        Ok(Migrated { from, to })
    }

    /// Whether the database answers, and its schema is still one that this program fits.
    pub async fn fits(&self) -> Result<()> {
        check(&self.pool).await
    }
}

fn made_for() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0)
}

fn misfit(error: MigrateError) -> Error {
    if let MigrateError::VersionMismatch(version) = error {
        SchemaMisfit::Altered(version).into()
    } else if let MigrateError::Dirty(version) = error {
        SchemaMisfit::Interrupted(version).into()
    } else if let MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) = error {
        error.into()
    } else {
        SchemaMisfit::Failed(error.to_string()).into()
    }
}

/// Additive migrations fit older programs too, until one says otherwise in `schema_fit`.
pub(crate) async fn check(pool: &PgPool) -> Result<()> {
    let Some(found) = newest_applied(pool).await? else {
        return Err(SchemaMisfit::Empty.into());
    };
    let isolation = sqlx::query_scalar!(
        "select current_setting('default_transaction_isolation') as \"isolation!\""
    )
    .fetch_one(pool)
    .await?;
    if isolation != "read committed" {
        return Err(SchemaMisfit::Isolation(isolation).into());
    }
    let made_for = made_for();
    if found < made_for {
        return Err(SchemaMisfit::TooOld { found, needed: made_for }.into());
    }
    let oldest =
        sqlx::query_scalar!("select oldest_release from schema_fit").fetch_one(pool).await?;
    if made_for < oldest {
        return Err(SchemaMisfit::TooNew { found, made_for }.into());
    }
    Ok(())
}

/// The newest migration in the database; none when it is empty. Refuses a database that is no place for us.
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
        return Err(SchemaMisfit::Server(about.version).into());
    }
    if !about.migrated {
        return if about.occupied { Err(SchemaMisfit::NotOurs.into()) } else { Ok(None) };
    }
    // Not checked at compile time: this table is sqlx's, and comes with the first migration.
    let rows: Vec<(i64, String, bool)> = sqlx::query_as(
        "select version, description, success from _sqlx_migrations order by version",
    )
    .fetch_all(pool)
    .await?;
    let ours = MIGRATIONS.iter().next().map(|first| first.description.as_ref());
    if rows.first().is_some_and(|(_, description, _)| Some(description.as_str()) != ours) {
        return Err(SchemaMisfit::NotOurs.into());
    }
    if let Some((version, _, _)) = rows.iter().find(|(_, _, success)| !success) {
        return Err(SchemaMisfit::Interrupted(*version).into());
    }
    Ok(rows.last().map(|(version, _, _)| *version))
}
