//! Text as it is said, for those who ask for it.

use std::time::Duration;

use adjutant_script::{Script, When, text};

use super::front::{Front, Told};
use crate::agents_at_work::workplace::{CLERK, Workplace};

const ANSWER: &str = "This is said slowly, so that somebody can read along while it is said, word by word.";

fn said(told: &[Told]) -> Vec<&Told> {
    told.iter().filter(|event| event.kind() == "text").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn text_is_seen_while_it_is_said_by_those_who_asked_and_is_no_event() {
    let script =
        Script::new().on(When::assignment("Talk")).then(text(ANSWER).chunks(20, Duration::from_millis(100)));
    let place = Workplace::new(script).await;
    let front = Front::open(&place.world).await;
    let worker = place.worker();
    worker.says("notices come through").await;
    let session = place.session("openai").await;
    let mut listening = front.session(&place.world, session, "?text=true", None).await;
    let mut deaf = front.session(&place.world, session, "", None).await;
    let task = place.delegate(session, crate::agents_at_work::workplace::to(CLERK, "Talk.")).await;
    let told = listening.until("completed").await;
    let texts = said(&told);
    assert!(texts.len() > 2, "it is seen as it comes: {told:#?}");
    assert!(texts.iter().all(|event| event.id.is_none() && event.data["turn"] == 1));
    let first = usize::try_from(texts[0].data["offset"].as_u64().unwrap()).unwrap();
    let whole: String = texts.iter().filter_map(|event| event.data["text"].as_str()).collect();
    assert!(ANSWER[first..].starts_with(&whole), "{whole:?} from {first}");
    assert!(whole.len() > ANSWER.len() / 4, "most of it: {whole:?}");
    let told = deaf.until("completed").await;
    assert!(said(&told).is_empty());
    place.done(task).await.assert_completed(ANSWER);
    place.close().await;
}
