//! Files and functions stay short enough to be read at once.

use crate::{Text, assert_none, texts};

const FILE_LINES: usize = 450;
const FUNCTION_LINES: usize = 80;

#[test]
fn files_of_rust_and_sql_have_at_most_450_lines() {
    let mut long = Vec::new();
    for text in texts().iter().filter(|text| text.has_extension(&["rs", "sql"])) {
        let lines = text.text.lines().count();
        if lines > FILE_LINES {
            long.push(format!("{} has {lines} lines", text.path.display()));
        }
    }
    assert_none("files of over 450 lines", &long);
}

#[test]
fn functions_of_rust_have_at_most_80_lines() {
    assert_short_functions("rs", rust_functions);
}

#[test]
fn functions_of_sql_have_at_most_80_lines() {
    assert_short_functions("sql", sql_functions);
}

#[track_caller]
fn assert_short_functions(extension: &str, functions: fn(&str) -> Vec<Function>) {
    let texts = texts();
    let texts: Vec<&Text> = texts.iter().filter(|text| text.has_extension(&[extension])).collect();
    let mut long = Vec::new();
    let mut found = 0;
    for text in texts {
        for function in functions(&text.text) {
            found += 1;
            if function.lines > FUNCTION_LINES {
                let Function { first, name, lines } = function;
                long.push(format!("{} {name} has {lines} lines", text.at(first)));
            }
        }
    }
    assert!(found > 100, "only {found} functions were found");
    assert_none("functions of over 80 lines", &long);
}

struct Function {
    name: String,
    /// The number of its first line.
    first: usize,
    lines: usize,
}

/// The functions of a formatted Rust file: each ends with the brace at the indentation of its first
/// line.
fn rust_functions(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indentation = &line[..line.len() - code.len()];
        let Some(name) = rust_function_name(code) else { continue };
        let closing = format!("{indentation}}}");
        let signature_end = lines[index..].iter().position(|line| line.ends_with(['{', '}', ';']));
        let Some(signature) = signature_end else { continue };
        if !lines[index + signature].ends_with('{') {
            continue;
        }
        let Some(end) = lines[index..].iter().position(|line| **line == closing) else { continue };
        found.push(Function { name: name.to_owned(), first: index + 1, lines: end + 1 });
    }
    found
}

fn rust_function_name(code: &str) -> Option<&str> {
    let (before, after) = code.split_once("fn ")?;
    let mut qualifiers = before.split_whitespace();
    let is_qualifier = |word: &str| {
        word.starts_with("pub") || matches!(word, "const" | "async" | "extern" | "\"C\"" | "in")
    };
    if !qualifiers.all(|word| is_qualifier(word) || word.ends_with(')')) {
        return None;
    }
    after.split(['(', '<']).next()
}

/// The functions of a migration: each ends with the `$$;` of its body.
fn sql_functions(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(name) = sql_function_name(line) else { continue };
        let end = lines[index..].iter().position(|line| line.trim_end().ends_with("$$;"));
        let end = end.unwrap_or_else(|| panic!("no end of {name}"));
        found.push(Function { name: name.to_owned(), first: index + 1, lines: end + 1 });
    }
    found
}

pub fn sql_function_name(line: &str) -> Option<&str> {
    let starts = ["create function ", "create or replace function ", "create procedure "];
    let after = starts.iter().find_map(|start| line.strip_prefix(start))?;
    after.split('(').next()
}

#[test]
fn a_function_is_counted_to_its_own_brace() {
    let text = "impl X {\n    pub(crate) async fn one(\n        a: u8,\n    ) {\n        if a {\n        }\n    }\n\n    fn two();\n}\n";
    let functions = rust_functions(text);
    assert_eq!(functions.len(), 1);
    assert_eq!((functions[0].name.as_str(), functions[0].lines), ("one", 6));
    let text = "create function f_1() returns void as $$\nbegin\nend $$;\nselect 1;\n";
    assert_eq!(sql_functions(text)[0].lines, 3);
}
