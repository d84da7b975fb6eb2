use std::time::Duration;

use adjutant_agent::{FailureKind, TaskId};
use adjutant_store::{Await, Ending, Error, Lease};

use crate::Task;

/// What tasks do.
///
/// A handler must not keep its thread: when as many do as there are cores, the whole worker stands still, and its tasks are
/// taken over when their leases have run out.
pub trait Handler: Send + Sync + 'static {
    /// Runs one attempt and decides how it ends; the worker writes that down. It may be dropped at any `.await`, when the
    /// task is cancelled or the process has to go.
    fn run(&self, task: &mut Task) -> impl Future<Output = Result<End, Stop>> + Send;
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
    /// To be continued by any worker, after a while if so wished.
    Released {
        delay: Option<Duration>,
    },
    /// Until these children have ended, or for so long.
    Waiting {
        children: Vec<TaskId>,
        until: Await,
        at_most: Option<Duration>,
    },
}

/// Why an attempt stops before its end.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    #[error("this worker is leaving: another one goes on")]
    HandOver,
    #[error("the lease is lost, or may be")]
    LeaseLost,
    #[error("the store refused: {0}")]
    Store(Error),
}

/// The one place where what was decided becomes what is written.
pub(crate) fn ending(lease: Lease, end: Result<End, Stop>) -> Ending {
    match end {
        Ok(End::Completed { result, summary }) => lease.complete(result, summary),
        Ok(End::Failed { failure, error, partial_result }) => lease.fail(failure, error, partial_result),
        Ok(End::Released { delay: Some(delay) }) => lease.release_for(delay),
        Ok(End::Waiting { children, until, at_most: None }) => lease.wait(children, until),
        Ok(End::Waiting { children, until, at_most: Some(time) }) => {
            lease.wait_at_most(children, until, time)
        }
        // A lease that may be lost is given back too: if it is lost, nothing is written.
        Ok(End::Released { delay: None }) | Err(Stop::HandOver | Stop::LeaseLost) => lease.release(),
        Err(Stop::Store(error)) => lease.fail(FailureKind::Internal, error.to_string(), None),
    }
}
