//! Runs a template with fragments from a function. The property tests, the tables and the fuzz
//! target share it.

use petasos_esi::{Consequence, Limits, Program, Run, Step, TemplateError, Values};

/// The comment in place of a missing fragment.
pub(crate) const GAP: &[u8] = b"[gap]";

/// The page of a template. A fragment for which `fragment` has no content fails.
///
/// # Errors
/// The limit that the template exceeds.
pub(crate) fn page(
    template: &[u8],
    values: Values<'_>,
    fragment: impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> Result<Vec<u8>, TemplateError> {
    let program = Program::parse(template, &Limits::default())?;
    let (mut run, mut page, mut marks) = (Run::new(&program, template, values), Vec::new(), Vec::new());
    loop {
        match run.next() {
            Step::Text(place) => page.extend_from_slice(place.of(template)),
            Step::Value(value) => page.extend_from_slice(&value),
            Step::Fetch(fetch) => {
                let content = fragment(&fetch.src).or_else(|| fetch.alt.as_deref().and_then(&fragment));
                match content {
                    Some(content) => page.extend_from_slice(&content),
                    None => match run.failed() {
                        Consequence::Skipped => {}
                        Consequence::Excepted => page.truncate(marks.pop().unwrap_or(0)),
                        Consequence::Lacking => page.extend_from_slice(GAP),
                    },
                }
            }
            Step::Attempt => marks.push(page.len()),
            Step::Commit => {
                marks.pop();
            }
            Step::Done => return Ok(page),
        }
    }
}

/// Checks what holds for any bytes: the program ends, its places lie within the template, and a
/// template without markup is its own page.
pub(crate) fn check(template: &[u8]) {
    let values = Values { query: b"a=1&b=%41", cookies: b"c=2", host: b"a.test", ..Values::default() };
    let Ok(program) = Program::parse(template, &Limits::default()) else { return };
    for fails in [false, true] {
        let mut run = Run::new(&program, template, values);
        let mut steps = 0;
        loop {
            steps += 1;
            match run.next() {
                Step::Text(place) => {
                    assert!(place.begin < place.end, "{place:?} is empty");
                    assert!(place.end as usize <= template.len(), "{place:?} is beyond the template");
                }
                Step::Fetch(_) if fails => {
                    run.failed();
                }
                Step::Done => break,
                Step::Value(_) | Step::Fetch(_) | Step::Attempt | Step::Commit => {}
            }
        }
        assert!(steps <= 8193, "{steps} steps");
    }
    let has_markup = |mark: &[u8]| template.windows(mark.len()).any(|window| window == mark);
    if ![&b"<esi:"[..], b"</esi:", b"<!--esi"].into_iter().any(has_markup) {
        assert_eq!(page(template, values, |_| None).as_deref(), Ok(template));
    }
}
