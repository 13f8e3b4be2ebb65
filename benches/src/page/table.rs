//! Tables, for HTML and for Markdown.

use comfy_table::{CellAlignment, ContentArrangement, Table as Text, presets::ASCII_MARKDOWN};

use super::markup::{Escaped, put};

/// What a cell says that is only about a goal that is missed.
pub(crate) const MISSED: &str = "NO";

/// A table whose first column names the row.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// A value in a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    pub(crate) text: String,
    /// A second line: less important.
    pub(crate) note: String,
    /// Whether it reaches a goal, where there is one.
    pub(crate) is_met: Option<bool>,
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl Table {
    /// In a box of its own, in which it scrolls when the screen is narrow.
    pub(crate) fn html(&self, class: &str) -> String {
        let mut out = format!("<div class=\"scroll\" tabindex=\"0\"><table class=\"{class}\">\n<thead><tr>");
        for name in &self.head {
            put!(out, "<th scope=\"col\">{}</th>", Escaped(name));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            out.push_str("<tr>");
            for (column, cell) in row.iter().enumerate() {
                let (open, close) = if column == 0 { ("th scope=\"row\"", "th") } else { ("td", "td") };
                let class = match cell.is_met {
                    Some(true) => " class=\"met\"",
                    Some(false) => " class=\"missed\"",
                    None => "",
                };
                put!(out, "<{open}{class}>{}", Escaped(&cell.text));
                if !cell.note.is_empty() {
                    put!(out, "<small>{}</small>", Escaped(&cell.note));
                }
                put!(out, "</{close}>");
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>\n");
        out
    }

    /// As Markdown, aligned for a terminal.
    pub(crate) fn markdown(&self) -> String {
        let mut table = Text::new();
        table.load_style(ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(&self.head);
        for row in &self.rows {
            table.add_row(row.iter().map(Cell::line));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table.to_string()
    }
}

impl Cell {
    /// On one line; a goal that is missed is told in words.
    fn line(&self) -> String {
        let Self { text, note, is_met } = self;
        let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
        let missed = if *is_met == Some(false) && text != MISSED { " MISSED" } else { "" };
        format!("{text}{note}{missed}")
    }
}
