//! What a model says, told as it says it to whoever wants to see it. Pieces that nobody hears are gone.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use adjutant_agent::{SessionId, TaskId, TaskNumber};
use adjutant_store::{LiveText, Store};

use crate::held::lock;

/// At most one notice in this time.
const PAUSE: Duration = Duration::from_millis(100);

/// What a model says faster than it can be told is not told.
const MOST_UNTOLD: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct Telling {
    store: Store,
    session: SessionId,
    task: TaskId,
    task_number: TaskNumber,
    /// How many characters were said since the last turn was stored.
    said: Mutex<usize>,
    untold: Arc<Mutex<Untold>>,
}

#[derive(Debug, Default)]
struct Untold {
    pieces: VecDeque<LiveText>,
    bytes: usize,
    /// Somebody tells, and will tell this too.
    is_told: bool,
}

impl Telling {
    pub(crate) fn of(store: Store, session: SessionId, task: TaskId, task_number: TaskNumber) -> Self {
        Self { store, session, task, task_number, said: Mutex::default(), untold: Arc::default() }
    }

    pub(crate) fn says(&self, turn: i32, text: &str) {
        let offset = {
            let mut said = lock(&self.said);
            let offset = *said;
            *said += text.chars().count();
            offset
        };
        if !text.is_empty() && self.store.wants_text(self.session, self.task) {
            let (session, task, task_number) = (self.session, self.task, self.task_number);
            self.tell(LiveText { session, task, task_number, turn, offset, text: text.to_owned() });
        }
    }

    pub(crate) fn falls_silent(&self) {
        *lock(&self.said) = 0;
    }

    fn tell(&self, piece: LiveText) {
        let mut untold = lock(&self.untold);
        if untold.bytes + piece.text.len() > MOST_UNTOLD {
            return;
        }
        untold.push(piece);
        if !std::mem::replace(&mut untold.is_told, true) {
            let (store, untold) = (self.store.clone(), self.untold.clone());
            tokio::spawn(async move {
                while let Some(piece) = next(&untold) {
                    store.tell_text(piece).await;
                    tokio::time::sleep(PAUSE).await;
                }
            });
        }
    }
}

impl Untold {
    /// What goes on where the last piece ended is one piece with it.
    fn push(&mut self, piece: LiveText) {
        self.bytes += piece.text.len();
        match self.pieces.back_mut() {
            Some(last)
                if last.turn == piece.turn && last.offset + last.text.chars().count() == piece.offset =>
            {
                last.text.push_str(&piece.text);
            }
            Some(_) | None => self.pieces.push_back(piece),
        }
    }

    /// The next piece, of a size that one notice takes.
    fn pop(&mut self) -> Option<LiveText> {
        let mut piece = self.pieces.pop_front()?;
        let end = piece.text.floor_char_boundary(LiveText::LARGEST);
        let rest = piece.text.split_off(end);
        if !rest.is_empty() {
            let offset = piece.offset + piece.text.chars().count();
            self.pieces.push_front(LiveText { text: rest, offset, ..piece.clone() });
        }
        self.bytes -= piece.text.len();
        Some(piece)
    }
}

/// With nothing to tell, whoever tells is done.
fn next(untold: &Mutex<Untold>) -> Option<LiveText> {
    let mut untold = lock(untold);
    let piece = untold.pop();
    untold.is_told = piece.is_some();
    piece
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(turn: i32, offset: usize, text: &str) -> LiveText {
        let (session, task, task_number) = (SessionId(1), TaskId(uuid::Uuid::nil()), TaskNumber(1));
        LiveText { session, task, task_number, turn, offset, text: text.to_owned() }
    }

    #[test]
    fn what_belongs_together_is_told_together_and_what_begins_anew_is_not() {
        let mut untold = Untold::default();
        for piece in [piece(1, 0, "é"), piece(1, 1, "b"), piece(1, 0, "c"), piece(2, 1, "d")] {
            untold.push(piece);
        }
        let told: Vec<LiveText> = std::iter::from_fn(|| untold.pop()).collect();
        assert_eq!(told, [piece(1, 0, "éb"), piece(1, 0, "c"), piece(2, 1, "d")]);
        assert_eq!(untold.bytes, 0);
    }

    #[test]
    fn a_long_text_is_told_in_pieces_that_fit_and_none_is_lost() {
        let mut untold = Untold::default();
        let text = "aé".repeat(10_000);
        untold.push(piece(1, 0, &text));
        let (mut told, mut offset) = (String::new(), 0);
        while let Some(piece) = untold.pop() {
            assert!(piece.text.len() <= LiveText::LARGEST && piece.offset == offset);
            offset += piece.text.chars().count();
            told.push_str(&piece.text);
        }
        assert_eq!(told, text);
    }
}
