//! What every command takes that speaks to a server.

use clap::Args;

use crate::client::{Answer, Client, Form};
use crate::output::print_line;

/// Where `adjutant up` listens if nothing is said.
pub const DEFAULT_URL: &str = "http://127.0.0.1:7433";

pub const DEFAULT_SESSION: &str = "default";

#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub struct Reach {
    /// Where the server is
    #[arg(long, env = "ADJUTANT_URL", value_name = "URL", default_value = DEFAULT_URL, hide_env_values = true)]
    url: String,

    /// The key to call it with; better in the environment, where others do not see it
    #[arg(long, env = "ADJUTANT_API_KEY", value_name = "KEY", hide_env_values = true)]
    api_key: Option<String>,

    /// Print the server's answer as it is
    #[arg(long)]
    json: bool,
}

impl Reach {
    pub fn client(&self) -> anyhow::Result<Client> {
        let key = self.api_key.as_deref().filter(|key| !key.trim().is_empty());
        Client::new(&self.url, key, self.form())
    }

    pub fn form(&self) -> Form {
        if self.json { Form::Json } else { Form::Plain }
    }

    /// What has to be added to another command so that it reaches the same server.
    pub fn again(&self, client: &Client) -> String {
        if self.url == DEFAULT_URL { String::new() } else { format!(" --url {}", client.url()) }
    }
}

#[derive(Debug, Args)]
pub struct InSession {
    /// The session to work in
    #[arg(long, short, env = "ADJUTANT_SESSION", value_name = "SESSION", default_value = DEFAULT_SESSION)]
    session: String,
}

impl InSession {
    /// An empty variable says nothing.
    pub fn name(&self) -> &str {
        if self.session.is_empty() { DEFAULT_SESSION } else { &self.session }
    }

    /// What has to be added to another command so that it works in the same session.
    pub fn again(&self) -> String {
        if self.name() == DEFAULT_SESSION { String::new() } else { format!(" --session '{}'", self.name()) }
    }
}

/// Prints an answer as it came, or as this says it.
pub fn show(client: &Client, answer: &Answer, plainly: impl FnOnce() -> String) -> anyhow::Result<()> {
    match client.form() {
        Form::Json => print_line(&answer.text),
        Form::Plain => {
            let shown = plainly();
            if shown.is_empty() { Ok(()) } else { print_line(&shown) }
        }
    }
}
