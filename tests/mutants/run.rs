//! The run of `make mutants`: each mutant's tests against it, each test in a process of its own.
//! Exit code 0: all were caught; 1: one survived; 2: the tests could not run.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio, exit};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use futures::{StreamExt, stream};

use super::{Mutant, all, named};
use crate::support::database;

/// A broken guard may make a test hang, which counts as a failure.
const PATIENCE: Duration = Duration::from_secs(60);
/// The random driver runs for a fixed time, then checks.
const PATIENCE_WITH_DRIVER: Duration = Duration::from_secs(200);

const STORE: &str = "store::";
const DRIVER: &str = "store::driver::";
/// These kill what they start, or test what no mutant changes.
const LEFT_OUT: [&str; 4] =
    ["cli::operator_commands::", "cli::private_postgres::", "faults::", "mutants::"];
/// The first test of each mutant, because it makes the database that the others copy.
const MAKES_THE_DATABASE: &str = "mutants::a_new_database_is_sound";
/// The class of SQLSTATE for statements that PostgreSQL does not understand: the mutant's SQL is
/// wrong, and the test would fail whatever the guard is for.
const WRONG_SQL: &str = "code: \"42";

enum Verdict {
    /// The tests that failed.
    Caught(Vec<String>),
    Survived,
    /// Why the tests could not run.
    Broken(String),
}

/// The paths of the tests of this binary, as the test harness lists them.
pub async fn tests() -> Vec<String> {
    let ignored = list(&["--ignored"]).await;
    list(&[]).await.into_iter().filter(|test| !ignored.contains(test)).collect()
}

async fn list(arguments: &[&str]) -> Vec<String> {
    let mut command = tokio::process::Command::new(env::current_exe().unwrap());
    command.args(["--list", "--format", "terse"]).args(arguments);
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// Runs a test in a process of its own. An error is what it printed.
async fn run(test: &str, mutant: Option<&Mutant>) -> Result<(), String> {
    let output = tempfile::NamedTempFile::new().unwrap();
    let stdout = output.reopen().unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", test])
        .env("ADJUTANT_TEST_SERVER", database::server())
        .env_remove("ADJUTANT_TEST_MUTANT")
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stderr(stdout.try_clone().unwrap())
        .stdout(stdout)
        .process_group(0);
    if env::var_os("ADJUTANT_DRIVER_SECONDS").is_none() {
        command.env("ADJUTANT_DRIVER_SECONDS", "30");
    }
    if let Some(mutant) = mutant {
        command.env("ADJUTANT_TEST_MUTANT", mutant.name);
    }
    let mut child = tokio::process::Command::from(command).spawn().unwrap();
    let group = child.id().unwrap();
    let patience = if test.starts_with(DRIVER) { PATIENCE_WITH_DRIVER } else { PATIENCE };
    let ended = tokio::time::timeout(patience, child.wait()).await;
    // The processes that the test has started, too: there may be none left, which is no error.
    let kill = format!("kill -KILL -- -{group} 2>/dev/null || true");
    Command::new("sh").arg("-c").arg(kill).status().unwrap();
    let text = fs::read_to_string(output.path()).unwrap();
    match ended {
        Ok(status) if status.as_ref().unwrap().success() => {
            assert!(text.contains("1 passed"), "{test} did not run:\n{text}");
            Ok(())
        }
        Ok(_) => Err(text),
        Err(_) => Err(format!("{text}\ntimed out after {patience:?}")),
    }
}

/// The tests that fail, each with what it printed.
async fn failures(
    tests: &[String],
    mutant: Option<&Mutant>,
    at_a_time: usize,
) -> Vec<(String, String)> {
    let runs = tests.iter().map(async |test| Some((test.clone(), run(test, mutant).await.err()?)));
    stream::iter(runs)
        .buffer_unordered(at_a_time)
        .filter_map(async |failure| failure)
        .collect()
        .await
}

/// All tests, those first that are fast and catch most.
fn stages(tests: &[String]) -> Vec<Vec<String>> {
    let of = |stage: &dyn Fn(&str) -> bool| {
        let runs =
            |test: &&String| stage(test) && !LEFT_OUT.iter().any(|one| test.starts_with(one));
        tests.iter().filter(runs).cloned().collect::<Vec<_>>()
    };
    vec![
        of(&|test| test.starts_with(STORE) && !test.starts_with(DRIVER)),
        of(&|test| !test.starts_with(STORE)),
        of(&|test| test.starts_with(DRIVER)),
    ]
}

/// Runs tests against a mutant, stage by stage, until some fail.
async fn judge(mutant: &Mutant, stages: &[Vec<String>], at_a_time: usize) -> Verdict {
    if let Err(output) = run(MAKES_THE_DATABASE, Some(mutant)).await {
        return Verdict::Broken(output);
    }
    for stage in stages {
        let mut caught_by = Vec::new();
        for (test, output) in failures(stage, Some(mutant), at_a_time).await {
            if output.contains(WRONG_SQL) {
                return Verdict::Broken(format!("{test}:\n{output}"));
            }
            if is_certain(&test, mutant).await {
                caught_by.push(test);
            }
        }
        // If the server has gone away, a failure says nothing about the mutant.
        if let Err(output) = run(MAKES_THE_DATABASE, Some(mutant)).await {
            return Verdict::Broken(output);
        }
        if !caught_by.is_empty() {
            return Verdict::Caught(caught_by);
        }
    }
    Verdict::Survived
}

/// Whether the mutant is why the test failed. A test that starts processes may fail on a loaded
/// machine, so it has to fail again. A test that the run did not try without the mutant has to pass
/// without it.
async fn is_certain(test: &str, mutant: &Mutant) -> bool {
    (test.starts_with(STORE) || run(test, Some(mutant)).await.is_err())
        && (mutant.caught_by.contains(&test) || run(test, None).await.is_ok())
}

/// The tests that the mutants name pass without any mutant, else their failures say nothing.
async fn check_named_tests(mutants: &[&Mutant], at_a_time: usize) {
    let named: BTreeSet<&str> =
        mutants.iter().flat_map(|mutant| mutant.caught_by).copied().collect();
    let named: Vec<String> = named.into_iter().map(str::to_owned).collect();
    let failed = failures(&named, None, at_a_time).await;
    let again: Vec<String> = failed.into_iter().map(|(test, _)| test).collect();
    let failed = failures(&again, None, 1).await;
    for (test, output) in &failed {
        println!("{test} fails without any mutant:\n{output}");
    }
    if !failed.is_empty() {
        exit(2);
    }
    println!("{} tests pass without a mutant", named.len());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes minutes: make mutants"]
async fn every_mutant_is_caught() {
    let start = Instant::now();
    let arguments = env::var("ADJUTANT_TEST_MUTANTS").unwrap_or_default();
    let (flags, names): (Vec<&str>, Vec<&str>) =
        arguments.split_whitespace().partition(|word| word.starts_with("--"));
    let is_all = match flags[..] {
        [] => false,
        ["--all"] => true,
        _ => panic!("there is one flag, --all: {arguments}"),
    };
    let mutants: Vec<&Mutant> =
        if names.is_empty() { all().collect() } else { names.into_iter().map(named).collect() };
    let cores = thread::available_parallelism().map_or(2, NonZero::get);
    // Starts the server, if it is not there, before tests ask for it.
    database::server();
    if !is_all {
        check_named_tests(&mutants, 2 * cores).await;
    }

    let everything = stages(&tests().await);
    let verdicts = mutants.iter().map(async |mutant| {
        let start = Instant::now();
        let verdict = if is_all || mutant.caught_by.is_empty() {
            judge(mutant, &everything, 2 * cores).await
        } else {
            let named: Vec<_> =
                mutant.caught_by.iter().map(|test| vec![(*test).to_owned()]).collect();
            judge(mutant, &named, 1).await
        };
        report(mutant, &verdict, start.elapsed());
        verdict
    });
    let verdicts: Vec<Verdict> = stream::iter(verdicts).buffer_unordered(cores).collect().await;

    let count = |is: fn(&Verdict) -> bool| verdicts.iter().filter(|verdict| is(verdict)).count();
    let survived = count(|verdict| matches!(verdict, Verdict::Survived));
    let broken = count(|verdict| matches!(verdict, Verdict::Broken(_)));
    println!(
        "{} mutants in {} s: {} caught, {survived} survived, {broken} could not run",
        verdicts.len(),
        start.elapsed().as_secs(),
        verdicts.len() - survived - broken,
    );
    exit(match (broken, survived) {
        (0, 0) => 0,
        (0, _) => 1,
        _ => 2,
    })
}

fn report(mutant: &Mutant, verdict: &Verdict, took: Duration) {
    let (name, seconds) = (mutant.name, took.as_secs());
    match verdict {
        Verdict::Caught(tests) => println!("caught {name}: {} ({seconds} s)", tests.join(" ")),
        Verdict::Survived => println!("SURVIVED {name} ({seconds} s)"),
        Verdict::Broken(output) => println!("COULD NOT RUN {name}: {output}"),
    }
}
