//! `adjutant completions`: completion scripts for shells.

use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::output::print_content;

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
    print_content(String::from_utf8(script)?.trim_end())?;
    Ok(ExitCode::SUCCESS)
}
