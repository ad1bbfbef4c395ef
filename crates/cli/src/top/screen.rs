//! The screen of `petasos top`.
//!
//! Invariant: it fits any size. A small terminal shows the first lines of each part.

use super::model::{FadingCounts, TopModel};
use crate::record_text::{printable, size_text, time_text};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, model: &TopModel) {
    let head = head(model);
    let rows = u16::try_from(head.len()).unwrap_or(u16::MAX);
    let [top, pages, fetches, clients] = Layout::vertical([
        Constraint::Length(rows),
        Constraint::Fill(2),
        Constraint::Fill(2),
        Constraint::Fill(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(head), top);
    let rows = |height: u16| usize::from(height.saturating_sub(1));
    frame.render_widget(Paragraph::new(counts("REQ/S  PAGE", &model.pages, rows(pages.height))), pages);
    frame.render_widget(Paragraph::new(slow(model, rows(fetches.height))), fetches);
    frame.render_widget(
        Paragraph::new(counts("REQ/S  CLIENT", &model.clients, rows(clients.height))),
        clients,
    );
}

/// The lines above the tables.
fn head(model: &TopModel) -> Vec<Line<'static>> {
    let status = model.status();
    let (used, most) = model.store_bytes();
    let ratio = model.hit_ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{:.1}%", ratio * 100.0));
    let rates = &model.rates;
    let mut lines = vec![
        Line::from(vec![
            Span::from("petasos top").bold(),
            Span::from(format!(
                "  {}  {} connections, memory {} of {}, q to quit",
                printable(&model.admin),
                status.connections,
                size_text(used),
                size_text(most)
            )),
        ]),
        Line::from(format!(
            "{:.0} requests/s, {ratio} from cache, {:.0} to origins/s, {}/s sent",
            rates.requests,
            rates.origin_fetches,
            size_text(rates.bytes_sent as u64)
        ))
        .bold(),
        Line::from(verdicts(model)),
        Line::from(percentiles(model)),
    ];
    lines.extend(warnings(model).into_iter().map(|text| Line::from(text).style(Style::new().fg(Color::Red))));
    lines.push(Line::default());
    lines
}

fn verdicts(model: &TopModel) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    for (name, count) in model.rates.verdicts.occurring() {
        let color = match name {
            "hit" => Color::Green,
            "stale" | "miss" | "pass" => Color::Yellow,
            "failed" | "refused" => Color::Red,
            _ => Color::Reset,
        };
        spans.push(Span::from(format!("{} {count}  ", printable(name))).fg(color));
    }
    if spans.is_empty() {
        spans.push(Span::from("no requests in the last second"));
    }
    spans
}

fn percentiles(model: &TopModel) -> String {
    match model.percentiles([50, 95, 99]) {
        Some(times) => {
            let [p50, p95, p99] = times.map(time_text);
            format!("p50 {p50}  p95 {p95}  p99 {p99}  (of the last requests)")
        }
        None => "p50 -  p95 -  p99 -".to_owned(),
    }
}

/// Problems, origins that fail, and requests missing in the tables.
fn warnings(model: &TopModel) -> Vec<String> {
    let mut warnings: Vec<_> = model.trouble.iter().map(|trouble| printable(trouble)).collect();
    for site in model.status().sites.iter().filter(|site| site.breaker != "closed") {
        let breaker = printable(&site.breaker);
        warnings.push(format!("the breaker of {} is {breaker}", printable(&site.origin)));
    }
    for origin in model.status().sites.iter().flat_map(|site| site.unwell_origins()) {
        let state = printable(&origin.state);
        warnings.push(format!("the origin {} is {state}", printable(&origin.url)));
    }
    if model.skipped > 0 {
        warnings.push(format!("{} requests are missing here: this reader is too slow", model.skipped));
    }
    warnings
}

fn title(text: &'static str) -> Line<'static> {
    Line::from(text).style(Style::new().reversed())
}

fn counts<'a>(heading: &'static str, counts: &'a FadingCounts, rows: usize) -> Vec<Line<'a>> {
    let lines = counts.most(rows).into_iter().map(|(name, rate)| Line::from(format!("{rate:>5.1}  {name}")));
    std::iter::once(title(heading)).chain(lines).collect()
}

fn slow(model: &TopModel, rows: usize) -> Vec<Line<'_>> {
    let lines = model.fetches().iter().take(rows).map(|fetch| {
        let [total, queue, connect, first] =
            [fetch.total, fetch.queue, fetch.connect, fetch.first_byte].map(time_text);
        Line::from(format!(
            "{total:>8} {queue:>8} {connect:>8} {first:>8}  {:>3}  {}",
            fetch.status, fetch.url
        ))
    });
    let heading = title("   TOTAL    QUEUE  CONNECT    FIRST  ORIGIN REQUESTS OF THE LAST MINUTE");
    std::iter::once(heading).chain(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::draw;
    use crate::top::model::examples::busy;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn shown(width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &busy())).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn usual_terminal_shows_every_part() {
        insta::assert_snapshot!(shown(80, 24));
    }

    #[test]
    fn any_size_can_be_drawn() {
        for (width, height) in [(1, 1), (10, 3), (20, 7), (300, 100), (80, 0)] {
            shown(width, height);
        }
        assert!(shown(30, 4).contains("33 requests/s"));
    }
}
