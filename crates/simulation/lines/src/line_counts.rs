//! Which lines of a source file have code, and which of them have run.
//!
//! Invariant: a line has code if an instrumented region covers it and it holds a letter or a digit
//! outside a comment. It has run if the innermost region at its start has run, or a region that
//! begins in it. Reading the regions from a program is another module's job.

/// A range of a source file with the number of times that it has run. Lines begin at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// Line and column of the first character.
    pub(crate) start: (usize, usize),
    /// Line and column of the last character.
    pub(crate) end: (usize, usize),
    /// How often it has run.
    pub(crate) count: usize,
}

/// The lines of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileLines {
    /// The number of lines with code.
    pub(crate) code: usize,
    /// The lines with code that have not run.
    pub(crate) idle: Vec<usize>,
}

impl FileLines {
    /// Reads the lines of `source` with its `regions`.
    pub(crate) fn new(source: &str, regions: &[Region]) -> Self {
        let mut lines = Self::default();
        let texts = source.lines().take_while(|line| line.trim() != "#[cfg(test)]");
        for (text, line) in texts.zip(1..) {
            if !has_code(text) {
                continue;
            }
            let Some(count) = count_of(line, regions) else { continue };
            lines.code += 1;
            if count == 0 {
                lines.idle.push(line);
            }
        }
        lines
    }

    /// The lines that have not run as ranges, the longest first.
    pub(crate) fn idle_ranges(&self) -> Vec<(usize, usize)> {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for line in &self.idle {
            match ranges.last_mut() {
                // A comment or a closing brace does not divide a range.
                Some((_, last)) if *line <= *last + 3 => *last = *line,
                _ => ranges.push((*line, *line)),
            }
        }
        ranges.sort_by_key(|(first, last)| std::cmp::Reverse(last - first));
        ranges
    }
}

fn has_code(text: &str) -> bool {
    let code = text.split("//").next().unwrap_or_default();
    code.chars().any(char::is_alphanumeric)
}

/// How often the line has run. `None` if no region covers it.
fn count_of(line: usize, regions: &[Region]) -> Option<usize> {
    let around = regions.iter().filter(|region| region.start.0 < line && region.end.0 >= line);
    let innermost = around.max_by_key(|region| (region.start, std::cmp::Reverse(region.end)));
    let within = regions.iter().filter(|region| region.start.0 == line);
    within.chain(innermost).map(|region| region.count).max()
}

#[cfg(test)]
mod tests {
    use super::{FileLines, Region};

    fn region(start: usize, end: usize, count: usize) -> Region {
        Region { start: (start, 5), end: (end, 80), count }
    }

    #[test]
    fn innermost_region_decides() {
        let source =
            "fn f() {\n    if x {\n        y();\n\n        // Why.\n        z();\n    }\n    w();\n}\n";
        let lines = FileLines::new(source, &[region(1, 9, 4), region(2, 6, 0)]);
        assert_eq!(lines, FileLines { code: 5, idle: vec![3, 6] });
        assert_eq!(lines.idle_ranges(), [(3, 6)]);
    }

    #[test]
    fn region_that_begins_in_the_line_counts() {
        let lines = FileLines::new("a();\nb();\n", &[region(1, 2, 0), region(2, 2, 3)]);
        assert_eq!(lines, FileLines { code: 2, idle: vec![1] });
    }

    #[test]
    fn tests_comments_and_lines_without_a_region_have_no_code() {
        let source = "use x;\na();\n// b\n}\n#[cfg(test)]\nmod tests {\n    c();\n}\n";
        let lines = FileLines::new(source, &[region(2, 4, 1), region(6, 8, 0)]);
        assert_eq!(lines, FileLines { code: 1, idle: vec![] });
    }
}
