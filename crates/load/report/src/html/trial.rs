//! The page of a trial: figures of two sides as bars, then texts and tables.
//!
//! Invariant: the page shows what it is given, and escapes it. Bars of one figure have one linear
//! scale that starts at zero.

use super::svg::{LinearScale, drawing, label, px};
use super::tables::scrolling;
use super::{ACCENT, ChartSize, WIDE, document, figure};
use maud::{Markup, html};

/// Height of a bar's row in pixels.
const ROW: f64 = 34.0;
/// Width of the names of bars in pixels, beside the bars on a wide page.
const NAMES: f64 = 150.0;
/// Space for a value beside the longest bar in pixels.
const VALUES: f64 = 150.0;
/// The same on a narrow page.
const VALUES_NARROW: f64 = 110.0;

/// What the page shows.
#[derive(Clone, Debug, Default)]
pub struct TrialPage {
    /// The title of the document, and the heading.
    pub title: String,
    /// The sentence that decides.
    pub lead: String,
    /// Sentences that need attention.
    pub warnings: Vec<String>,
    /// Short facts below the lead.
    pub facts: Vec<String>,
    /// Figures of two sides.
    pub figures: Vec<TrialFigure>,
    /// Sections below the figures, in their order.
    pub sections: Vec<TrialSection>,
}

/// A figure of two sides.
#[derive(Clone, Debug)]
pub struct TrialFigure {
    /// Its name.
    pub heading: String,
    /// What the reader must know to compare the bars, such as whether more is better.
    pub caption: String,
    /// The names, values and labels of its bars.
    pub bars: Vec<(String, f64, String)>,
}

/// A section with paragraphs, a table and a text with fixed width.
#[derive(Clone, Debug, Default)]
pub struct TrialSection {
    /// Its heading.
    pub heading: String,
    /// Its paragraphs.
    pub paragraphs: Vec<String>,
    /// The names of the columns of its table. Without names there is no table.
    pub columns: Vec<&'static str>,
    /// The rows of its table.
    pub rows: Vec<Vec<String>>,
    /// A text that is shown as it is, such as a file.
    pub verbatim: Option<String>,
}

/// Returns the page.
pub fn trial_page(page: &TrialPage) -> String {
    let content = html! {
        header {
            p.kicker { "Trial of Petasos" }
            h1 { (page.title) }
            p.lead { (page.lead) }
            @for warning in &page.warnings { p.warning { (warning) } }
            p.facts { @for fact in &page.facts { span { (fact) } } }
        }
        @for (number, of) in page.figures.iter().enumerate() {
            (figure(&format!("figure-{number}"), &of.heading, &of.caption, WIDE,
                |id, size| bars(id, of, size)))
        }
        @for section in &page.sections { (section_markup(section)) }
    };
    document(&format!("Trial of Petasos: {}", page.title), &content)
}

fn section_markup(section: &TrialSection) -> Markup {
    html! {
        section {
            h2 { (section.heading) }
            @for paragraph in &section.paragraphs { p { (paragraph) } }
            @if !section.columns.is_empty() {
                @let table = html! {
                    table {
                        thead { tr { @for column in &section.columns { th { (column) } } } }
                        tbody { @for row in &section.rows { tr { @for cell in row { td.title { (cell) } } } } }
                    }
                };
                (scrolling(&section.heading, &table))
            }
            @if let Some(text) = &section.verbatim {
                (scrolling(&section.heading, &html! { pre { code { (text) } } }))
            }
        }
    }
}

fn bars(id: &str, of: &TrialFigure, size: ChartSize) -> Markup {
    // On a narrow page, the name is above its bar.
    let (left, row, values) =
        if size.narrow { (0.0, 1.6 * ROW, VALUES_NARROW) } else { (NAMES, ROW, VALUES) };
    let height = of.bars.len() as f64 * row + 6.0;
    let scale = LinearScale::to_most(of.bars.iter().map(|(_, value, _)| *value), left, size.width - values);
    let content = html! {
        @for (place, (name, value, text)) in of.bars.iter().enumerate() {
            @let y = place as f64 * row + row - ROW / 2.0;
            @let x = scale.at(*value).max(left + 1.0);
            @let name_y = if size.narrow { y - ROW * 0.6 } else { y + 4.5 };
            (label(if size.narrow { left } else { 0.0 }, name_y, "start", "name", name))
            g class=(if place + 1 == of.bars.len() { ACCENT } else { "c1" }) {
                line x1=(px(left)) x2=(px(x)) y1=(px(y)) y2=(px(y)) class="bar trial" {}
            }
            (label(x + 10.0, y + 4.5, "start", "value", text))
        }
    };
    let described: Vec<String> = of.bars.iter().map(|(name, _, text)| format!("{name}: {text}")).collect();
    drawing(id, size.width, height, &of.heading, &described.join("; "), &content)
}

#[cfg(test)]
mod tests {
    use super::{TrialFigure, TrialPage, TrialSection, trial_page};

    #[test]
    fn page_is_self_contained_and_escapes_what_a_site_says() {
        let bar = |name: &str, value| (name.to_owned(), value, format!("{value}"));
        let page = TrialPage {
            title: "http://a.test/<script>".to_owned(),
            lead: "1 of 2".to_owned(),
            warnings: vec!["<b>bad</b>".to_owned()],
            facts: vec!["fact".to_owned()],
            figures: vec![TrialFigure {
                heading: "Pages a second".to_owned(),
                caption: "More is better.".to_owned(),
                bars: vec![bar("today", 10.0), bar("with Petasos", 201.0)],
            }],
            sections: vec![TrialSection {
                heading: "Causes".to_owned(),
                columns: vec!["cause"],
                rows: vec![vec!["<i>".to_owned()]],
                verbatim: Some("a = \"b\"".to_owned()),
                ..TrialSection::default()
            }],
        };
        let text = trial_page(&page);
        assert!(!text.contains("<script") && !text.contains("<b>") && !text.contains("<i>"), "{text}");
        assert!(text.contains("today: 10; with Petasos: 201") && text.contains("default-src 'none'"));
        assert!(text.contains("<figcaption>More is better.</figcaption>"), "{text}");
        // On a narrow page, a long line scrolls by itself.
        assert!(text.contains("tabindex=\"0\"><pre>"), "{text}");
        // The longest bar fills the space, whatever its value. The other is in proportion to it.
        for [left, short, long] in [["150.0", "192.3", "1000.0"], ["0.0", "11.9", "240.0"]] {
            for right in [short, long] {
                assert!(text.contains(&format!("x1=\"{left}\" x2=\"{right}\"")), "{right}: {text}");
            }
        }
    }
}
