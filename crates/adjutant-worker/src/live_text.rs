//! Streams the text of an answer to connected clients while the model produces it. Pieces are
//! notifications: clients that are not connected miss them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use adjutant_agent::{SessionId, TaskId, TaskNumber};
use adjutant_store::{LiveText, Store};

use crate::lease_table::lock;

/// At most one notification per task in this time.
const PAUSE: Duration = Duration::from_millis(100);

/// The most text that waits to be sent. Text beyond it is dropped.
const MAX_UNSENT_BYTES: usize = 64 << 10;

/// The live text of one task.
#[derive(Debug)]
pub(crate) struct LiveTextStream {
    store: Store,
    session: SessionId,
    task: TaskId,
    task_number: TaskNumber,
    /// Characters of the current answer so far.
    offset: Mutex<usize>,
    unsent: Arc<Mutex<Unsent>>,
}

#[derive(Debug, Default)]
struct Unsent {
    pieces: VecDeque<LiveText>,
    bytes: usize,
    /// A tokio task is sending the pieces.
    is_sending: bool,
}

impl LiveTextStream {
    pub(crate) fn new(
        store: Store,
        session: SessionId,
        task: TaskId,
        task_number: TaskNumber,
    ) -> Self {
        let (offset, unsent) = (Mutex::default(), Arc::default());
        Self { store, session, task, task_number, offset, unsent }
    }

    /// Sends text of the answer of this turn, if a client watches the task.
    pub(crate) fn append(&self, turn: i32, text: &str) {
        let offset = {
            let mut next = lock(&self.offset);
            let offset = *next;
            *next += text.chars().count();
            offset
        };
        if !text.is_empty() && self.store.wants_text(self.session, self.task) {
            let (session, task, task_number) = (self.session, self.task, self.task_number);
            self.send(LiveText { session, task, task_number, turn, offset, text: text.to_owned() });
        }
    }

    /// The next text belongs to a new answer.
    pub(crate) fn reset(&self) {
        *lock(&self.offset) = 0;
    }

    fn send(&self, piece: LiveText) {
        let mut unsent = lock(&self.unsent);
        if unsent.bytes + piece.text.len() > MAX_UNSENT_BYTES {
            return;
        }
        unsent.push(piece);
        if !std::mem::replace(&mut unsent.is_sending, true) {
            let (store, unsent) = (self.store.clone(), self.unsent.clone());
            tokio::spawn(async move {
                while let Some(piece) = next(&unsent) {
                    store.send_text(piece).await;
                    tokio::time::sleep(PAUSE).await;
                }
            });
        }
    }
}

impl Unsent {
    /// Appends the piece to the last one if it continues it.
    fn push(&mut self, piece: LiveText) {
        self.bytes += piece.text.len();
        match self.pieces.back_mut() {
            Some(last)
                if last.turn == piece.turn
                    && last.offset + last.text.chars().count() == piece.offset =>
            {
                last.text.push_str(&piece.text);
            }
            Some(_) | None => self.pieces.push_back(piece),
        }
    }

    /// The next piece, of a size that fits into one notification.
    fn pop(&mut self) -> Option<LiveText> {
        let mut piece = self.pieces.pop_front()?;
        let end = piece.text.floor_char_boundary(LiveText::MAX_BYTES);
        let rest = piece.text.split_off(end);
        if !rest.is_empty() {
            let offset = piece.offset + piece.text.chars().count();
            self.pieces.push_front(LiveText { text: rest, offset, ..piece.clone() });
        }
        self.bytes -= piece.text.len();
        Some(piece)
    }
}

/// `None` ends the sending task. The flag changes under the same lock, so no piece is left behind.
fn next(unsent: &Mutex<Unsent>) -> Option<LiveText> {
    let mut unsent = lock(unsent);
    let piece = unsent.pop();
    unsent.is_sending = piece.is_some();
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
    fn adjacent_pieces_are_sent_together_and_others_apart() {
        let mut unsent = Unsent::default();
        for piece in [piece(1, 0, "é"), piece(1, 1, "b"), piece(1, 0, "c"), piece(2, 1, "d")] {
            unsent.push(piece);
        }
        let sent: Vec<LiveText> = std::iter::from_fn(|| unsent.pop()).collect();
        assert_eq!(sent, [piece(1, 0, "éb"), piece(1, 0, "c"), piece(2, 1, "d")]);
        assert_eq!(unsent.bytes, 0);
    }

    #[test]
    fn a_long_text_is_sent_in_pieces_that_fit_and_none_is_lost() {
        let mut unsent = Unsent::default();
        let text = "aé".repeat(10_000);
        unsent.push(piece(1, 0, &text));
        let (mut sent, mut offset) = (String::new(), 0);
        while let Some(piece) = unsent.pop() {
            assert!(piece.text.len() <= LiveText::MAX_BYTES && piece.offset == offset);
            offset += piece.text.chars().count();
            sent.push_str(&piece.text);
        }
        assert_eq!(sent, text);
    }
}
