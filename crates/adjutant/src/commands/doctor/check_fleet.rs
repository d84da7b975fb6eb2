//! What is wrong with the fleet now: one finding for each kind of trouble, with the next command.

use std::time::Duration;

use adjutant_store::{HeldModel, LostWorker, PoolLoad, Result, Slots, Store, Trouble};
use chrono::{DateTime, Utc};

use super::finding::Finding;
use crate::moment::short_duration;
use crate::table::{count_noun, truncate};

/// A tenant with fewer unfinished tasks floods nobody.
const FLOOD: i64 = 100;

/// The most characters of an error.
const SHORT: usize = 120;

/// Reads the fleet and judges it.
pub async fn read(store: &Store) -> Result<Vec<Finding>> {
    let now = store.health().await?.clock;
    Ok(findings(&store.trouble().await?, store.slots().await?, now))
}

/// `now` is the database's clock.
fn findings(trouble: &Trouble, slots: Slots, now: DateTime<Utc>) -> Vec<Finding> {
    let ready = trouble.pools.iter().map(|pool| pool.ready).sum();
    let mut findings = vec![
        workers(trouble, now),
        places(&trouble.pools, slots),
        lost(&trouble.lost, now),
        cap(slots, ready),
    ];
    findings.push(pools(&trouble.pools));
    findings.extend(abilities(trouble));
    findings.extend(servers(trouble));
    findings.extend(models(trouble));
    findings.extend(calls(trouble));
    findings.extend(tools(trouble));
    findings.push(failures(trouble));
    findings.push(tenants(trouble));
    findings.extend(transactions(trouble));
    findings
}

fn workers(trouble: &Trouble, now: DateTime<Utc>) -> Finding {
    let alive: i64 = trouble.pools.iter().map(|pool| pool.workers).sum();
    if alive == 0 {
        let last = trouble.last_heard.as_ref().map_or_else(String::new, |worker| {
            format!(
                "; the last one, {}, was heard {} ago",
                worker.name,
                since(worker.heard_at, now)
            )
        });
        return Finding::wrong(
            "workers",
            format!("no worker is alive, so tasks do not start{last}"),
            "start `adjutant work` or `adjutant up`",
        );
    }
    Finding::ok("workers", format!("{alive} alive"))
}

fn places(pools: &[PoolLoad], slots: Slots) -> Finding {
    let free = slots.cap - slots.used;
    let full = |pool: &&PoolLoad| pool.workers > 0 && pool.busy >= pool.places && pool.ready > 0;
    match pools.iter().find(full) {
        Some(pool) if free > 0 => Finding::warning(
            "places",
            format!(
                "all {} places of the workers of pool {} are in use while {} free, and {}",
                pool.places,
                pool.name,
                if free == 1 { "1 slot is".to_owned() } else { format!("{free} slots are") },
                waits(pool.ready),
            ),
            format!(
                "add a worker with `adjutant work --pool {}`, or raise its --concurrency",
                pool.name
            ),
        ),
        Some(_) | None => Finding::ok("places", "no task waits for a place of a worker"),
    }
}

fn lost(lost: &[LostWorker], now: DateTime<Utc>) -> Finding {
    let Some(worker) = lost.first() else {
        return Finding::ok("leases", "no lost worker has tasks");
    };
    let others = match lost.len() - 1 {
        0 => String::new(),
        others => format!("; {others} more like it"),
    };
    let (name, heard) = (&worker.name, since(worker.heard_at, now));
    match worker.until {
        Some(until) => Finding::warning(
            "leases",
            format!(
                "worker {name} was last heard {heard} ago and holds {}; {}{others}",
                tasks(worker.tasks),
                if until > now {
                    format!("its leases end at {}", until.format("%H:%M:%S UTC"))
                } else {
                    "its leases have ended".to_owned()
                },
            ),
            "other workers take its tasks over then; without one, start `adjutant work`",
        ),
        None => Finding::warning(
            "leases",
            format!(
                "worker {name} died without stopping, {heard} ago; its tasks were taken over{others}"
            ),
            "look for the reason in its log, and start it again",
        ),
    }
}

fn cap(slots: Slots, ready: i64) -> Finding {
    match (slots.cap, slots.used) {
        (0, _) => Finding::wrong("cap", "0, so no task starts", "`adjutant limits --cap 5`"),
        (cap, used) if used >= cap && ready > 0 => Finding::warning(
            "cap",
            format!("all {cap} slots are in use, and {}", waits(ready)),
            "raise it with `adjutant limits --cap N`, if the workers and models have capacity",
        ),
        (cap, used) => Finding::ok("cap", format!("{used} of {cap} slots are in use")),
    }
}

fn pools(pools: &[PoolLoad]) -> Finding {
    let unserved = pools.iter().filter(|pool| pool.ready > 0 && pool.workers == 0);
    let unserved: Vec<&str> = unserved.map(|pool| pool.name.as_str()).collect();
    if unserved.is_empty() {
        return Finding::ok("pools", "every pool with queued tasks has a worker");
    }
    Finding::warning(
        "pools",
        format!("no worker serves {}, where tasks are queued", unserved.join(", ")),
        "start `adjutant work --pool NAME`, or cancel the tasks",
    )
}

fn abilities(trouble: &Trouble) -> Vec<Finding> {
    if trouble.unable.is_empty() {
        return vec![Finding::ok("abilities", "workers have the models and tools of queued tasks")];
    }
    let missing = trouble.unable.iter().map(|unable| {
        Finding::warning(
            "abilities",
            format!("{}, and {}", unable.text, waits(unable.tasks)),
            "start a worker whose config has it, or correct the agent; `adjutant tasks` has the tasks",
        )
    });
    missing.collect()
}

fn servers(trouble: &Trouble) -> Vec<Finding> {
    if trouble.servers.is_empty() {
        return vec![Finding::ok("servers", "no worker lacks an MCP server")];
    }
    let down = trouble.servers.iter().map(|down| {
        let workers = count_noun(u64::try_from(down.workers).unwrap_or(0), "worker");
        Finding::warning(
            "servers",
            format!("MCP server {} is not connected to {workers}: {}", down.server, down.reason),
            "`adjutant config check --connect` starts it and shows its errors",
        )
    });
    down.collect()
}

fn models(trouble: &Trouble) -> Vec<Finding> {
    if trouble.gates.is_empty() {
        return vec![Finding::ok("gates", "no model is held back")];
    }
    let closed = |gate: &HeldModel| {
        let error = gate.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        let (model, waiting) = (&gate.model, waits(gate.tasks));
        if gate.is_circuit {
            let found = format!(
                "calls of model {model} are held back until one of them succeeds, and {waiting}{error}"
            );
            let advice = "check its API key where workers start; one call is tried each minute";
            return Finding::wrong("gates", found, advice);
        }
        let until = gate.until.format("%H:%M:%S UTC");
        let found =
            format!("calls of model {model} are held back until {until}, and {waiting}{error}");
        Finding::warning("gates", found, "calls go on by themselves then; a fallback model helps")
    };
    trouble.gates.iter().map(closed).collect()
}

fn calls(trouble: &Trouble) -> Vec<Finding> {
    if trouble.retried.is_empty() {
        return vec![Finding::ok("calls", "no model call is tried again")];
    }
    let retried = trouble.retried.iter().map(|calls| {
        let (model, host, error) = (&calls.model, &calls.host, &calls.error);
        Finding::warning(
            "calls",
            format!("calls of model {model} at {host} fail: {error}; {}", retrying(calls.tasks)),
            "see the provider's status; `adjutant watch` shows the tries",
        )
    });
    retried.collect()
}

fn retrying(number: i64) -> String {
    if number == 1 { "1 task tries again".to_owned() } else { format!("{number} tasks try again") }
}

fn tools(trouble: &Trouble) -> Vec<Finding> {
    if trouble.tools.is_empty() {
        return vec![Finding::ok("tools", "no tool fails at most of its calls")];
    }
    let failing = trouble.tools.iter().map(|tool| {
        Finding::warning(
            "tools",
            format!(
                "{} of the last {} calls of tool {} failed",
                tool.errors, tool.calls, tool.tool
            ),
            "check that its server runs; `adjutant tasks show ID --turns` has the errors",
        )
    });
    failing.collect()
}

fn failures(trouble: &Trouble) -> Finding {
    let failed: i64 = trouble.failures.iter().map(|failures| failures.tasks).sum();
    let Some(most) = trouble.failures.first() else {
        return Finding::ok("failures", "no task failed in the last 15 minutes");
    };
    let kinds: Vec<String> = trouble
        .failures
        .iter()
        .map(|failures| format!("{} {}", failures.tasks, failures.kind))
        .collect();
    let found = format!(
        "{failed} of {} failed in the last 15 minutes ({})",
        tasks(failed + trouble.completed),
        kinds.join(", ")
    );
    // A few failures are every day's.
    if failed * 10 < trouble.completed {
        return Finding::ok("failures", found);
    }
    Finding::warning(
        "failures",
        format!("{found}; the last {}: {}", most.kind, truncate(&most.error, SHORT)),
        format!("`adjutant tasks --failure {} --since 15m` lists them", most.kind),
    )
}

fn tenants(trouble: &Trouble) -> Finding {
    let flood = trouble.largest.as_ref().filter(|largest| {
        let others = largest.all - largest.unfinished;
        largest.unfinished >= FLOOD && others > 0 && others * 4 <= largest.unfinished
    });
    let Some(largest) = flood else {
        return Finding::ok("tenants", "no tenant floods the queue");
    };
    let (tenant, unfinished) = (&largest.tenant, largest.unfinished);
    Finding::warning(
        "tenants",
        format!("tenant {tenant} has {unfinished} of {} unfinished tasks", largest.all),
        format!("others keep their shares; `adjutant tenants set {tenant} --cap N` limits it"),
    )
}

fn transactions(trouble: &Trouble) -> Vec<Finding> {
    if trouble.transactions.is_empty() {
        return vec![Finding::ok("transactions", "none is open for over a minute")];
    }
    let open = trouble.transactions.iter().map(|open| {
        let from = [open.user.as_str(), open.application.as_str()].join(" ");
        Finding::warning(
            "transactions",
            format!("pid {} ({}) has one open for {} s", open.pid, from.trim(), open.seconds),
            format!(
                "end it there, or with `select pg_terminate_backend({})`: it keeps dead rows",
                open.pid
            ),
        )
    });
    open.collect()
}

fn tasks(number: i64) -> String {
    count_noun(u64::try_from(number).unwrap_or(0), "task")
}

/// Counts end at 1000.
fn waits(number: i64) -> String {
    match number {
        0 => "no task waits".to_owned(),
        1 => "1 task waits".to_owned(),
        1000.. => "1000 tasks or more wait".to_owned(),
        number => format!("{number} tasks wait"),
    }
}

fn since(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    short_duration((now - at).to_std().unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str, workers: i64, busy: i64, ready: i64) -> PoolLoad {
        PoolLoad { name: name.to_owned(), workers, places: 10 * workers, busy, ready }
    }

    #[test]
    fn full_workers_matter_while_slots_are_free_and_tasks_wait() {
        let said = |busy, ready, used| {
            places(&[pool("default", 1, busy, ready)], Slots { cap: 12, used }).found
        };
        assert_eq!(
            said(10, 7, 10),
            "all 10 places of the workers of pool default are in use while 2 slots are free, and 7 tasks wait"
        );
        for fine in [said(10, 0, 10), said(9, 7, 9), said(10, 7, 12)] {
            assert_eq!(fine, "no task waits for a place of a worker");
        }
    }

    #[test]
    fn a_few_failures_are_every_days() {
        let of = |tasks, completed| {
            let kind = "model".to_owned();
            let failures =
                vec![adjutant_store::RecentFailures { kind, tasks, error: "no".to_owned() }];
            failures_of(failures, completed)
        };
        assert_eq!(
            of(1, 20),
            Finding::ok("failures", "1 of 21 tasks failed in the last 15 minutes (1 model)")
        );
        assert_eq!(
            of(3, 20).found,
            "3 of 23 tasks failed in the last 15 minutes (3 model); the last model: no"
        );
    }

    fn failures_of(failures: Vec<adjutant_store::RecentFailures>, completed: i64) -> Finding {
        super::failures(&Trouble { failures, completed, ..Trouble::default() })
    }

    #[test]
    fn a_tenant_floods_if_it_has_most_of_many_tasks_and_others_have_some() {
        let of = |unfinished, all| {
            let tenant = "a".to_owned();
            let largest = Some(adjutant_store::LargestTenant { tenant, unfinished, all });
            tenants(&Trouble { largest, ..Trouble::default() }).found
        };
        assert_eq!(of(400, 500), "tenant a has 400 of 500 unfinished tasks");
        for fine in [of(399, 500), of(400, 400), of(90, 91)] {
            assert_eq!(fine, "no tenant floods the queue");
        }
    }
}
