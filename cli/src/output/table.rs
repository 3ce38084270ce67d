//! Columns for people.

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

use super::{Ink, Style, visible};

/// What stands in a field without a value.
const NOTHING: &str = "-";

/// A column of texts is not made narrower than this to fit on a screen.
const LEAST: usize = 16;

/// Between two columns.
const GAP: usize = 2;

/// Rows under a head, as wide as their widest cell. Nothing is cut off: a name that is not whole is another name. Where
/// that does not fit on a screen, the longest texts stand out of their columns, and shift their own rows alone.
pub(crate) struct Table {
    head: Vec<Cell>,
    rows: Vec<Vec<Cell>>,
}

/// A field of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Cell {
    text: String,
    ink: Ink,
    right: bool,
}

impl Cell {
    /// A text, on the left. Whatever could act on a terminal is written out.
    pub(crate) fn text(text: impl AsRef<str>) -> Self {
        Self { text: visible(text.as_ref()), ink: Ink::Plain, right: false }
    }

    /// A number or a length of time, on the right.
    pub(crate) fn number(text: impl AsRef<str>) -> Self {
        Self { right: true, ..Self::text(text) }
    }

    /// A field without a value.
    pub(crate) fn nothing() -> Self {
        Self::text(NOTHING).ink(Ink::Faint)
    }

    /// The same, on the right.
    pub(crate) fn no_number() -> Self {
        Self::number(NOTHING).ink(Ink::Faint)
    }

    /// The same in this colour.
    pub(crate) fn ink(mut self, ink: Ink) -> Self {
        self.ink = ink;
        self
    }

    fn width(&self) -> usize {
        self.text.width()
    }
}

impl Table {
    /// Begins a table; a head stands on the side that its cell says.
    pub(crate) fn new(head: impl IntoIterator<Item = Cell>) -> Self {
        Self { head: head.into_iter().map(|cell| cell.ink(Ink::Head)).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The whole, each line with its line break, none with blanks at its end. On a screen that is so many `columns` wide.
    pub(crate) fn render(&self, style: Style, columns: Option<usize>) -> String {
        let widths = self.widths(columns);
        let mut shown = String::new();
        for line in self.lines() {
            let mut due = 0;
            for (width, cell) in widths.iter().zip(line) {
                let pad = width.saturating_sub(cell.width());
                let before = due + if cell.right { pad } else { 0 };
                due = GAP + if cell.right { 0 } else { pad };
                // Writing to a string cannot fail.
                let _ = write!(shown, "{:before$}{}", "", style.paint(cell.ink, &cell.text));
            }
            shown.push('\n');
        }
        shown
    }

    fn lines(&self) -> impl Iterator<Item = &Vec<Cell>> {
        std::iter::once(&self.head).chain(&self.rows)
    }

    /// How wide each column is: as its widest cell, but for texts where there is no room for that.
    fn widths(&self, columns: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = Vec::new();
        for line in self.lines() {
            widths.resize(widths.len().max(line.len()), 0);
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = cell.width().max(*width);
            }
        }
        let Some(columns) = columns else { return widths };
        let limited = |most: usize| {
            let limit = |(&width, head): (&usize, &Cell)| if head.right { width } else { width.min(most) };
            widths.iter().zip(&self.head).map(limit).collect::<Vec<usize>>()
        };
        let fits = |widths: &[usize]| {
            // Nothing stands behind the last one that it could shift.
            let (last, others) = widths.split_last().unwrap_or((&0, &[]));
            others.iter().map(|width| width + GAP).sum::<usize>() + last.min(&LEAST) <= columns
        };
        if fits(&widths) {
            return widths;
        }
        let widest = widths.iter().copied().max().unwrap_or(0);
        (LEAST..widest).rev().map(limited).find(|limited| fits(limited)).unwrap_or_else(|| limited(LEAST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Table {
        let mut table = Table::new([Cell::text("NAME"), Cell::number("TOKEN"), Cell::text("STATE")]);
        table.row([Cell::text("a"), Cell::number("12345678"), Cell::text("held").ink(Ink::Good)]);
        table.row([Cell::text("日本\n"), Cell::no_number(), Cell::nothing()]);
        table
    }

    #[test]
    fn columns_line_up_by_what_is_seen() {
        let plain = "NAME       TOKEN  STATE\n\
                     a       12345678  held\n\
                     日本\\n         -  -\n";
        assert_eq!(example().render(Style::Plain, None), plain);
    }

    #[test]
    fn colours_do_not_count_as_width() {
        let coloured = example().render(Style::Coloured, None);
        assert!(coloured.contains("  \x1b[32mheld\x1b[0m\n"), "{coloured:?}");
        let mut plain = coloured.clone();
        for code in ["\x1b[1m", "\x1b[32m", "\x1b[2m", "\x1b[0m"] {
            plain = plain.replace(code, "");
        }
        assert_eq!(plain, example().render(Style::Plain, None));
    }

    #[test]
    fn a_long_text_shifts_its_own_row_alone_where_there_is_no_room() {
        let mut table = Table::new([Cell::text("NAME"), Cell::number("TOKEN"), Cell::text("REASON")]);
        table.row([Cell::text("short"), Cell::number("12"), Cell::text("a reason that may be long, too")]);
        let long = "x".repeat(30);
        table.row([Cell::text(&long), Cell::number("3"), Cell::nothing()]);
        let limited = |columns| table.render(Style::Plain, columns);
        let wide = limited(None);
        assert_eq!(wide.lines().map(|line| line.find("  ").unwrap_or(0)).max(), Some(30), "{wide}");
        // 30 and the gaps, 5 for the tokens, and 16 of what comes last.
        assert_eq!(limited(Some(55)), wide);
        let narrow = limited(Some(54));
        assert_ne!(narrow, wide);
        assert!(narrow.contains(&long), "nothing is cut off: {narrow}");
        for columns in [0, 20, 41] {
            assert_eq!(
                limited(Some(columns)),
                format!(
                    "NAME{0:12}  TOKEN  REASON\nshort{0:11}     12  a reason that may be long, too\n{long}      3  -\n",
                    ""
                )
            );
        }
    }
}
