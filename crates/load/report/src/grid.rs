//! Formats columns of text within a width. Pure functions.
//!
//! Invariants:
//!
//! * Every line fits the width if the inflexible columns fit. Width is counted in characters.
//! * No cell reaches into the next column.
//! * The output has no hidden character but line ends, whatever the results say.

use difference::text_of;

/// Space between two columns.
const GAP: &str = "  ";
/// Smallest width of a flexible column.
const FLEXIBLE_MIN: usize = 8;

/// Alignment of a column's texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A column: heading, alignment, and whether it may shrink.
#[derive(Clone, Debug)]
pub(crate) struct GridColumn {
    heading: Vec<String>,
    align: Align,
    flexible: bool,
}

impl GridColumn {
    /// Creates a column whose heading has one or more lines.
    pub(crate) fn new(heading: &[&str], align: Align) -> Self {
        Self { heading: heading.iter().map(|line| shown(line)).collect(), align, flexible: false }
    }

    /// Lets the column's texts break between words to save width.
    pub(crate) fn flexible(mut self) -> Self {
        self.flexible = true;
        self
    }
}

enum GridLine {
    Cells(Vec<String>),
    CellsAndRest(Vec<String>, String),
}

/// A table under construction.
pub(crate) struct Grid {
    columns: Vec<GridColumn>,
    lines: Vec<GridLine>,
}

impl Grid {
    pub(crate) fn new(columns: Vec<GridColumn>) -> Self {
        Self { columns, lines: Vec::new() }
    }

    /// Adds a row with a text for each column.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.lines.push(GridLine::Cells(cells.iter().map(|cell| shown(cell)).collect()));
    }

    /// Adds a row whose first columns are given. `rest` follows on separate lines and may use the
    /// whole width.
    pub(crate) fn row_with_rest(&mut self, cells: Vec<String>, rest: &str) {
        self.lines.push(GridLine::CellsAndRest(cells.iter().map(|cell| shown(cell)).collect(), shown(rest)));
    }

    /// Formats the table for a width.
    pub(crate) fn text(&self, width: usize) -> String {
        let widths = self.widths(width);
        let mut out = String::new();
        let depth = self.columns.iter().map(|column| column.heading.len()).max().unwrap_or(0);
        for line in 0..depth {
            // Shorter headings are aligned at the bottom of the head.
            let heading = |column: &GridColumn| {
                (line + column.heading.len())
                    .checked_sub(depth)
                    .and_then(|line| column.heading.get(line))
                    .cloned()
                    .unwrap_or_default()
            };
            self.physical(&self.columns.iter().map(heading).collect::<Vec<_>>(), &widths, &mut out);
        }
        for line in &self.lines {
            match line {
                GridLine::Cells(cells) => self.logical(cells, &widths, &mut out),
                GridLine::CellsAndRest(cells, rest) => self.with_rest(cells, rest, &widths, width, &mut out),
            }
        }
        out
    }

    /// Widths of the columns. Each is as wide as its widest text; then flexible ones shrink until
    /// all fit.
    fn widths(&self, width: usize) -> Vec<usize> {
        let natural = |index: usize, column: &GridColumn| {
            let cells = self.lines.iter().filter_map(|line| match line {
                GridLine::Cells(cells) | GridLine::CellsAndRest(cells, _) => cells.get(index),
            });
            cells.chain(&column.heading).map(|text| chars(text)).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> =
            self.columns.iter().enumerate().map(|(index, column)| natural(index, column)).collect();
        let gaps = GAP.len() * widths.len().saturating_sub(1);
        let mut over = (widths.iter().sum::<usize>() + gaps).saturating_sub(width);
        for (column, width) in self.columns.iter().zip(&mut widths).filter(|(column, _)| column.flexible) {
            let longest_word =
                FLEXIBLE_MIN.max(column.heading.iter().map(|line| chars(line)).max().unwrap_or(0));
            let narrower = width.saturating_sub(over).max(longest_word.min(*width));
            over -= (*width - narrower).min(over);
            *width = narrower;
        }
        widths
    }

    /// Writes a row, on as many lines as its broken texts need.
    fn logical(&self, cells: &[String], widths: &[usize], out: &mut String) {
        let broken: Vec<Vec<String>> =
            cells.iter().zip(widths).map(|(cell, width)| broken(cell, *width)).collect();
        let depth = broken.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..depth {
            let cells: Vec<String> =
                broken.iter().map(|lines| lines.get(line).cloned().unwrap_or_default()).collect();
            self.physical(&cells, widths, out);
        }
    }

    fn physical(&self, cells: &[String], widths: &[usize], out: &mut String) {
        let mut line = String::new();
        for (index, ((cell, width), column)) in cells.iter().zip(widths).zip(&self.columns).enumerate() {
            if index > 0 {
                line.push_str(GAP);
            }
            let padding = " ".repeat(width.saturating_sub(chars(cell)));
            match column.align {
                Align::Left => line.extend([cell.as_str(), &padding]),
                Align::Right => line.extend([padding.as_str(), cell]),
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }

    fn with_rest(&self, cells: &[String], rest: &str, widths: &[usize], width: usize, out: &mut String) {
        self.logical(cells, widths, out);
        wrapped(&format!("     {rest}"), width, "     ", out);
    }
}

/// A text for a terminal, without hidden characters.
fn shown(text: &str) -> String {
    text_of(text.as_bytes())
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

/// Breaks a text between words into lines of at most `width`. A longer word, such as a URL, is
/// broken at the end of a line.
fn broken(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if chars(line) + 1 + chars(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.extend(pieces(word, width)),
        }
    }
    lines
}

/// Cuts a word into pieces of at most `width` characters, and of at least one.
fn pieces(word: &str, width: usize) -> Vec<String> {
    let characters: Vec<char> = word.chars().collect();
    characters.chunks(width.max(1)).map(|piece| piece.iter().collect()).collect()
}

/// Appends a paragraph, broken to `width`. The first line keeps its leading spaces; the others
/// begin with `indent`.
pub(crate) fn wrapped(text: &str, width: usize, indent: &str, out: &mut String) {
    let text = shown(text);
    let first = &text[..text.len() - text.trim_start().len()];
    let narrow = width.saturating_sub(indent.len().max(first.len()));
    for (index, line) in broken(&text, narrow).iter().enumerate() {
        out.push_str(if index == 0 { first } else { indent });
        out.push_str(line);
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::{Align, Grid, GridColumn, broken, chars, wrapped};
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    #[test]
    fn columns_are_aligned_and_flexible_ones_break() {
        let mut grid = Grid::new(vec![
            GridColumn::new(&["step"], Align::Left),
            GridColumn::new(&["caching"], Align::Left).flexible(),
            GridColumn::new(&["through-", "put"], Align::Right),
        ]);
        grid.row(["1", "no cache", "7 req/s"].map(str::to_owned).to_vec());
        grid.row(["2", "opcode cache + page cache", "700 req/s"].map(str::to_owned).to_vec());
        grid.row_with_rest(["3", "void"].map(str::to_owned).to_vec(), "VOID: no");
        let lines = [
            "                 through-",
            "step  caching         put",
            "1     no cache    7 req/s",
            "2     opcode    700 req/s",
            "      cache +",
            "      page",
            "      cache",
            "3     void",
            "     VOID: no",
        ];
        assert_eq!(grid.text(25).lines().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn commands_for_a_terminal_are_not_printed() {
        let hostile = "a\u{1b}[2Jb \u{202e}c";
        let mut grid = Grid::new(vec![GridColumn::new(&[hostile], Align::Left)]);
        grid.row(vec![hostile.to_owned()]);
        grid.row_with_rest(vec![hostile.to_owned()], hostile);
        let mut text = grid.text(80);
        wrapped(hostile, 80, "  ", &mut text);
        assert!(text.lines().all(|line| !line.chars().any(difference::is_hidden)), "{text:?}");
    }

    proptest! {
        #[test]
        fn breaking_keeps_words_and_width(text in "[a-zé ]{0,80}", width in 10_usize..40) {
            let words: Vec<&str> = text.split_whitespace().collect();
            let lines = broken(&text, width);
            prop_assert_eq!(lines.concat().replace(' ', ""), words.concat());
            if words.iter().all(|word| chars(word) <= width) {
                prop_assert_eq!(lines.join(" "), words.join(" "));
            }
            prop_assert!(lines.iter().all(|line| chars(line) <= width));
            let mut out = String::new();
            wrapped(&text, width, "  ", &mut out);
            prop_assert!(out.lines().all(|line| chars(line) <= width));
        }
    }
}
