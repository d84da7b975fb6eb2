//! The server that all tests of a run share, and the databases on it, one for each test.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use adjutant_store::Store;
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use super::world::until;
use crate::mutants::{self, Mutant};

/// The URL of a new database with the schema.
pub async fn migrated() -> String {
    let mut server = connect().await;
    let template = template(&mut server).await;
    // The files are copied as they are: with fsync off this costs a tenth of writing a WAL record
    // for each page.
    create(&mut server, &format!("template {template} strategy file_copy")).await
}

/// The URL of a new, empty database.
pub async fn empty() -> String {
    create(&mut connect().await, "").await
}

async fn create(server: &mut PgConnection, options: &str) -> String {
    drop_left_behind(server).await;
    let name = format!("{}{}_{}", prefix(), std::process::id(), Uuid::now_v7().simple());
    execute(server, &format!("create database {name} {options}")).await;
    url_of(&name)
}

/// Drops databases whose test has ended, however it did. A database is 10 MB, and a run makes more
/// than a thousand.
async fn drop_left_behind(server: &mut PgConnection) {
    if !Path::new("/proc/self").exists() {
        return;
    }
    let names: Vec<String> =
        sqlx::query_scalar("select datname::text from pg_database where starts_with(datname, $1)")
            .bind(prefix())
            .fetch_all(&mut *server)
            .await
            .unwrap();
    let left = names.iter().filter(|name| {
        let process = name.strip_prefix(prefix()).and_then(|rest| rest.split('_').next());
        process.is_some_and(|process| !Path::new("/proc").join(process).exists())
    });
    for name in left.take(2) {
        let drop = format!("drop database if exists {name} with (force)");
        // Another test may be dropping it too, or a worker that survived its test connects again.
        let _ = sqlx::raw_sql(sqlx::AssertSqlSafe(drop)).execute(&mut *server).await;
    }
}

/// Begins the names of this run's databases. A server may be shared with tests on another machine
/// or in another container, whose process numbers mean nothing here.
fn prefix() -> &'static str {
    static PREFIX: OnceLock<String> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let mut digest = DefaultHasher::new();
        std::fs::read("/proc/sys/kernel/random/boot_id").ok().hash(&mut digest);
        std::fs::read_link("/proc/self/ns/pid").ok().hash(&mut digest);
        format!("test_{:016x}_", digest.finish())
    })
}

async fn connect() -> PgConnection {
    PgConnection::connect(server()).await.unwrap()
}

pub async fn execute(connection: &mut PgConnection, statement: &str) {
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(connection).await.unwrap();
}

/// The URL of the run's server, at its maintenance database. `make test` starts one for all tests;
/// a test that is run by itself starts its own.
pub fn server() -> &'static str {
    static SERVER: OnceLock<(String, Option<Child>)> = OnceLock::new();
    let (url, _) = SERVER.get_or_init(|| match std::env::var("ADJUTANT_TEST_SERVER") {
        Ok(url) => (url, None),
        Err(_) => {
            // When this process ends, the standard input of `cat` closes, and the server stops with
            // it.
            let mut server = Command::new(env!("CARGO_BIN_EXE_adjutant"))
                .args(["postgres", "--throwaway", "--", "sh", "-c", "echo $DATABASE_URL; exec cat"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut url = String::new();
            BufReader::new(server.stdout.take().unwrap()).read_line(&mut url).unwrap();
            (url.trim().to_owned(), Some(server))
        }
    });
    url
}

/// The URL of another database on the same server.
fn url_of(name: &str) -> String {
    let (before, query) =
        server().split_once('?').map_or((server(), ""), |(before, query)| (before, query));
    let host = before.rsplit_once('/').unwrap().0;
    if query.is_empty() { format!("{host}/{name}") } else { format!("{host}/{name}?{query}") }
}

/// A digest of the migrations and the mutant: a server that runs on after a change of them needs a
/// new template.
fn schema(mutant: Option<&Mutant>) -> u64 {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations");
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|ext| ext == "sql")).collect();
    files.sort();
    let mut digest = DefaultHasher::new();
    for file in files {
        std::fs::read(file).unwrap().hash(&mut digest);
    }
    mutant.hash(&mut digest);
    digest.finish()
}

/// The migrated database that the tests' databases are copied from. The first test creates it, with
/// the guard broken that `make mutants` has chosen.
async fn template(server: &mut PgConnection) -> String {
    let mutant = mutants::chosen();
    let name = format!("template_{:016x}", schema(mutant));
    execute(server, "select pg_advisory_lock(4242)").await;
    let there: bool =
        sqlx::query_scalar("select exists (select from pg_database where datname = $1)")
            .bind(&name)
            .fetch_one(&mut *server)
            .await
            .unwrap();
    if !there {
        // It is renamed when it is complete, so that a killed run leaves no incomplete template.
        execute(server, &format!("drop database if exists {name}_new with (force)")).await;
        execute(server, &format!("create database {name}_new")).await;
        Store::migrate(&url_of(&format!("{name}_new"))).await.unwrap();
        if let Some(mutant) = mutant {
            let mut inside = PgConnection::connect(&url_of(&format!("{name}_new"))).await.unwrap();
            mutant.apply(&mut inside).await;
            inside.close().await.unwrap();
        }
        until("the template is free", async || {
            let rename = format!("alter database {name}_new rename to {name}");
            sqlx::raw_sql(sqlx::AssertSqlSafe(rename)).execute(&mut *server).await.is_ok()
        })
        .await;
    }
    execute(server, "select pg_advisory_unlock(4242)").await;
    name
}
