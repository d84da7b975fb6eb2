//! A client that knows no more than HTTP and JSON.

use adjutant_script::{Script, ScriptServer, Wire};
use serde_json::{Value, json};

pub const WIRES: [Wire; 2] = [Wire::OpenAi, Wire::Anthropic];

pub struct Client {
    http: reqwest::Client,
    url: String,
}

pub async fn play(script: Script) -> (ScriptServer, Client) {
    let server = ScriptServer::start(script).await.unwrap();
    let client = Client::of(&server);
    (server, client)
}

/// Both wires take this, with what each of them needs besides.
pub fn request(messages: Value) -> Value {
    json!({"model": "m", "max_tokens": 100, "messages": messages})
}

pub fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

pub fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

impl Client {
    pub fn of(server: &ScriptServer) -> Self {
        // The client wants one even for plain HTTP; another test of the process may have been
        // faster.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self { http: reqwest::Client::new(), url: server.url() }
    }

    pub fn request(&self, wire: Wire, body: &Value) -> reqwest::RequestBuilder {
        match wire {
            Wire::OpenAi => self
                .http
                .post(format!("{}/v1/chat/completions", self.url))
                .bearer_auth("test-key")
                .json(body),
            Wire::Anthropic => self
                .http
                .post(format!("{}/v1/messages", self.url))
                .header("x-api-key", "test-key")
                .header("anthropic-version", "2023-06-01")
                .json(body),
        }
    }

    pub async fn send(&self, wire: Wire, body: &Value) -> reqwest::Response {
        self.request(wire, body).send().await.unwrap()
    }

    /// The answer's text, or the error's message.
    pub async fn say(&self, wire: Wire, messages: Value) -> String {
        let answer: Value = self.send(wire, &request(messages)).await.json().await.unwrap();
        let text = match wire {
            Wire::OpenAi => &answer["choices"][0]["message"]["content"],
            Wire::Anthropic => &answer["content"][0]["text"],
        };
        text.as_str().or(answer["error"]["message"].as_str()).unwrap_or_default().to_owned()
    }

    /// The events of a stream that ends well.
    pub async fn stream(&self, wire: Wire, mut body: Value) -> Vec<Event> {
        body["stream"] = true.into();
        let response = self.send(wire, &body).await;
        assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
        let (events, rest, end) = read_stream(response).await;
        end.unwrap();
        assert_eq!(rest, "");
        events
    }

    pub async fn get(&self, path: &str) -> Value {
        self.http.get(format!("{}{path}", self.url)).send().await.unwrap().json().await.unwrap()
    }
}

#[derive(Debug)]
pub struct Event {
    pub name: String,
    pub data: String,
}

impl Event {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }
}

/// The whole events, what is left after them, and how the body ended.
pub async fn read_stream(
    mut response: reqwest::Response,
) -> (Vec<Event>, String, reqwest::Result<()>) {
    let mut bytes = Vec::new();
    let end = loop {
        match response.chunk().await {
            Ok(Some(chunk)) => bytes.extend(chunk),
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let text = String::from_utf8(bytes).unwrap();
    let mut parts: Vec<&str> = text.split("\n\n").collect();
    let rest = parts.pop().unwrap_or_default().to_owned();
    let field = |part: &str, name: &str| {
        part.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned()
    };
    let events = parts
        .iter()
        .map(|part| Event { name: field(part, "event: "), data: field(part, "data: ") });
    (events.collect(), rest, end)
}
