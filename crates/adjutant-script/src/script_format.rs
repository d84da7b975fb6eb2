//! The file format of a script: flat, with short forms. It is checked during deserialization, so
//! that errors have line numbers.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::de::{
    Deserializer, Error as _, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer,
};
use serde::{Deserialize, de};
use serde_json::{Map, Value};

use crate::answer::{
    Answer, Answers, CallArguments, ErrorText, Fault, Headers, Pace, Reply, ToolCall, Usage, text,
};
use crate::script::{Rule, Script, When};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScriptForm {
    #[serde(rename = "rule", alias = "rules", default)]
    rules: Vec<Rule>,
    #[serde(default)]
    default: Option<Answer>,
    #[serde(default)]
    once: bool,
}

impl TryFrom<ScriptForm> for Script {
    type Error = &'static str;

    fn try_from(form: ScriptForm) -> Result<Self, Self::Error> {
        if form.rules.is_empty() && form.default.is_none() {
            return Err("the script has no [[rule]] and no `default`: it would answer nothing");
        }
        let mut rules = form.rules;
        for (index, rule) in rules.iter_mut().enumerate().filter(|(_, rule)| rule.name.is_empty()) {
            rule.name = format!("rule {}", index + 1);
        }
        Ok(Self { rules, otherwise: form.default, once: form.once })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleForm {
    #[serde(default)]
    name: String,
    #[serde(default)]
    when: When,
    #[serde(default)]
    times: Option<u32>,
    #[serde(default)]
    turns: Vec<Answers>,
    #[serde(default)]
    answer: Option<Answers>,
}

impl RuleForm {
    fn into_rule(self) -> Result<Rule, &'static str> {
        if self.turns.is_empty() && self.answer.is_none() {
            return Err("the rule has no `turns` and no `answer`");
        }
        if self.when.turn == Some(0) {
            return Err("turns count from 1");
        }
        if self.when.turn.is_some() && !self.turns.is_empty() {
            return Err("`turns` gives the turns already: write `answer` with `when.turn`");
        }
        Ok(Rule {
            name: self.name,
            when: self.when,
            turns: (1..).zip(self.turns).collect(),
            any_turn: self.answer,
            times: self.times,
        })
    }
}

/// Checked inside the visitor, as answers are: only there does an error get the line of its table.
impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Table;

        impl<'de> Visitor<'de> for Table {
            type Value = Rule;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a rule")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Rule, A::Error> {
                RuleForm::deserialize(MapAccessDeserializer::new(map))?
                    .into_rule()
                    .map_err(A::Error::custom)
            }
        }

        deserializer.deserialize_map(Table)
    }
}

/// A text, a table, or a list of them for the first, the second ... request.
impl<'de> Deserialize<'de> for Answers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMore;

        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Answers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, an answer, or a list of answers")
            }

            fn visit_str<E: de::Error>(self, said: &str) -> Result<Answers, E> {
                Ok(said.into())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Answers, A::Error> {
                Answer::deserialize(MapAccessDeserializer::new(map)).map(Answers::from)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Answers, A::Error> {
                let mut answers = Vec::new();
                while let Some(answer) = list.next_element()? {
                    answers.push(answer);
                }
                if answers.is_empty() {
                    Err(A::Error::custom("an empty list of answers"))
                } else {
                    Ok(Answers(answers))
                }
            }
        }

        deserializer.deserialize_any(OneOrMore)
    }
}

impl<'de> Deserialize<'de> for Answer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrTable;

        impl<'de> Visitor<'de> for TextOrTable {
            type Value = Answer;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or an answer")
            }

            fn visit_str<E: de::Error>(self, said: &str) -> Result<Answer, E> {
                Ok(text(said))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Answer, A::Error> {
                let form = AnswerForm::deserialize(MapAccessDeserializer::new(map))?;
                form.into_answer().map_err(A::Error::custom)
            }
        }

        deserializer.deserialize_any(TextOrTable)
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AnswerForm {
    text: Option<String>,
    thinking: Option<String>,
    fields: Map<String, Value>,
    refusal: Option<String>,
    call: Option<String>,
    arguments: Option<Value>,
    raw_arguments: Option<String>,
    id: Option<String>,
    call_fields: Map<String, Value>,
    calls: Vec<CallForm>,
    stop: Option<String>,
    usage: Option<Usage>,
    status: Option<u16>,
    error_type: Option<String>,
    message: Option<String>,
    body: Option<Value>,
    retry_after: Option<f64>,
    retry_after_date: Option<f64>,
    reset_after: Option<f64>,
    headers: BTreeMap<String, String>,
    delay_ms: u64,
    pause_ms: u64,
    chunk_chars: Option<usize>,
    chunk_delay_ms: u64,
    fault: Option<Fault>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallForm {
    name: String,
    #[serde(default)]
    arguments: Option<Value>,
    #[serde(default)]
    raw_arguments: Option<String>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    fields: Map<String, Value>,
}

impl AnswerForm {
    fn into_answer(self) -> Result<Answer, String> {
        self.check()?;
        let headers = Headers {
            retry_after_s: self.retry_after,
            retry_after_date_s: self.retry_after_date,
            reset_after_s: self.reset_after,
            others: self.headers,
        };
        check_headers(&headers)?;
        let mut calls = self.calls;
        if let Some(name) = self.call {
            calls.push(CallForm {
                name,
                arguments: self.arguments,
                raw_arguments: self.raw_arguments,
                id: self.id,
                fields: self.call_fields,
            });
        }
        let calls = calls.into_iter().map(CallForm::into_call).collect::<Result<_, _>>()?;
        let body = self.body.map(|body| match body {
            Value::String(text) => text,
            json @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_)) => json.to_string(),
        });
        Ok(Answer {
            reply: Reply {
                thinking: self.thinking,
                fields: self.fields,
                text: self.text,
                refusal: self.refusal,
                calls,
                stop: self.stop,
                usage: self.usage,
            },
            status: self.status,
            error: ErrorText { kind: self.error_type, message: self.message, body },
            headers,
            pace: Pace {
                delay: Duration::from_millis(self.delay_ms),
                pause: Duration::from_millis(self.pause_ms),
                chunk_delay: Duration::from_millis(self.chunk_delay_ms),
                chunk_chars: self.chunk_chars,
            },
            fault: self.fault,
        })
    }

    fn check(&self) -> Result<(), String> {
        let says = self.text.is_some() || self.refusal.is_some() || self.thinking.is_some();
        let calls = self.call.is_some() || !self.calls.is_empty();
        if self.call.is_none()
            && (self.arguments.is_some()
                || self.raw_arguments.is_some()
                || self.id.is_some()
                || !self.call_fields.is_empty())
        {
            let names = "`arguments`, `raw_arguments`, `id` and `call_fields`";
            return Err(format!("{names} belong to a `call`"));
        }
        if self.call.is_some() && !self.calls.is_empty() {
            return Err("`call` is one call and `calls` are several: write one of them".to_owned());
        }
        if self.status.is_some() && (says || calls) {
            return Err(
                "an answer with a `status` is an error: it has no text and no calls".to_owned()
            );
        }
        if self.status.is_some_and(|status| !(400..=599).contains(&status)) {
            return Err("`status` is that of an error: 400 to 599".to_owned());
        }
        if self.body.is_some() && self.status.is_none() {
            return Err("`body` is that of an error: it belongs to a `status`".to_owned());
        }
        if !says && !calls && self.status.is_none() && self.fault.is_none() {
            return Err("the answer says nothing; an empty one is text = \"\"".to_owned());
        }
        if self.chunk_chars == Some(0) {
            return Err("`chunk_chars` is at least 1".to_owned());
        }
        Ok(())
    }
}

fn check_headers(headers: &Headers) -> Result<(), String> {
    for (name, value) in &headers.others {
        axum::http::HeaderName::try_from(name)
            .map_err(|_| format!("{name:?} is not a header's name"))?;
        axum::http::HeaderValue::try_from(value)
            .map_err(|_| format!("header {name}: not a header's value"))?;
    }
    let times = [headers.retry_after_s, headers.retry_after_date_s, headers.reset_after_s];
    // A day is longer than any test waits.
    if times.into_iter().flatten().all(|seconds| (0.0..=86_400.0).contains(&seconds)) {
        Ok(())
    } else {
        Err("`retry_after`, `retry_after_date` and `reset_after` are seconds, from 0 to 86400"
            .to_owned())
    }
}

impl CallForm {
    fn into_call(self) -> Result<ToolCall, String> {
        let arguments = match (self.arguments, self.raw_arguments) {
            (Some(_), Some(_)) => {
                return Err(format!(
                    "call {}: `arguments` or `raw_arguments`, not both",
                    self.name
                ));
            }
            (None, Some(raw)) => CallArguments::Raw(raw),
            (Some(json), None) => CallArguments::Json(json),
            (None, None) => CallArguments::Json(Value::Object(serde_json::Map::new())),
        };
        Ok(ToolCall { name: self.name, id: self.id, arguments, fields: self.fields })
    }
}
