use std::time::Duration;

use adjutant_agent::{FailureKind, OverBudget, TaskId, WaitMode};
use adjutant_store::{Abilities, Ending, Error, Lease};

use crate::Task;

/// Runs the attempts of tasks.
///
/// A handler must not block its thread. If as many handlers block as there are cores, the worker
/// cannot renew leases, and other workers take its tasks over.
pub trait Handler: Send + Sync + 'static {
    /// Runs one attempt and returns how it ends; the worker stores that. The future may be dropped
    /// at any `.await`, when the task is cancelled or the process ends.
    fn run(&self, task: &mut Task) -> impl Future<Output = Result<End, Stop>> + Send;

    /// What it can run: the worker claims nothing else. By default everything.
    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    /// Resolves when [`Handler::abilities`] are others than these. By default never.
    fn abilities_changed(&self, from: &Abilities) -> impl Future<Output = ()> + Send {
        let _ = from;
        std::future::pending()
    }
}

/// How an attempt ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    Completed {
        result: String,
        summary: Option<String>,
    },
    Failed {
        failure: FailureKind,
        error: String,
        partial_result: Option<String>,
    },
    /// Any worker continues the task, after the delay if there is one.
    Released {
        delay: Option<Duration>,
    },
    /// The task waits for these children, at most for this time.
    Waiting {
        children: Vec<TaskId>,
        until: WaitMode,
        at_most: Option<Duration>,
    },
    /// The task waits until this budget is raised.
    Paused {
        over: OverBudget,
    },
}

/// Why an attempt stops without an end of its own.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    #[error("the worker is draining: another worker continues the task")]
    HandOver,
    #[error("the lease is lost or may be lost")]
    LeaseLost,
    #[error("the database call was rejected: {0}")]
    Store(Error),
}

/// Maps the decision of the handler to the one lease method that stores it.
pub(crate) fn ending(lease: Lease, end: Result<End, Stop>) -> Ending {
    match end {
        Ok(End::Completed { result, summary }) => lease.complete(result, summary),
        Ok(End::Failed { failure, error, partial_result }) => {
            lease.fail(failure, error, partial_result)
        }
        Ok(End::Released { delay: Some(delay) }) => lease.release_for(delay),
        Ok(End::Waiting { children, until, at_most: None }) => lease.wait(children, until),
        Ok(End::Waiting { children, until, at_most: Some(time) }) => {
            lease.wait_at_most(children, until, time)
        }
        Ok(End::Paused { over }) => lease.pause(over),
        // A lease that may be lost is released too: if it is lost, the release changes nothing.
        Ok(End::Released { delay: None }) | Err(Stop::HandOver | Stop::LeaseLost) => {
            lease.release()
        }
        Err(Stop::Store(error)) => lease.fail(FailureKind::Internal, error.to_string(), None),
    }
}
