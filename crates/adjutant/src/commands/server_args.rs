//! The arguments of commands that talk to a server.

use std::path::PathBuf;

use clap::Args;

use crate::client::{Answer, Client, OutputFormat};
use crate::exit::CommandError;
use crate::output::{Shown, print_json, print_line};
use crate::private_postgres::url_on;
use crate::running::{self, Running};

/// The default address of `adjutant up`.
pub const DEFAULT_URL: &str = "http://127.0.0.1:7433";

pub const DEFAULT_SESSION: &str = "default";

#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub struct ServerArgs {
    /// The URL of the server [default: the `adjutant up` that runs here, else
    /// http://127.0.0.1:7433]
    #[arg(long, env = "ADJUTANT_URL", value_name = "URL", hide_env_values = true)]
    url: Option<String>,

    /// Use the `adjutant up` that runs on this data directory
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

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
        Client::new(&self.find_url()?, key, self.format())
    }

    fn find_url(&self) -> anyhow::Result<String> {
        if let Some(dir) = &self.data_dir {
            return url_on(dir);
        }
        match self.url.as_deref().filter(|url| !url.is_empty()) {
            Some(url) => Ok(url.to_owned()),
            None => {
                let found = only_one(running::complete(), "--url")?;
                Ok(found.map_or_else(|| DEFAULT_URL.to_owned(), |running| running.url))
            }
        }
    }

    pub fn format(&self) -> OutputFormat {
        if self.json { OutputFormat::Json } else { OutputFormat::Text }
    }

    /// The flags that make another command use the same server.
    pub fn repeat_flags(&self, client: &Client) -> String {
        match (&self.data_dir, self.url.as_deref()) {
            (Some(dir), _) => format!(" --data-dir '{}'", dir.display()),
            (None, None | Some("" | DEFAULT_URL)) => String::new(),
            (None, Some(_)) => format!(" --url {}", client.url()),
        }
    }
}

/// The server that runs here, if it is only one. `flag` names the one to use.
pub fn only_one(mut running: Vec<Running>, flag: &str) -> anyhow::Result<Option<Running>> {
    if running.len() > 1 {
        let list: Vec<String> = running.iter().map(|running| format!("\n  {running}")).collect();
        let text = format!(
            "{} servers run here; say which one with {flag} or --data-dir:{}",
            running.len(),
            list.concat()
        );
        return Err(CommandError::usage(text).into());
    }
    Ok(running.pop())
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
pub fn print_answer<T: Into<Shown>>(
    client: &Client,
    answer: &Answer,
    text: impl FnOnce() -> T,
) -> anyhow::Result<()> {
    match client.format() {
        OutputFormat::Json => print_json(&answer.text),
        OutputFormat::Text => {
            let text: Shown = text().into();
            if text.is_empty() { Ok(()) } else { print_line(text) }
        }
    }
}
