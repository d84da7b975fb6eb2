//! The arguments of commands that talk to a server.

use clap::Args;

use crate::client::{Answer, Client, OutputFormat};
use crate::output::print_line;

/// The default address of `adjutant up`.
pub const DEFAULT_URL: &str = "http://127.0.0.1:7433";

pub const DEFAULT_SESSION: &str = "default";

#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub struct ServerArgs {
    /// The URL of the server
    #[arg(long, env = "ADJUTANT_URL", value_name = "URL", default_value = DEFAULT_URL, hide_env_values = true)]
    url: String,

    /// The API key; pass it in the environment to keep it out of process lists
    #[arg(long, env = "ADJUTANT_API_KEY", value_name = "KEY", hide_env_values = true)]
    api_key: Option<String>,

    /// Print the server's JSON unchanged
    #[arg(long)]
    json: bool,
}

impl ServerArgs {
    pub fn client(&self) -> anyhow::Result<Client> {
        let key = self.api_key.as_deref().filter(|key| !key.trim().is_empty());
        Client::new(&self.url, key, self.format())
    }

    pub fn format(&self) -> OutputFormat {
        if self.json { OutputFormat::Json } else { OutputFormat::Text }
    }

    /// The flags that make another command use the same server.
    pub fn repeat_flags(&self, client: &Client) -> String {
        if self.url == DEFAULT_URL { String::new() } else { format!(" --url {}", client.url()) }
    }
}

#[derive(Debug, Args)]
pub struct SessionArgs {
    /// The session to work in
    #[arg(long, short, env = "ADJUTANT_SESSION", value_name = "SESSION", default_value = DEFAULT_SESSION)]
    session: String,
}

impl SessionArgs {
    /// An empty variable counts as not set.
    pub fn name(&self) -> &str {
        if self.session.is_empty() { DEFAULT_SESSION } else { &self.session }
    }

    /// The flags that make another command use the same session.
    pub fn repeat_flags(&self) -> String {
        if self.name() == DEFAULT_SESSION {
            String::new()
        } else {
            format!(" --session '{}'", self.name())
        }
    }
}

/// Prints an answer as JSON, or as the text that `text` returns.
pub fn print_answer(
    client: &Client,
    answer: &Answer,
    text: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    match client.format() {
        OutputFormat::Json => print_line(&answer.text),
        OutputFormat::Text => {
            let text = text();
            if text.is_empty() { Ok(()) } else { print_line(&text) }
        }
    }
}
