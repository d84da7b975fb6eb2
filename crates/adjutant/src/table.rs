//! Tables that fit the terminal, and colour where it is wanted.

use std::io::IsTerminal;

use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, presets,
};
use serde_json::Value;

/// Without a terminal a table is as wide as it has to be: a program may read it.
const UNBOUNDED: u16 = u16::MAX;

/// How something is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    pub width: u16,
    pub paint: Paint,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    Plain,
    Colour,
}

impl Look {
    /// That of standard output: colour on a terminal only, and not against <https://no-color.org>.
    pub fn of_stdout() -> Self {
        if !std::io::stdout().is_terminal() {
            return Self { width: UNBOUNDED, paint: Paint::Plain };
        }
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let (_, width) = console::Term::stdout().size();
        Self { width, paint: if refused { Paint::Plain } else { Paint::Colour } }
    }
}

/// One column: its title, and how its cells are set.
#[derive(Debug, Clone, Copy)]
pub enum Column {
    /// Never broken: ids and words.
    Word(&'static str),
    /// As wide as there is room.
    Text(&'static str),
    Number(&'static str),
    /// A state in its colour.
    State(&'static str),
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Self::Word(title) | Self::Text(title) | Self::Number(title) | Self::State(title) => title,
        }
    }

    fn cell(self, text: &str, paint: Paint) -> Cell {
        let cell = Cell::new(text);
        match (self, paint) {
            (Self::Number(_), _) => cell.set_alignment(CellAlignment::Right),
            (Self::State(_), Paint::Colour) => {
                state_colour(text).map_or(cell.clone(), |colour| cell.fg(colour))
            }
            (Self::State(_), Paint::Plain) | (Self::Word(_) | Self::Text(_), _) => cell,
        }
    }
}

fn state_colour(state: &str) -> Option<Color> {
    // The word comes first: `failed (max_turns)`.
    match state.split(' ').next()? {
        "completed" | "ok" | "alive" => Some(Color::Green),
        "running" => Some(Color::Cyan),
        "failed" | "wrong" => Some(Color::Red),
        "cancelled" | "waiting" | "warning" | "draining" => Some(Color::Yellow),
        _ => None,
    }
}

/// Rows under titles, without lines between them. Only texts are broken, and only where there is no room.
pub fn table(columns: &[Column], rows: &[Vec<String>], look: Look) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(look.width);
    match look.paint {
        Paint::Plain => table.force_no_tty(),
        Paint::Colour => table.enforce_styling(),
    };
    let title = |column: &Column| {
        let cell = column.cell(column.title(), Paint::Plain);
        match look.paint {
            Paint::Plain => cell,
            Paint::Colour => cell.add_attribute(Attribute::Bold),
        }
    };
    table.set_header(columns.iter().map(title));
    for row in rows {
        table.add_row(columns.iter().zip(row).map(|(column, text)| column.cell(text, look.paint)));
    }
    for (number, column) in columns.iter().enumerate() {
        let Some(set) = table.column_mut(number) else { continue };
        set.set_padding((0, 2));
        if !matches!(column, Column::Text(_)) {
            set.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    // The padding of the last column is not for anyone.
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

/// A text of an answer; nothing when it is absent or null.
pub fn text(value: &Value, name: &str) -> String {
    match value.get(name) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_))) => {
            other.to_string()
        }
    }
}

/// A list of an answer; empty when it is absent.
pub fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The first line of a text, cut to so many characters.
pub fn shortened(text: &str, most: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    let cut = line.chars().count() > most || line.len() < text.trim_end().len();
    let kept: String = line.chars().take(if cut { most.saturating_sub(1) } else { most }).collect();
    if cut { format!("{}…", kept.trim_end()) } else { kept }
}

/// `1 turn`, `2 turns`.
pub fn counted(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] =
        [Column::Word("ID"), Column::State("STATE"), Column::Number("TURNS"), Column::Text("LABEL")];

    fn rows() -> Vec<Vec<String>> {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        vec![
            row(["t_01", "completed", "3", "reads the logs of the last night and says what is odd"]),
            row(["t_100", "failed (max_turns)", "25", ""]),
        ]
    }

    #[test]
    fn a_table_fits_its_width_and_breaks_only_texts() {
        let shown = table(&COLUMNS, &rows(), Look { width: 60, paint: Paint::Plain });
        let widest = shown.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 60, "{shown}");
        assert!(shown.contains("failed (max_turns)"), "{shown}");
        assert!(shown.lines().count() > 3, "the label is broken: {shown}");
    }

    #[test]
    fn an_id_is_never_broken_however_long_the_text_beside_it() {
        let (id, long) = ("0198c0de-0000-7000-8000-000000000001", "word ".repeat(30));
        let columns = [Column::Word("ID"), Column::Text("TEXT")];
        let shown = table(&columns, &[vec![id.to_owned(), long]], Look { width: 60, paint: Paint::Plain });
        assert!(shown.contains(id), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 60), "{shown}");
    }

    #[test]
    fn without_a_terminal_a_row_is_a_line() {
        let shown = table(&COLUMNS, &rows(), Look { width: UNBOUNDED, paint: Paint::Plain });
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(
            lines,
            [
                "ID     STATE               TURNS  LABEL",
                "t_01   completed               3  reads the logs of the last night and says what is odd",
                "t_100  failed (max_turns)     25",
            ]
        );
    }

    #[test]
    fn colour_is_only_where_it_is_wanted() {
        let plain = table(&COLUMNS, &rows(), Look { width: 80, paint: Paint::Plain });
        assert!(!plain.contains('\u{1b}'), "{plain}");
        let painted = table(&COLUMNS, &rows(), Look { width: 80, paint: Paint::Colour });
        assert!(painted.contains('\u{1b}'), "{painted}");
    }

    #[test]
    fn a_shortened_text_is_one_line() {
        assert_eq!(shortened("short", 10), "short");
        assert_eq!(shortened("exactly 10", 10), "exactly 10");
        assert_eq!(shortened("much longer", 10), "much long…");
        assert_eq!(shortened("two\nlines", 10), "two…");
        assert_eq!(shortened("ends in a line\n", 20), "ends in a line");
    }
}
