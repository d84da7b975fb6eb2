//! Reads Rust and SQL as far as the checks need: code apart from comments and strings.

/// The code of a Rust file; comments and the contents of strings are blank.
pub fn rust_code(text: &str) -> String {
    scan(text, Language::Rust).0
}

/// The code of an SQL file; comments and the contents of strings are blank, function bodies are
/// not.
pub fn sql_code(text: &str) -> String {
    scan(text, Language::Sql).0
}

/// The string literals of a Rust file, each with the number of the line where it starts.
pub fn string_literals(text: &str) -> Vec<(usize, String)> {
    scan(text, Language::Rust).1
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    Rust,
    Sql,
}

fn scan(text: &str, language: Language) -> (String, Vec<(usize, String)>) {
    let (mut code, mut literals) = (String::new(), Vec::new());
    let mut line = 1;
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let length = match language {
            Language::Rust => rust_blank(rest, code.chars().last()),
            Language::Sql => sql_blank(rest),
        };
        let Some(length) = length else {
            code.push(next);
            line += usize::from(next == '\n');
            rest = &rest[next.len_utf8()..];
            continue;
        };
        let blank = &rest[..length];
        if !blank.starts_with("//") && !blank.starts_with("/*") && blank.contains('"') {
            let literal = blank.trim_matches(['r', 'b', 'c', '#', '"']);
            literals.push((line, literal.to_owned()));
        }
        code.push(' ');
        code.extend(blank.chars().filter(|c| *c == '\n'));
        line += blank.matches('\n').count();
        rest = &rest[length..];
    }
    (code, literals)
}

/// The length of the comment, string or character at the start of the text, if there is one.
fn rust_blank(text: &str, before: Option<char>) -> Option<usize> {
    let until = |start: usize, end: &str| {
        text[start..].find(end).map_or(text.len(), |at| start + at + end.len())
    };
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(until(2, "*/"));
    }
    if text.starts_with('"') {
        return Some(quoted(text, '"'));
    }
    let is_in_name = before.is_some_and(|before| before.is_alphanumeric() || before == '_');
    if !is_in_name && let Some(after) = text.strip_prefix("r") {
        let hashes = after.len() - after.trim_start_matches('#').len();
        if after[hashes..].starts_with('"') {
            return Some(until(hashes + 2, &format!("\"{}", "#".repeat(hashes))));
        }
    }
    // A character, not a lifetime.
    let mut characters = text.strip_prefix('\'')?.chars();
    match (characters.next()?, characters.next()?) {
        ('\\', _) => Some(quoted(text, '\'')),
        (one, '\'') => Some(2 + one.len_utf8()),
        _ => None,
    }
}

fn sql_blank(text: &str) -> Option<usize> {
    if text.starts_with("--") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    let after = text.strip_prefix('\'')?;
    Some(after.find('\'').map_or(text.len(), |end| end + 2))
}

/// The length of what is between two quotes, with the quotes.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, next) in text.char_indices().skip(1) {
        if next == quote && !is_escaped {
            return at + 1;
        }
        is_escaped = next == '\\' && !is_escaped;
    }
    text.len()
}

/// The identifiers of a text of code, each with the number of its line.
pub fn identifiers(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let names = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        found.extend(names.filter(|name| !name.is_empty()).map(|name| (index + 1, name)));
    }
    found
}

#[test]
fn comments_and_strings_are_no_code() {
    let text = r##"let a = 'x'; // Seat
let b = "Seat \" Seat"; /* Seat */ fn f<'a>(c: &'a str) { r#"Seat "x" "# }"##;
    let code = rust_code(text);
    assert!(!code.contains("Seat"), "{code}");
    assert_eq!(code.lines().count(), 2);
    assert!(identifiers(&code).contains(&(2, "str")));
    assert_eq!(string_literals(text)[0], (2, r#"Seat \" Seat"#.to_owned()));
    assert!(!sql_code("select 'Seat' -- Seat\nfrom x").contains("Seat"));
}
