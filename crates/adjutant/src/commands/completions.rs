//! `adjutant completions`: completion scripts for shells.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;

/// Print a shell's completion script
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant completions bash > ~/.local/share/bash-completion/completions/adjutant
  adjutant completions zsh > ~/.zfunc/_adjutant
  adjutant completions fish > ~/.config/fish/completions/adjutant.fish
")]
pub struct Arguments {
    shell: Shell,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    // The generator panics on a closed pipe, so it does not write to standard output directly.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "adjutant", &mut script);
    std::io::stdout().write_all(&script).context("cannot write to standard output")?;
    Ok(ExitCode::SUCCESS)
}
