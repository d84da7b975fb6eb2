use std::collections::BTreeMap;

use crate::answer::{Answer, Answers};

/// What a server answers to whom. Rules are tried in order: the first that fits and has an answer for the turn gives it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Script {
    pub(crate) rules: Vec<Rule>,
    pub(crate) otherwise: Option<Answer>,
    pub(crate) once: bool,
}

/// Answers for the requests that fit.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) when: When,
    pub(crate) turns: BTreeMap<u32, Answers>,
    /// For every turn that is not in `turns`.
    pub(crate) any_turn: Option<Answers>,
    /// How many requests it answers in all; then it fits no more.
    pub(crate) times: Option<u32>,
}

/// Which requests fit: those with all that is given, so nothing given is all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// The model's name on the wire, in full.
    pub model: Option<String>,
    /// A part of the system prompt.
    pub system: Option<String>,
    /// A part of the first user message.
    pub assignment: Option<String>,
    /// A part of what came after the model's last answer: tool results, or a user message.
    pub last: Option<String>,
    /// The number of the turn: 1, and 1 more for each answer of the model in the request.
    pub turn: Option<u32>,
}

impl When {
    pub fn any() -> Self {
        Self::default()
    }

    pub fn assignment(part: impl Into<String>) -> Self {
        Self { assignment: Some(part.into()), ..Self::default() }
    }

    pub fn system(part: impl Into<String>) -> Self {
        Self { system: Some(part.into()), ..Self::default() }
    }

    pub fn last(part: impl Into<String>) -> Self {
        Self { last: Some(part.into()), ..Self::default() }
    }

    pub fn model(name: impl Into<String>) -> Self {
        Self { model: Some(name.into()), ..Self::default() }
    }

    /// Both must hold; what both give is taken from `other`.
    pub fn and(self, other: Self) -> Self {
        Self {
            model: other.model.or(self.model),
            system: other.system.or(self.system),
            assignment: other.assignment.or(self.assignment),
            last: other.last.or(self.last),
            turn: other.turn.or(self.turn),
        }
    }
}

impl Script {
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a rule; what follows belongs to it, up to the next one.
    pub fn on(mut self, when: When) -> Self {
        let name = format!("rule {}", self.rules.len() + 1);
        self.rules.push(Rule { name, when, ..Rule::default() });
        self
    }

    /// The name of the rule, as records show it.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.rule().name = name.into();
        self
    }

    /// What the rule answers in this turn, from 1 on.
    pub fn turn(mut self, turn: u32, answers: impl Into<Answers>) -> Self {
        self.rule().turns.insert(turn, answers.into());
        self
    }

    /// What the rule answers in the turn after the last one that was given.
    pub fn then(mut self, answers: impl Into<Answers>) -> Self {
        let rule = self.rule();
        let next = rule.turns.last_key_value().map_or(1, |(turn, _)| turn + 1);
        rule.turns.insert(next, answers.into());
        self
    }

    /// What the rule answers in every turn that is not given.
    pub fn answer(mut self, answers: impl Into<Answers>) -> Self {
        self.rule().any_turn = Some(answers.into());
        self
    }

    /// How many requests the rule answers in all; then it fits no more.
    pub fn times(mut self, times: u32) -> Self {
        self.rule().times = Some(times);
        self
    }

    /// What is answered when no rule fits; without it, that is an unexpected request.
    pub fn otherwise(mut self, answer: Answer) -> Self {
        self.otherwise = Some(answer);
        self
    }

    /// A turn that was answered in full is not answered again: asking is unexpected.
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }

    pub fn rule_count(&self) -> usize {
        self.rules.len()
    }

    /// The one that was begun last; one for all requests if there is none.
    fn rule(&mut self) -> &mut Rule {
        if self.rules.is_empty() {
            self.rules.push(Rule { name: "rule 1".to_owned(), ..Rule::default() });
        }
        let last = self.rules.len() - 1;
        &mut self.rules[last]
    }
}
