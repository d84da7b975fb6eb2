use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::TaskId;
use adjutant_script::Conversation;

use super::*;

/// A task whose worker died while its third answer was under way.
struct Case {
    tally: Tally,
    turns: Vec<TurnCount>,
    kill: Kill,
    stored: BTreeMap<String, Vec<StoredTurn>>,
}

fn count(turn: u32, asked: usize, answered: usize) -> TurnCount {
    let conversation = Arc::new(Conversation { id: 1, assignment: "prices".to_owned() });
    TurnCount { conversation, turn, rule: String::new(), asked, answered }
}

fn good() -> Case {
    let tally = Tally { requests: 5, answered: 4, hung_up: 1, ..Tally::default() };
    let kill = Kill {
        held: vec![TaskId(uuid::Uuid::now_v7())],
        stored: BTreeMap::from([("prices".to_owned(), 2)]),
        asked: vec![count(1, 1, 1), count(2, 1, 1), count(3, 1, 0)],
    };
    let stored = BTreeMap::from([("prices".to_owned(), vec![StoredTurn::default(); 4])]);
    Case { tally, turns: vec![count(1, 1, 1), count(2, 1, 1), count(3, 2, 1), count(4, 1, 1)], kill, stored }
}

fn bill_of(case: &Case) -> Result<Bill, String> {
    bill(case.tally, &case.turns, &case.kill, &case.stored).map_err(|error| error.to_string())
}

#[test]
fn what_was_cut_off_is_asked_for_again_and_paid_once() {
    let expected =
        Bill { model_calls: 5, answers_paid: 4, answers_stored: 4, answers_cut_off: 1, ..Bill::default() };
    assert_eq!(bill_of(&good()), Ok(expected));
}

#[test]
fn an_answer_that_died_with_its_worker_is_counted_as_lost_and_no_bug() {
    let mut case = good();
    case.turns[2].answered = 2;
    assert_eq!(bill_of(&case).map(|bill| bill.answers_lost), Ok(1));
}

#[test]
fn whatever_is_paid_twice_or_not_at_all_or_not_stored_is_found() {
    type Spoil = fn(&mut Case);
    let cases: [(Spoil, &str); 7] = [
        (|case| case.turns[1].asked = 2, "1 stored answers were asked for again"),
        (|case| case.turns[1].answered = 2, "was paid 2 times"),
        (|case| case.turns[3].answered = 2, "was paid 2 times"),
        (|case| case.turns[3].answered = 0, "never answered"),
        (|case| case.turns.truncate(3), "4 answers are stored, and 3 were given"),
        (|case| case.turns.push(count(5, 1, 1)), "not stored"),
        (|case| case.tally.hung_up = 0, "not killed in the middle"),
    ];
    for (spoil, words) in cases {
        let mut case = good();
        spoil(&mut case);
        let error = bill_of(&case).expect_err(words);
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn calls_count_as_at_once_only_if_they_overlap() {
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    let calls = vec![(at(0), at(10)), (at(5), at(15)), (at(15), at(20)), (at(16), at(18)), (at(17), at(30))];
    assert_eq!(most_at_once_of(calls), 3);
    assert_eq!(most_at_once_of(vec![(at(0), at(10)), (at(10), at(20))]), 1);
}
