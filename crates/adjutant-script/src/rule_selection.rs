//! Selects the rule and the answer for a request.

use std::collections::HashMap;

use crate::answer::Answer;
use crate::model_request::ModelRequest;
use crate::script::{Rule, Script};

/// The use of the script so far.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The number of requests that each rule has answered.
    used: Vec<u32>,
    /// The number of requests of a turn of a conversation, by rule.
    requests: HashMap<(usize, u64, u32), usize>,
}

pub(crate) struct Chosen<'a> {
    pub(crate) rule: &'a str,
    pub(crate) answer: &'a Answer,
}

impl Progress {
    /// The error says why no rule matches. It may quote the script, but not the request.
    pub(crate) fn choose<'a>(
        &mut self,
        script: &'a Script,
        request: &ModelRequest,
    ) -> Result<Chosen<'a>, String> {
        self.used.resize(script.rules.len(), 0);
        let mut mismatches = Vec::new();
        for (index, rule) in script.rules.iter().enumerate() {
            match self.mismatch(index, rule, request) {
                None => {
                    self.used[index] += 1;
                    let times = self
                        .requests
                        .entry((index, request.conversation, request.turn))
                        .or_default();
                    let answers = rule.turns.get(&request.turn).or(rule.any_turn.as_ref());
                    if let Some(answer) = answers.and_then(|answers| answers.nth(*times)) {
                        *times += 1;
                        return Ok(Chosen { rule: &rule.name, answer });
                    }
                }
                Some(mismatch) => mismatches.push((index, mismatch)),
            }
        }
        match &script.otherwise {
            Some(answer) => Ok(Chosen { rule: "default", answer }),
            None => Err(explain(script, request, &mismatches)),
        }
    }

    fn mismatch(&self, index: usize, rule: &Rule, request: &ModelRequest) -> Option<Mismatch> {
        let when = &rule.when;
        let lacks = |part: &Option<String>, text: &str| {
            part.as_ref().is_some_and(|part| !text.contains(part))
        };
        if when.model.as_ref().is_some_and(|model| *model != request.model) {
            Some(Mismatch::Model)
        } else if lacks(&when.system, &request.system) {
            Some(Mismatch::System)
        } else if lacks(&when.assignment, &request.assignment) {
            Some(Mismatch::Assignment)
        } else if lacks(&when.last, &request.last) {
            Some(Mismatch::Last)
        } else if when.turn.is_some_and(|turn| turn != request.turn)
            || (rule.any_turn.is_none() && !rule.turns.contains_key(&request.turn))
        {
            Some(Mismatch::Turn)
        } else if rule.times.is_some_and(|times| self.used[index] >= times) {
            Some(Mismatch::UsedUp)
        } else {
            None
        }
    }
}

/// Why a rule does not match.
enum Mismatch {
    Model,
    System,
    Assignment,
    Last,
    Turn,
    UsedUp,
}

fn explain(script: &Script, request: &ModelRequest, mismatches: &[(usize, Mismatch)]) -> String {
    let reasons = mismatches.iter().map(|(index, mismatch)| {
        let rule = &script.rules[*index];
        let (name, when) = (&rule.name, &rule.when);
        let part = |part: &Option<String>| format!("{:?}", part.as_deref().unwrap_or_default());
        match mismatch {
            Mismatch::Model => format!("{name:?} is for model {}", part(&when.model)),
            Mismatch::System => {
                format!("{name:?} is for system prompts with {}", part(&when.system))
            }
            Mismatch::Assignment => {
                format!("{name:?} is for assignments with {}", part(&when.assignment))
            }
            Mismatch::Last => format!("{name:?} is for last messages with {}", part(&when.last)),
            Mismatch::Turn => format!("{name:?} has no answer for turn {}", request.turn),
            Mismatch::UsedUp => {
                format!("{name:?} is used up after {} times", rule.times.unwrap_or_default())
            }
        }
    });
    let reasons: Vec<String> = reasons.collect();
    format!(
        "no rule matches turn {} on model {:?}: {}",
        request.turn,
        request.model,
        reasons.join("; ")
    )
}
