use std::sync::Arc;

use adjutant_store::{LiveText, TextOf};
use tokio::sync::broadcast;

use super::{Board, lock};

/// Pieces that a reader may be behind; what is older is lost to it.
const BEHIND: usize = 64;

/// Somebody wants to see text as models say it. What is lost is lost: the turns have it all.
#[derive(Debug)]
pub struct TextWatch {
    board: Arc<Board>,
    of: TextOf,
    /// None only while it is dropped.
    heard: Option<broadcast::Receiver<Arc<LiveText>>>,
}

impl TextWatch {
    pub(super) fn begin(board: Arc<Board>, of: TextOf) -> Self {
        let (heard, is_new) = {
            let mut texts = lock(&board.texts);
            let is_new = !texts.contains_key(&of);
            (texts.entry(of).or_insert_with(|| broadcast::Sender::new(BEHIND)).subscribe(), is_new)
        };
        if is_new {
            board.came.notify_one();
        }
        Self { board, of, heard: Some(heard) }
    }

    /// The next piece. Cancel safe.
    pub async fn next(&mut self) -> Arc<LiveText> {
        if let Some(heard) = &mut self.heard {
            loop {
                match heard.recv().await {
                    Ok(text) => return text,
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => break,
                }
            }
        }
        std::future::pending().await
    }
}

impl Drop for TextWatch {
    fn drop(&mut self) {
        let mut texts = lock(&self.board.texts);
        self.heard = None;
        if texts.get(&self.of).is_some_and(|text| text.receiver_count() == 0) {
            texts.remove(&self.of);
        }
    }
}

impl Board {
    pub(super) fn said(&self, text: LiveText) {
        let text = Arc::new(text);
        let texts = lock(&self.texts);
        for of in [TextOf::Task(text.task), TextOf::Session(text.session), TextOf::All] {
            if let Some(heard) = texts.get(&of) {
                // Who has just gone hears nothing.
                let _ = heard.send(text.clone());
            }
        }
    }
}
