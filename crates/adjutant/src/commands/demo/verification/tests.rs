use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::TaskId;
use adjutant_script::Conversation;

use super::*;

/// A task whose worker died during its third answer.
struct Case {
    tally: RequestCounts,
    turns: Vec<TurnCount>,
    kill: Kill,
    stored: BTreeMap<String, Vec<StoredTurn>>,
}

fn count(turn: u32, requested: usize, answered: usize) -> TurnCount {
    let conversation = Arc::new(Conversation { id: 1, assignment: "prices".to_owned() });
    TurnCount { conversation, turn, rule: String::new(), requested, answered }
}

fn good() -> Case {
    let tally = RequestCounts { requests: 5, answered: 4, hung_up: 1, ..RequestCounts::default() };
    let kill = Kill {
        held: vec![TaskId(uuid::Uuid::now_v7())],
        stored: BTreeMap::from([("prices".to_owned(), 2)]),
        requested: vec![count(1, 1, 1), count(2, 1, 1), count(3, 1, 0)],
    };
    let stored = BTreeMap::from([("prices".to_owned(), vec![StoredTurn::default(); 4])]);
    Case {
        tally,
        turns: vec![count(1, 1, 1), count(2, 1, 1), count(3, 2, 1), count(4, 1, 1)],
        kill,
        stored,
    }
}

fn usage_of(case: &Case) -> Result<ModelUsage, String> {
    usage(case.tally, &case.turns, &case.kill, &case.stored).map_err(|error| error.to_string())
}

#[test]
fn an_answer_that_was_cut_off_is_requested_again_and_paid_for_once() {
    let expected = ModelUsage {
        model_calls: 5,
        answers_paid: 4,
        answers_stored: 4,
        answers_cut_off: 1,
        ..ModelUsage::default()
    };
    assert_eq!(usage_of(&good()), Ok(expected));
}

#[test]
fn an_answer_that_its_worker_did_not_store_counts_as_lost() {
    let mut case = good();
    case.turns[2].answered = 2;
    assert_eq!(usage_of(&case).map(|usage| usage.answers_lost), Ok(1));
}

#[test]
fn an_answer_that_is_paid_for_twice_or_not_stored_is_detected() {
    type Spoil = fn(&mut Case);
    let cases: [(Spoil, &str); 7] = [
        (|case| case.turns[1].requested = 2, "1 stored answers were requested again"),
        (|case| case.turns[1].answered = 2, "was paid for 2 times"),
        (|case| case.turns[3].answered = 2, "was paid for 2 times"),
        (|case| case.turns[3].answered = 0, "never answered"),
        (|case| case.turns.truncate(3), "4 answers are stored, but 3 were given"),
        (|case| case.turns.push(count(5, 1, 1)), "not stored"),
        (|case| case.tally.hung_up = 0, "not killed during"),
    ];
    for (spoil, words) in cases {
        let mut case = good();
        spoil(&mut case);
        let error = usage_of(&case).expect_err(words);
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn calls_are_concurrent_only_if_they_overlap() {
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    let calls = vec![
        (at(0), at(10)),
        (at(5), at(15)),
        (at(15), at(20)),
        (at(16), at(18)),
        (at(17), at(30)),
    ];
    assert_eq!(max_overlap(calls), 3);
    assert_eq!(max_overlap(vec![(at(0), at(10)), (at(10), at(20))]), 1);
}
