//! Tables that fit the terminal, with colors.

use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, presets,
};
use console::{measure_text_width, truncate_str};
use serde_json::Value;

use crate::output::{Shown, escape_line, escape_text, stdout_is_terminal, terminal_size};

/// Without a terminal a table is as wide as necessary: a program may read it.
const UNBOUNDED: u16 = u16::MAX;

/// The space between two columns.
const GAP: usize = 2;

/// The minimum width of a name and of a text, before columns are dropped.
const MIN_NAME: usize = 12;
const MIN_TEXT: usize = 16;

/// The width and the colors of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputStyle {
    pub width: u16,
    pub colors: Colors,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colors {
    Off,
    On,
}

impl OutputStyle {
    /// The style of standard output: colors only on a terminal, and not if <https://no-color.org>
    /// forbids them.
    pub fn for_stdout() -> Self {
        if !stdout_is_terminal() {
            return Self { width: UNBOUNDED, colors: Colors::Off };
        }
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let (_, width) = terminal_size();
        Self { width, colors: if refused { Colors::Off } else { Colors::On } }
    }
}

/// A column: its title, and how its cells are formatted.
#[derive(Debug, Clone, Copy)]
pub enum Column {
    /// Never wrapped or truncated.
    Word(&'static str),
    /// A word that is truncated if space is short.
    Name(&'static str),
    /// As wide as possible, and wrapped.
    Text(&'static str),
    /// As wide as possible, and truncated.
    Line(&'static str),
    Number(&'static str),
    /// A state, colored.
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

    fn cell(self, text: &str, colors: Colors) -> Cell {
        let cell = Cell::new(text);
        match (self, colors) {
            (Self::Number(_), _) => cell.set_alignment(CellAlignment::Right),
            (Self::State(_), Colors::On) => {
                state_color(text).map_or(cell.clone(), |color| cell.fg(color))
            }
            (Self::State(_), Colors::Off)
            | (Self::Word(_) | Self::Name(_) | Self::Text(_) | Self::Line(_), _) => cell,
        }
    }
}

fn state_color(state: &str) -> Option<Color> {
    // The state may be followed by a reason: `failed (max_turns)`.
    match state.split(' ').next()? {
        "completed" | "ok" | "alive" => Some(Color::Green),
        "running" => Some(Color::Cyan),
        "failed" | "wrong" => Some(Color::Red),
        "cancelled" | "waiting" | "warning" | "draining" => Some(Color::Yellow),
        _ => None,
    }
}

/// The columns that fit, with their widths. If space is short, names are truncated first, then
/// numbers are dropped from the right, then texts.
fn fit_columns(columns: &[Column], rows: &[Vec<String>], width: usize) -> Vec<(usize, usize)> {
    let content = |index: usize| {
        let cells =
            rows.iter().filter_map(|row| row.get(index)).map(|cell| measure_text_width(cell));
        cells.max().unwrap_or(0).max(columns[index].title().len())
    };
    let mut kept: Vec<(usize, usize)> =
        (0..columns.len()).map(|index| (index, content(index))).collect();
    let is_text = |index: usize| matches!(columns[index], Column::Text(_) | Column::Line(_));
    loop {
        let least = |&(index, width): &(usize, usize)| {
            if is_text(index) { width.min(MIN_TEXT) } else { width }
        };
        let needed =
            kept.iter().map(|column| least(column) + GAP).sum::<usize>().saturating_sub(GAP);
        let Some(excess) = needed.checked_sub(width).filter(|excess| *excess > 0) else { break };
        let names = kept.iter_mut().filter(|(index, _)| matches!(columns[*index], Column::Name(_)));
        if let Some((_, widest)) =
            names.filter(|(_, width)| *width > MIN_NAME).max_by_key(|(_, width)| *width)
        {
            *widest = widest.saturating_sub(excess).max(MIN_NAME);
            continue;
        }
        let number =
            kept.iter().rposition(|(index, _)| matches!(columns[*index], Column::Number(_)));
        let Some(last) = number.or_else(|| kept.iter().rposition(|(index, _)| is_text(*index)))
        else {
            break;
        };
        kept.remove(last);
    }
    let fixed: usize =
        kept.iter().filter(|(index, _)| !is_text(*index)).map(|(_, width)| width + GAP).sum();
    let room = width.saturating_sub(fixed).max(1);
    kept.into_iter()
        .map(|(index, width)| (index, if is_text(index) { width.min(room) } else { width }))
        .collect()
}

/// Rows below titles, without lines between them. Only texts are wrapped.
pub fn table(columns: &[Column], rows: &[Vec<String>], style: OutputStyle) -> Shown {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| escaped(columns, row)).collect();
    let rows = rows.as_slice();
    let fit_columns = fit_columns(columns, rows, usize::from(style.width));
    let cut = |row: &Vec<String>| {
        let cells = fit_columns.iter().map(|(index, width)| match columns[*index] {
            Column::Name(_) | Column::Line(_) => {
                truncate_str(&row[*index], *width, "…").into_owned()
            }
            Column::Word(_) | Column::Text(_) | Column::Number(_) | Column::State(_) => {
                row[*index].clone()
            }
        });
        cells.collect::<Vec<String>>()
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cut).collect();
    let columns: Vec<Column> = fit_columns.iter().map(|(index, _)| columns[*index]).collect();
    Shown::of_escaped(render(&columns, &rows, style))
}

/// Escaped before it is measured and colored. Only a column that is wrapped keeps line ends.
fn escaped(columns: &[Column], row: &[String]) -> Vec<String> {
    let cell = |(column, text): (&Column, &String)| match column {
        Column::Text(_) => escape_text(text).into_owned(),
        Column::Word(_)
        | Column::Name(_)
        | Column::Line(_)
        | Column::Number(_)
        | Column::State(_) => escape_line(text).into_owned(),
    };
    columns.iter().zip(row).map(cell).collect()
}

fn render(columns: &[Column], rows: &[Vec<String>], style: OutputStyle) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(style.width);
    match style.colors {
        Colors::Off => table.force_no_tty(),
        Colors::On => table.enforce_styling(),
    };
    let title = |column: &Column| {
        let cell = column.cell(column.title(), Colors::Off);
        match style.colors {
            Colors::Off => cell,
            Colors::On => cell.add_attribute(Attribute::Bold),
        }
    };
    table.set_header(columns.iter().map(title));
    for row in rows {
        table
            .add_row(columns.iter().zip(row).map(|(column, text)| column.cell(text, style.colors)));
    }
    for (number, column) in columns.iter().enumerate() {
        let Some(set) = table.column_mut(number) else { continue };
        set.set_padding((0, if number + 1 < columns.len() { 2 } else { 0 }));
        if !matches!(column, Column::Text(_)) {
            set.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    // Remove the padding of the last column.
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

/// A field as text; empty if it is absent or null.
pub fn text(value: &Value, name: &str) -> String {
    match value.get(name) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_))) => {
            other.to_string()
        }
    }
}

/// A list; empty if it is absent.
pub fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The first line of a text, truncated to `max_chars` characters.
pub fn truncate(text: &str, max_chars: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    let cut = line.chars().count() > max_chars || line.len() < text.trim_end().len();
    let kept: String =
        line.chars().take(if cut { max_chars.saturating_sub(1) } else { max_chars }).collect();
    if cut { format!("{}…", kept.trim_end()) } else { kept }
}

/// `1 turn`, `2 turns`.
pub fn count_noun(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::Word("ID"),
        Column::State("STATE"),
        Column::Number("TURNS"),
        Column::Text("LABEL"),
    ];

    fn rows() -> Vec<Vec<String>> {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        vec![
            row([
                "t_01",
                "completed",
                "3",
                "reads the logs of the last night and says what is odd",
            ]),
            row(["t_100", "failed (max_turns)", "25", ""]),
        ]
    }

    #[test]
    fn a_table_fits_its_width_and_wraps_only_texts() {
        let shown = table(&COLUMNS, &rows(), OutputStyle { width: 60, colors: Colors::Off });
        let widest = shown.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 60, "{shown}");
        assert!(shown.contains("failed (max_turns)"), "{shown}");
        assert!(shown.lines().count() > 3, "the label is broken: {shown}");
    }

    #[test]
    fn a_narrow_table_truncates_names_and_then_drops_numbers() {
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
        let at = |width| table(&columns, &rows, OutputStyle { width, colors: Colors::Off });
        for width in [50, 60, 80, 120] {
            let shown = at(width);
            assert_eq!(shown.lines().count(), 2, "{shown}");
            assert!(
                shown.lines().all(|line| measure_text_width(line) <= usize::from(width)),
                "{shown}"
            );
            assert!(shown.contains("t_01") && shown.contains("failed (max_turns)"), "{shown}");
        }
        assert!(at(80).contains("AGE") && at(80).contains("the-session"), "{}", at(80));
        assert!(at(60).contains("the-session…") && at(60).contains("ABOUT"), "{}", at(60));
        assert!(!at(50).contains("AGE"), "{}", at(50));
    }

    #[test]
    fn cells_are_escaped_and_colors_are_not() {
        let columns = [Column::State("STATE"), Column::Line("ABOUT")];
        let row = ["failed".to_owned(), "\u{1b}[2Jx\u{202e}\ny".to_owned()];
        let at = |colors| table(&columns, &[row.to_vec()], OutputStyle { width: 80, colors });
        assert!(at(Colors::Off).contains("\\x1b[2Jx\\u{202e}\\ny"), "{}", at(Colors::Off));
        assert!(!at(Colors::On).contains("\u{1b}[2J"), "{:?}", at(Colors::On));
        let shown = Shown::from("").above(at(Colors::On));
        assert!(shown.contains("\u{1b}["), "{shown:?}");
    }

    #[test]
    fn an_id_is_never_wrapped() {
        let (id, long) = ("0198c0de-0000-7000-8000-000000000001", "word ".repeat(30));
        let columns = [Column::Word("ID"), Column::Text("TEXT")];
        let shown = table(
            &columns,
            &[vec![id.to_owned(), long]],
            OutputStyle { width: 60, colors: Colors::Off },
        );
        assert!(shown.contains(id), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 60), "{shown}");
    }

    #[test]
    fn without_a_terminal_a_row_is_a_line() {
        let shown = table(&COLUMNS, &rows(), OutputStyle { width: UNBOUNDED, colors: Colors::Off });
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
    fn colours_can_be_turned_off() {
        let plain = table(&COLUMNS, &rows(), OutputStyle { width: 80, colors: Colors::Off });
        assert!(!plain.contains('\u{1b}'), "{plain}");
        let painted = table(&COLUMNS, &rows(), OutputStyle { width: 80, colors: Colors::On });
        assert!(painted.contains('\u{1b}'), "{painted}");
    }

    #[test]
    fn a_truncated_text_is_one_line() {
        assert_eq!(truncate("short", 10), "short");
        assert_eq!(truncate("exactly 10", 10), "exactly 10");
        assert_eq!(truncate("much longer", 10), "much long…");
        assert_eq!(truncate("two\nlines", 10), "two…");
        assert_eq!(truncate("ends in a line\n", 20), "ends in a line");
    }
}
