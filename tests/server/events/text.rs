//! Text as it is said, for those who ask for it.

use std::time::Duration;

use adjutant_script::{Script, When, text};

use crate::support::event_server::{EventServer, StreamedEvent};
use crate::support::fleet::{CLERK, Fleet};

const ANSWER: &str =
    "This is said slowly, so that somebody can read along while it is said, word by word.";

fn said(events: &[StreamedEvent]) -> Vec<&StreamedEvent> {
    events.iter().filter(|event| event.kind() == "text").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn text_is_streamed_on_request_while_it_is_generated_and_is_no_event() {
    let script = Script::new()
        .on(When::assignment("Talk"))
        .then(text(ANSWER).chunks(20, Duration::from_millis(100)));
    let fleet = Fleet::new(script).await;
    let events = EventServer::start(&fleet.world).await;
    let worker = fleet.worker();
    worker.until_logged("LISTEN connection works").await;
    let session = fleet.session("openai").await;
    let mut listening = events.session(&fleet.world, session, "?text=true", None).await;
    let mut deaf = events.session(&fleet.world, session, "", None).await;
    let task = fleet.delegate(session, crate::support::fleet::to(CLERK, "Talk.")).await;
    let events = listening.until("completed").await;
    let texts = said(&events);
    assert!(texts.len() > 2, "it is seen as it comes: {events:#?}");
    assert!(texts.iter().all(|event| event.id.is_none() && event.data["turn"] == 1));
    let first = usize::try_from(texts[0].data["offset"].as_u64().unwrap()).unwrap();
    let whole: String = texts.iter().filter_map(|event| event.data["text"].as_str()).collect();
    assert!(ANSWER[first..].starts_with(&whole), "{whole:?} from {first}");
    assert!(whole.len() > ANSWER.len() / 4, "most of it: {whole:?}");
    let events = deaf.until("completed").await;
    assert!(said(&events).is_empty());
    fleet.done(task).await.assert_completed(ANSWER);
    fleet.close().await;
}
