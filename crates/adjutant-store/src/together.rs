//! Callers that ask at the same moment are answered together: while a call is under way, what is asked meanwhile gathers for the
//! next. Nobody waits for company, and a call for many costs little more than a call for one. A second call beside the first would
//! make both smaller, and cost more than it gains.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use tokio::sync::oneshot;

use crate::{Error, Result};

/// Questions in one call: more would keep the first waiting for the last.
const MOST: usize = 64;

/// Who waits for an answer.
type Caller<A> = oneshot::Sender<Result<A>>;

/// Questions of one kind.
#[derive(Debug)]
pub(crate) struct Batcher<Q, A>(Mutex<Waiting<Q, A>>);

#[derive(Debug)]
struct Waiting<Q, A> {
    asked: Vec<(Q, Caller<A>)>,
    /// Whether a call is under way.
    is_answering: bool,
}

impl<Q, A> Default for Batcher<Q, A> {
    fn default() -> Self {
        Self(Mutex::new(Waiting { asked: Vec::new(), is_answering: false }))
    }
}

impl<Q: Send + 'static, A: Send + 'static> Batcher<Q, A> {
    /// What `answer_all` says to this question. It gets questions as they came, and answers each in its place. A caller that goes
    /// away leaves its question: others are in the same call.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        question: Q,
        answer_all: impl Fn(Vec<Q>) -> BoxFuture<'static, Result<Vec<A>>> + Send + 'static,
    ) -> Result<A> {
        let (answer, answered) = oneshot::channel();
        let begins = {
            let mut waiting = self.waiting();
            waiting.asked.push((question, answer));
            !std::mem::replace(&mut waiting.is_answering, true)
        };
        if begins {
            let turn = Turn(self.clone());
            tokio::spawn(async move { turn.answer(answer_all).await });
        }
        let unanswered = |_| Err(Error::Unavailable(sqlx::Error::WorkerCrashed));
        answered.await.unwrap_or_else(unanswered)
    }
}

impl<Q, A> Batcher<Q, A> {
    fn waiting(&self) -> MutexGuard<'_, Waiting<Q, A>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to answer, until nobody waits.
struct Turn<Q, A>(Arc<Batcher<Q, A>>);

impl<Q, A> Turn<Q, A> {
    async fn answer(self, answer_all: impl Fn(Vec<Q>) -> BoxFuture<'static, Result<Vec<A>>>) {
        while let Some((questions, callers)) = self.next() {
            match answer_all(questions).await {
                Ok(answers) => {
                    for (caller, answer) in callers.into_iter().zip(answers) {
                        // Who went away does not wait.
                        let _ = caller.send(Ok(answer));
                    }
                }
                Err(error) => {
                    for caller in callers {
                        let _ = caller.send(Err(error.again()));
                    }
                }
            }
        }
    }

    /// The next questions; none ends the turn, and whoever asks then begins another.
    fn next(&self) -> Option<(Vec<Q>, Vec<Caller<A>>)> {
        let mut waiting = self.0.waiting();
        if waiting.asked.is_empty() {
            waiting.is_answering = false;
            return None;
        }
        let few = waiting.asked.len().min(MOST);
        Some(waiting.asked.drain(..few).unzip())
    }
}

impl<Q, A> Drop for Turn<Q, A> {
    /// A turn that a panic has cut short leaves nobody waiting.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut waiting = self.0.waiting();
            waiting.asked.clear();
            waiting.is_answering = false;
        }
    }
}
