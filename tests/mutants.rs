//! Guards, broken on purpose. `make mutants` runs the tests that each mutant names against it and
//! expects a failure (`run.rs`). The tests in this file run with all others.

mod agents;
mod audit;
mod budgets;
mod bulk;
mod cancels;
mod children;
mod claims;
mod deletions;
mod ends;
mod grants;
mod leases;
mod model_limits;
mod requirements;
mod run;
mod shared_context;
mod shares;
mod spawn;
mod storage_ends;
mod tenants;
mod usage;
mod waits;
mod webhooks;
mod why;

use std::collections::BTreeSet;

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::support::world::World;

#[derive(Hash)]
pub struct Mutant {
    pub name: &'static str,
    /// Paths of tests of this binary. Each fails against the mutant, every time; several are named
    /// only if each of them alone fails sometimes. Without any, `make mutants` runs all tests.
    caught_by: &'static [&'static str],
    /// Function, what it says, what the mutant says instead.
    edits: &'static [(&'static str, &'static str, &'static str)],
}

const BY_CONCEPT: &[&[Mutant]] = &[
    leases::MUTANTS,
    spawn::MUTANTS,
    children::MUTANTS,
    claims::MUTANTS,
    ends::MUTANTS,
    cancels::MUTANTS,
    bulk::MUTANTS,
    deletions::MUTANTS,
    waits::MUTANTS,
    agents::MUTANTS,
    shared_context::MUTANTS,
    shares::MUTANTS,
    tenants::MUTANTS,
    grants::MUTANTS,
    audit::MUTANTS,
    storage_ends::MUTANTS,
    usage::MUTANTS,
    budgets::MUTANTS,
    webhooks::MUTANTS,
    model_limits::MUTANTS,
    requirements::MUTANTS,
    why::MUTANTS,
];

fn all() -> impl Iterator<Item = &'static Mutant> {
    BY_CONCEPT.iter().copied().flatten()
}

fn named(name: &str) -> &'static Mutant {
    all()
        .find(|mutant| mutant.name == name)
        .unwrap_or_else(|| panic!("there is no mutant {name:?}"))
}

/// The mutant that this process runs its tests against.
pub fn chosen() -> Option<&'static Mutant> {
    std::env::var("ADJUTANT_TEST_MUTANT").ok().map(|name| named(&name))
}

impl Mutant {
    pub async fn apply(&self, connection: &mut PgConnection) {
        for (function, from, to) in self.edits {
            let definition: String = sqlx::query_scalar("select pg_get_functiondef($1::regproc)")
                .bind(function)
                .fetch_one(&mut *connection)
                .await
                .unwrap();
            assert!(definition.contains(from), "{}: {function} no longer says {from:?}", self.name);
            sqlx::raw_sql(AssertSqlSafe(definition.replace(from, to)))
                .execute(&mut *connection)
                .await
                .unwrap_or_else(|error| panic!("{}: {function}: {error}", self.name));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mutant_still_fits() {
    let world = World::new().await;
    let mut connection = PgConnection::connect(world.url()).await.unwrap();
    for mutant in all() {
        let mut undone = connection.begin().await.unwrap();
        mutant.apply(&mut undone).await;
        undone.rollback().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mutant_has_its_own_name_and_names_tests_that_exist() {
    let tests = run::tests().await;
    let mut names = BTreeSet::new();
    let mut wrong = Vec::new();
    for mutant in all() {
        if !names.insert(mutant.name) {
            wrong.push(format!("two mutants are named {}", mutant.name));
        }
        let missing = mutant.caught_by.iter().filter(|test| !tests.iter().any(|one| one == *test));
        wrong.extend(missing.map(|test| format!("{}: there is no test {test}", mutant.name)));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// `make mutants` runs this first against each mutant: a mutant whose database cannot be made is
/// not caught by the tests that fail for want of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_database_is_sound() {
    World::new().await.assert_sound().await;
}
