use std::collections::BTreeMap;

use crate::answer::{Answer, Answers};

/// The rules of a server. They are tried in order: the first rule that matches and has an answer
/// for the turn is used.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Script {
    pub(crate) rules: Vec<Rule>,
    pub(crate) otherwise: Option<Answer>,
    pub(crate) once: bool,
}

/// A condition, and the answers for matching requests.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) when: When,
    pub(crate) turns: BTreeMap<u32, Answers>,
    /// For every turn that is not in `turns`.
    pub(crate) any_turn: Option<Answers>,
    /// The number of requests after which it no longer matches.
    pub(crate) times: Option<u32>,
}

/// The condition of a rule: all given fields have to match.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// The model's name on the wire, in full.
    pub model: Option<String>,
    /// A part of the system prompt.
    pub system: Option<String>,
    /// A part of the first user message.
    pub assignment: Option<String>,
    /// A part of the messages after the model's last answer: tool results, or a user message.
    pub last: Option<String>,
    /// The number of the turn: 1 plus the number of the model's answers in the request.
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

    /// Both conditions; a field that both have is taken from `other`.
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

    /// Starts a rule. The calls that follow apply to it.
    pub fn on(mut self, when: When) -> Self {
        let name = format!("rule {}", self.rules.len() + 1);
        self.rules.push(Rule { name, when, ..Rule::default() });
        self
    }

    /// Names the rule, for recorded requests.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.rule().name = name.into();
        self
    }

    /// The rule's answers in this turn, counted from 1.
    pub fn turn(mut self, turn: u32, answers: impl Into<Answers>) -> Self {
        self.rule().turns.insert(turn, answers.into());
        self
    }

    /// The rule's answers in the turn after the last given one.
    pub fn then(mut self, answers: impl Into<Answers>) -> Self {
        let rule = self.rule();
        let next = rule.turns.last_key_value().map_or(1, |(turn, _)| turn + 1);
        rule.turns.insert(next, answers.into());
        self
    }

    /// The rule's answers in all other turns.
    pub fn answer(mut self, answers: impl Into<Answers>) -> Self {
        self.rule().any_turn = Some(answers.into());
        self
    }

    /// The number of requests after which the rule no longer matches.
    pub fn times(mut self, times: u32) -> Self {
        self.rule().times = Some(times);
        self
    }

    /// The answer if no rule matches; without it, such a request is unexpected.
    pub fn otherwise(mut self, answer: Answer) -> Self {
        self.otherwise = Some(answer);
        self
    }

    /// Makes another request of a turn that was answered in full unexpected.
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }

    pub fn rule_count(&self) -> usize {
        self.rules.len()
    }

    /// The last rule; if there is none, a new one for all requests.
    fn rule(&mut self) -> &mut Rule {
        if self.rules.is_empty() {
            self.rules.push(Rule { name: "rule 1".to_owned(), ..Rule::default() });
        }
        let last = self.rules.len() - 1;
        &mut self.rules[last]
    }
}
