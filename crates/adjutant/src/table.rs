//! Tables that fit the terminal, and colour where it is wanted.

use std::io::IsTerminal;

use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, presets,
};
use console::{measure_text_width, truncate_str};
use serde_json::Value;

/// Without a terminal a table is as wide as it has to be: a program may read it.
const UNBOUNDED: u16 = u16::MAX;

/// Between two columns.
const GAP: usize = 2;

/// What is left of a name, and of a text, before whole columns are left out.
const LEAST_NAME: usize = 12;
const LEAST_TEXT: usize = 16;

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
    /// A word that may be cut where there is no room.
    Name(&'static str),
    /// As wide as there is room, and broken into lines.
    Text(&'static str),
    /// As wide as there is room, and cut.
    Line(&'static str),
    Number(&'static str),
    /// A state in its colour.
    State(&'static str),
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Self::Word(title)
            | Self::Name(title)
            | Self::Text(title)
            | Self::Line(title)
            | Self::Number(title)
            | Self::State(title) => title,
        }
    }

    fn cell(self, text: &str, paint: Paint) -> Cell {
        let cell = Cell::new(text);
        match (self, paint) {
            (Self::Number(_), _) => cell.set_alignment(CellAlignment::Right),
            (Self::State(_), Paint::Colour) => {
                state_colour(text).map_or(cell.clone(), |colour| cell.fg(colour))
            }
            (Self::State(_), Paint::Plain)
            | (Self::Word(_) | Self::Name(_) | Self::Text(_) | Self::Line(_), _) => cell,
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

/// The columns that there is room for, and how wide each may be. First names are cut, then numbers are left out, the last one
/// first, and then what takes the rest of the line.
fn fitting(columns: &[Column], rows: &[Vec<String>], width: usize) -> Vec<(usize, usize)> {
    let content = |place: usize| {
        let cells = rows.iter().filter_map(|row| row.get(place)).map(|cell| measure_text_width(cell));
        cells.max().unwrap_or(0).max(columns[place].title().len())
    };
    let mut kept: Vec<(usize, usize)> = (0..columns.len()).map(|place| (place, content(place))).collect();
    let is_text = |place: usize| matches!(columns[place], Column::Text(_) | Column::Line(_));
    loop {
        let least =
            |&(place, width): &(usize, usize)| if is_text(place) { width.min(LEAST_TEXT) } else { width };
        let needed = kept.iter().map(|column| least(column) + GAP).sum::<usize>().saturating_sub(GAP);
        let Some(excess) = needed.checked_sub(width).filter(|excess| *excess > 0) else { break };
        let names = kept.iter_mut().filter(|(place, _)| matches!(columns[*place], Column::Name(_)));
        if let Some((_, widest)) =
            names.filter(|(_, width)| *width > LEAST_NAME).max_by_key(|(_, width)| *width)
        {
            *widest = widest.saturating_sub(excess).max(LEAST_NAME);
            continue;
        }
        let number = kept.iter().rposition(|(place, _)| matches!(columns[*place], Column::Number(_)));
        let Some(last) = number.or_else(|| kept.iter().rposition(|(place, _)| is_text(*place))) else {
            break;
        };
        kept.remove(last);
    }
    let fixed: usize = kept.iter().filter(|(place, _)| !is_text(*place)).map(|(_, width)| width + GAP).sum();
    let room = width.saturating_sub(fixed).max(1);
    kept.into_iter()
        .map(|(place, width)| (place, if is_text(place) { width.min(room) } else { width }))
        .collect()
}

/// Rows under titles, without lines between them. Only texts are broken, and only where there is no room.
pub fn table(columns: &[Column], rows: &[Vec<String>], look: Look) -> String {
    let fitting = fitting(columns, rows, usize::from(look.width));
    let cut = |row: &Vec<String>| {
        let cells = fitting.iter().map(|(place, width)| match columns[*place] {
            Column::Name(_) | Column::Line(_) => truncate_str(&row[*place], *width, "…").into_owned(),
            Column::Word(_) | Column::Text(_) | Column::Number(_) | Column::State(_) => row[*place].clone(),
        });
        cells.collect::<Vec<String>>()
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cut).collect();
    let columns: Vec<Column> = fitting.iter().map(|(place, _)| columns[*place]).collect();
    drawn(&columns, &rows, look)
}

fn drawn(columns: &[Column], rows: &[Vec<String>], look: Look) -> String {
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
        set.set_padding((0, if number + 1 < columns.len() { 2 } else { 0 }));
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
    fn where_there_is_little_room_names_are_cut_and_then_numbers_left_out() {
        let columns = [
            Column::Name("SESSION"),
            Column::Word("TASK"),
            Column::State("STATE"),
            Column::Number("TURNS"),
            Column::Number("AGE"),
            Column::Line("ABOUT"),
        ];
        let row = [
            "the-session-of-a-long-night",
            "t_01",
            "failed (max_turns)",
            "25",
            "3m",
            "漢字漢字漢字漢字漢字漢字漢字",
        ];
        let rows = [row.map(str::to_owned).to_vec()];
        let at = |width| table(&columns, &rows, Look { width, paint: Paint::Plain });
        for width in [50, 60, 80, 120] {
            let shown = at(width);
            assert_eq!(shown.lines().count(), 2, "{shown}");
            assert!(shown.lines().all(|line| measure_text_width(line) <= usize::from(width)), "{shown}");
            assert!(shown.contains("t_01") && shown.contains("failed (max_turns)"), "{shown}");
        }
        assert!(at(80).contains("AGE") && at(80).contains("the-session"), "{}", at(80));
        assert!(at(60).contains("the-session…") && at(60).contains("ABOUT"), "{}", at(60));
        assert!(!at(50).contains("AGE"), "{}", at(50));
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
