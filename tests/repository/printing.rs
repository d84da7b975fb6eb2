//! All output of the program goes through `output.rs`, which escapes what others wrote.

use crate::source_code::rust_code;
use crate::{assert_none, texts};

/// Ways to print past the output layer.
const FORBIDDEN: [&str; 7] = [
    "println!",
    "print!(",
    "io::stdout",
    "io::stderr",
    "Term::stdout",
    "Term::stderr",
    "indicatif::",
];

/// `adjutant mcp` speaks to a program.
const PROTOCOL: &str = "tokio::io::stdout()";

/// The output layer; progress bars that show only texts of this program; a program for tests.
const EXEMPT: [&str; 6] = [
    "crates/adjutant/src/output.rs",
    "crates/adjutant/src/output/",
    "crates/adjutant/src/commands/demo/output.rs",
    "crates/adjutant/src/commands/bench.rs",
    "crates/adjutant/src/commands/bench/",
    "crates/adjutant-model/",
];

fn lines_that_print(code: &str) -> Vec<usize> {
    let prints = |line: &str| {
        let line = line.replace(PROTOCOL, "");
        FORBIDDEN.iter().any(|way| line.contains(way))
            || ["stdout()", "stderr()"].iter().any(|call| is_called(&line, call))
    };
    code.lines().enumerate().filter(|(_, line)| prints(line)).map(|(at, _)| at + 1).collect()
}

/// Whether a line has this call, and not one whose name only ends in the same way.
fn is_called(line: &str, call: &str) -> bool {
    let is_in_name = |before: char| before.is_alphanumeric() || before == '_';
    line.match_indices(call).any(|(at, _)| !line[..at].ends_with(is_in_name))
}

#[test]
fn only_the_output_layer_prints() {
    let mut broken = Vec::new();
    for file in texts() {
        let path = file.path.to_string_lossy();
        let is_source = path.starts_with("crates/") && path.contains("/src/");
        let is_exempt = EXEMPT.iter().any(|exempt| path.starts_with(exempt));
        if is_source && file.has_extension(&["rs"]) && !is_exempt {
            let lines = lines_that_print(&rust_code(&file.text));
            broken.extend(lines.into_iter().map(|line| file.at(line)));
        }
    }
    assert_none("print with crate::output, which escapes what others wrote", &broken);
}

#[test]
fn every_way_to_print_is_found() {
    for code in [
        "println!(\"{label}\");",
        "eprintln!(\"{label}\");",
        "eprint!(\"{label}\");",
        "writeln!(std::io::stdout(), \"x\")",
        "let mut out = io::stderr().lock();",
        "stdout().write_all(bytes)",
        "ProgressBar::new(indicatif::x)",
    ] {
        assert_eq!(lines_that_print(&rust_code(code)), [1], "{code}");
    }
    let harmless = "command.stdout(Stdio::null()); OutputStyle::for_stdout(); // println!";
    assert!(lines_that_print(&rust_code(harmless)).is_empty());
}
