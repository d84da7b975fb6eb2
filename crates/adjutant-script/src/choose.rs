//! Which answer a request gets.

use std::collections::HashMap;

use crate::answer::Answer;
use crate::asked::Asked;
use crate::script::{Rule, Script};

/// How far the script has been played.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// How many requests each rule has answered.
    used: Vec<u32>,
    /// How often a rule was asked for a turn of a conversation.
    asked: HashMap<(usize, u64, u32), usize>,
}

pub(crate) struct Chosen<'a> {
    pub(crate) rule: &'a str,
    pub(crate) answer: &'a Answer,
}

impl Progress {
    /// The error says why no rule fits; it may quote the script, but not the request.
    pub(crate) fn choose<'a>(
        &mut self,
        script: &'a Script,
        asked: &Asked,
    ) -> Result<Chosen<'a>, String> {
        self.used.resize(script.rules.len(), 0);
        let mut misfits = Vec::new();
        for (index, rule) in script.rules.iter().enumerate() {
            match self.misfit(index, rule, asked) {
                None => {
                    self.used[index] += 1;
                    let times =
                        self.asked.entry((index, asked.conversation, asked.turn)).or_default();
                    let answers = rule.turns.get(&asked.turn).or(rule.any_turn.as_ref());
                    if let Some(answer) = answers.and_then(|answers| answers.nth(*times)) {
                        *times += 1;
                        return Ok(Chosen { rule: &rule.name, answer });
                    }
                }
                Some(misfit) => misfits.push((index, misfit)),
            }
        }
        match &script.otherwise {
            Some(answer) => Ok(Chosen { rule: "default", answer }),
            None => Err(explain(script, asked, &misfits)),
        }
    }

    fn misfit(&self, index: usize, rule: &Rule, asked: &Asked) -> Option<Misfit> {
        let when = &rule.when;
        let lacks = |part: &Option<String>, text: &str| {
            part.as_ref().is_some_and(|part| !text.contains(part))
        };
        if when.model.as_ref().is_some_and(|model| *model != asked.model) {
            Some(Misfit::Model)
        } else if lacks(&when.system, &asked.system) {
            Some(Misfit::System)
        } else if lacks(&when.assignment, &asked.assignment) {
            Some(Misfit::Assignment)
        } else if lacks(&when.last, &asked.last) {
            Some(Misfit::Last)
        } else if when.turn.is_some_and(|turn| turn != asked.turn)
            || (rule.any_turn.is_none() && !rule.turns.contains_key(&asked.turn))
        {
            Some(Misfit::Turn)
        } else if rule.times.is_some_and(|times| self.used[index] >= times) {
            Some(Misfit::UsedUp)
        } else {
            None
        }
    }
}

/// Why a rule does not fit; put into words only when none does.
enum Misfit {
    Model,
    System,
    Assignment,
    Last,
    Turn,
    UsedUp,
}

fn explain(script: &Script, asked: &Asked, misfits: &[(usize, Misfit)]) -> String {
    let reasons = misfits.iter().map(|(index, misfit)| {
        let rule = &script.rules[*index];
        let (name, when) = (&rule.name, &rule.when);
        let part = |part: &Option<String>| format!("{:?}", part.as_deref().unwrap_or_default());
        match misfit {
            Misfit::Model => format!("{name:?} is for model {}", part(&when.model)),
            Misfit::System => format!("{name:?} is for system prompts with {}", part(&when.system)),
            Misfit::Assignment => {
                format!("{name:?} is for assignments with {}", part(&when.assignment))
            }
            Misfit::Last => format!("{name:?} is for last words with {}", part(&when.last)),
            Misfit::Turn => format!("{name:?} has no answer for turn {}", asked.turn),
            Misfit::UsedUp => {
                format!("{name:?} is used up after {} times", rule.times.unwrap_or_default())
            }
        }
    });
    let reasons: Vec<String> = reasons.collect();
    format!("no rule fits turn {} on model {:?}: {}", asked.turn, asked.model, reasons.join("; "))
}
