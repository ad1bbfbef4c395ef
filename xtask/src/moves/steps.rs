//! The commands and files of a move in the guide, as two scripts.
//!
//! Invariant: every code block of the section is in one of the scripts, in its order and unchanged.

use anyhow::{Context, Result, ensure};

/// Begins each script: it runs in the home of root and ends at the first command that fails.
const PREAMBLE: &str = "set -eu\ncd /root\n";
/// Part of the heading from which on the blocks lead back.
const WAY_BACK: &str = "The way back";
/// Indentation of a code block in Markdown.
const INDENT: &str = "    ";
/// Ends a file in a script. No line of the guide is equal to it.
const END: &str = "END-OF-FILE";

/// The scripts of a move.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MoveSteps {
    /// Leads to Petasos.
    pub(super) there: String,
    /// Leads back to the old cache.
    pub(super) back: String,
}

impl MoveSteps {
    /// Reads the section with this heading.
    ///
    /// # Errors
    /// If there is no such section, or it has no commands for one of the ways.
    pub(super) fn of(guide: &str, heading: &str) -> Result<Self> {
        let mut sections = guide.split("\n## ");
        let section = sections
            .find(|section| section.lines().next() == Some(heading))
            .with_context(|| format!("the guide has no section {heading:?}"))?;
        let (there, back) =
            section.split_once(WAY_BACK).with_context(|| format!("{heading:?} has no way back"))?;
        let steps = Self { there: script(there), back: script(back) };
        ensure!(steps.there != PREAMBLE && steps.back != PREAMBLE, "{heading:?} has no commands");
        Ok(steps)
    }
}

/// The paragraphs of code in a text, as a script. One that begins with `# /` and a path is the
/// content of that file.
fn script(text: &str) -> String {
    let mut script = PREAMBLE.to_owned();
    for paragraph in text.split("\n\n") {
        let lines: Option<Vec<&str>> = paragraph.lines().map(|line| line.strip_prefix(INDENT)).collect();
        let Some(lines) = lines.filter(|lines| !lines.is_empty()) else { continue };
        let code = lines.join("\n");
        match lines.first().and_then(|line| line.strip_prefix("# /")) {
            Some(path) => script.push_str(&format!("cat >/{path} <<'{END}'\n{code}\n{END}\n")),
            None => script.push_str(&format!("set -x\n{code}\n{{ set +x; }} 2>/dev/null\n")),
        }
    }
    script
}

#[cfg(test)]
mod tests {
    use super::super::MOVES;
    use super::{MoveSteps, PREAMBLE};

    #[test]
    fn files_and_commands_are_told_apart() {
        let guide = "# Guide\n\n## Other\n\n    rm -r /\n\n## Move\n\nText.\n\n    # /etc/a\n    b = 1\n\n    c\n    d\n\n\
                     ### The way back\n\n    e\n\n## Next\n\n    f\n";
        let steps = MoveSteps::of(guide, "Move").unwrap();
        let file = "cat >/etc/a <<'END-OF-FILE'\n# /etc/a\nb = 1\nEND-OF-FILE\n";
        let commands = "set -x\nc\nd\n{ set +x; } 2>/dev/null\n";
        assert_eq!(steps.there, format!("{PREAMBLE}{file}{commands}"));
        assert_eq!(steps.back, format!("{PREAMBLE}set -x\ne\n{{ set +x; }} 2>/dev/null\n"));
        assert!(MoveSteps::of(guide, "Other").is_err() && MoveSteps::of(guide, "None").is_err());
    }

    #[test]
    fn guide_has_each_move_and_its_way_back() {
        for each in MOVES {
            let guide = std::fs::read_to_string(crate::repository().join(each.guide)).unwrap();
            let steps = MoveSteps::of(&guide, each.heading).unwrap();
            assert!(steps.there.contains("systemctl restart petasos"), "{}", steps.there);
            assert!(steps.back.contains("systemctl disable --now petasos"), "{}", steps.back);
        }
    }
}
