//! The table "a bad day" of docs/operate.md: the lines that tests expect are those that it has.

const OPERATE: &str = include_str!("../../docs/operate.md");

const HEADER: &str = "| trouble | `adjutant doctor` | `adjutant watch` | log |";

/// What names a trouble: documented lines.
pub struct Row {
    pub doctor: Vec<Line>,
    pub watch: Vec<Line>,
    pub server_log: Vec<Line>,
    pub worker_log: Vec<Line>,
}

/// A documented line. Its words have to be printed as they are and in this order; numbers, times
/// and names like HOST stand for any, and `...` for anything. Statuses of HTTP are meant.
#[derive(Debug)]
pub struct Line {
    documented: String,
    fragments: Vec<String>,
}

impl Line {
    fn new(documented: &str) -> Self {
        let mut fragments = vec![String::new()];
        for word in documented.split_whitespace() {
            let (skips_before, word) = (word.starts_with("..."), word.trim_start_matches("..."));
            let (skips_after, word) = (word.ends_with("..."), word.trim_end_matches("..."));
            if is_example(word) || word.is_empty() {
                fragments.push(String::new());
                continue;
            }
            if skips_before {
                fragments.push(String::new());
            }
            if let Some(last) = fragments.last_mut() {
                let space = if last.is_empty() { "" } else { " " };
                *last = format!("{last}{space}{word}");
            }
            if skips_after {
                fragments.push(String::new());
            }
        }
        fragments.retain(|fragment| !fragment.is_empty());
        assert!(!fragments.is_empty(), "{documented:?} says nothing");
        Self { documented: documented.to_owned(), fragments }
    }

    /// Whether one line of this output is the documented one. Quotes are escaped in JSON.
    pub fn is_in(&self, output: &str) -> bool {
        output.replace("\\\"", "\"").lines().any(|line| {
            let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
            let mut rest = line.as_str();
            self.fragments.iter().all(|fragment| match rest.split_once(fragment.as_str()) {
                Some((_, after)) => {
                    rest = after;
                    true
                }
                None => false,
            })
        })
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.documented)
    }
}

/// A number, a time or a name that differs from day to day.
fn is_example(word: &str) -> bool {
    let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let is_status = bare.parse().is_ok_and(|status: u16| (400..600).contains(&status));
    let has_digit = bare.contains(|c: char| c.is_ascii_digit());
    let is_name = ["HOST", "HOST:PID", "ID"].contains(&bare);
    is_name || has_digit && !is_status
}

/// The pieces of code in a cell, each with the text before it.
fn code_of(cell: &str) -> Vec<(&str, &str)> {
    let (mut found, mut rest) = (Vec::new(), cell);
    while let Some(start) = rest.find('`') {
        let mark = if rest[start..].starts_with("``") { "``" } else { "`" };
        let (before, code) = (&rest[..start], &rest[start + mark.len()..]);
        let end = code.find(mark).unwrap_or_else(|| panic!("{mark} is not closed in {cell:?}"));
        found.push((before, code[..end].trim()));
        rest = &code[end + mark.len()..];
    }
    found
}

fn lines() -> impl Iterator<Item = Vec<&'static str>> {
    let table = OPERATE.lines().skip_while(|line| *line != HEADER).skip(2);
    let rows = table.take_while(|line| line.starts_with('|'));
    rows.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
}

/// The row of a trouble.
pub fn row(trouble: &str) -> Row {
    let cells = lines()
        .find(|cells| cells[0] == trouble)
        .unwrap_or_else(|| panic!("the table has no row {trouble:?}"));
    let all = |cell: &str| code_of(cell).into_iter().map(|(_, code)| Line::new(code)).collect();
    let mut row = Row {
        doctor: all(cells[1]),
        watch: all(cells[2]),
        server_log: Vec::new(),
        worker_log: Vec::new(),
    };
    let mut is_server = false;
    for (before, code) in code_of(cells[3]) {
        is_server = before.contains("server:") || is_server && !before.contains("worker:");
        let log = if is_server { &mut row.server_log } else { &mut row.worker_log };
        log.push(Line::new(code));
    }
    row
}

#[test]
fn a_test_plays_every_row_of_the_table() {
    let tests = include_str!("bad_days.rs");
    let troubles: Vec<&str> = lines().map(|cells| cells[0]).collect();
    assert!(troubles.len() >= 12, "{troubles:?}");
    let unplayed: Vec<_> =
        troubles.iter().filter(|trouble| !tests.contains(&format!("{trouble:?}"))).collect();
    assert!(unplayed.is_empty(), "no test plays {unplayed:?}");
}

#[test]
fn numbers_times_and_names_of_a_documented_line_stand_for_any() {
    let line =
        Line::new("worker HOST:PID was last heard 12s ago and holds 2 tasks; ... until 12:00");
    assert!(line.is_in("x\n ok  worker a:7 was last heard 301s ago and holds 4 tasks; y until 3"));
    assert!(!line.is_in("worker a:7 was last heard 301s ago\nand holds 4 tasks; until"));
    assert!(!line.is_in("worker a:7 was last heard 301s ago and holds 1 task; until 3"));
    assert!(Line::new("refused: 401 error").is_in("refused: 401 error"));
    assert!(!Line::new("refused: 401 error").is_in("refused: 403 error"));
}
