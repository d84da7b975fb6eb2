use std::sync::Arc;

use adjutant_store::{LiveText, TextFilter};
use tokio::sync::broadcast;

use super::{WatchRegistry, lock};

/// How many pieces of text are buffered for a slow client; older ones are lost to it.
const BUFFERED: usize = 64;

/// A client's wait for text as models stream it. A lost piece is not repeated: the stored turns have
/// the whole text.
#[derive(Debug)]
pub struct TextWatch {
    registry: Arc<WatchRegistry>,
    of: TextFilter,
    /// `None` only in `drop`.
    receiver: Option<broadcast::Receiver<Arc<LiveText>>>,
}

impl TextWatch {
    pub(super) fn start(registry: Arc<WatchRegistry>, of: TextFilter) -> Self {
        let (receiver, is_new) = {
            let mut texts = lock(&registry.texts);
            let is_new = !texts.contains_key(&of);
            let sender = texts.entry(of).or_insert_with(|| broadcast::Sender::new(BUFFERED));
            (sender.subscribe(), is_new)
        };
        if is_new {
            registry.watch_added.notify_one();
        }
        Self { registry, of, receiver: Some(receiver) }
    }

    /// The next piece. Cancel safe.
    pub async fn next(&mut self) -> Arc<LiveText> {
        if let Some(receiver) = &mut self.receiver {
            loop {
                match receiver.recv().await {
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
        let mut texts = lock(&self.registry.texts);
        self.receiver = None;
        if texts.get(&self.of).is_some_and(|text| text.receiver_count() == 0) {
            texts.remove(&self.of);
        }
    }
}

impl WatchRegistry {
    pub(super) fn publish_text(&self, text: LiveText) {
        let text = Arc::new(text);
        let texts = lock(&self.texts);
        for of in [TextFilter::Task(text.task), TextFilter::Session(text.session), TextFilter::All]
        {
            if let Some(sender) = texts.get(&of) {
                // An error means that the last receiver has just been dropped.
                let _ = sender.send(text.clone());
            }
        }
    }
}
