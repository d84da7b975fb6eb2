//! The live text of models in event streams.

use std::time::Duration;

use adjutant_script::{Script, When, text};

use crate::support::event_server::{EventServer, StreamedEvent};
use crate::support::fleet::{CLERK, Fleet};

const ANSWER: &str =
    "This text is streamed slowly, in many small pieces, so that a client can read along.";

fn texts(events: &[StreamedEvent]) -> Vec<&StreamedEvent> {
    events.iter().filter(|event| event.kind() == "text").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn live_text_is_streamed_on_request_and_has_no_event_id() {
    let script = Script::new()
        .on(When::assignment("Talk"))
        .then(text(ANSWER).chunks(20, Duration::from_millis(100)));
    let fleet = Fleet::new(script).await;
    let events = EventServer::start(&fleet.world).await;
    let worker = fleet.worker();
    worker.until_logged("LISTEN connection works").await;
    let session = fleet.session("openai").await;
    let mut with_text = events.session(&fleet.world, session, "?text=true", None).await;
    let mut without_text = events.session(&fleet.world, session, "", None).await;
    let task = fleet.delegate(session, crate::support::fleet::to(CLERK, "Talk.")).await;
    let events = with_text.until("completed").await;
    let pieces = texts(&events);
    assert!(pieces.len() > 2, "the text comes in pieces: {events:#?}");
    assert!(pieces.iter().all(|event| event.id.is_none() && event.data["turn"] == 1));
    let first = usize::try_from(pieces[0].data["offset"].as_u64().unwrap()).unwrap();
    let whole: String = pieces.iter().filter_map(|event| event.data["text"].as_str()).collect();
    assert!(ANSWER[first..].starts_with(&whole), "{whole:?} from {first}");
    assert!(whole.len() > ANSWER.len() / 4, "too much was lost: {whole:?}");
    let events = without_text.until("completed").await;
    assert!(texts(&events).is_empty());
    fleet.done(task).await.assert_completed(ANSWER);
    fleet.close().await;
}
