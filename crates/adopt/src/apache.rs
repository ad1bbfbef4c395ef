//! Reads the configuration language of Apache into directives and sections with spans.
//!
//! A line is a directive, a tag of a section, or a comment. A backslash at its end continues it.
//! Included files become children of their `Include`. Sections of `<IfModule>` count only if the
//! module is loaded, when the main file was read.

use crate::directive::{Directive, Word};
use crate::source::{INCLUDE_DEPTH_MAX, Machine, Position, Refusal, Sources, Span};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Modules that Debian's Apache contains.
const BUILT_IN: [&str; 7] = ["core", "so", "http", "log_config", "logio", "unixd", "version"];

/// The parsed configuration of Apache, its loaded modules and its `Define`s.
#[derive(Debug, Default)]
pub(crate) struct Apache {
    pub(crate) items: Vec<Directive>,
    /// Loaded modules, by file name without `mod_`; nothing if the main file was not read.
    modules: Option<BTreeSet<String>>,
    defines: BTreeMap<String, String>,
}

impl Apache {
    /// The directives of one level, with those of included files and of conditions that hold.
    pub(crate) fn flatten<'a>(&self, items: &'a [Directive]) -> Vec<&'a Directive> {
        let mut flat = Vec::new();
        for item in items {
            match item.name.as_str() {
                "include" | "includeoptional" => flat.extend(self.flatten(&item.included)),
                "ifmodule" if self.holds(item.word(0)) => flat.extend(self.flatten(item.children())),
                "ifdefine" => {
                    let wanted = item.word(0);
                    let is_defined = self.defines.contains_key(wanted.trim_start_matches('!'));
                    if is_defined != wanted.starts_with('!') {
                        flat.extend(self.flatten(item.children()));
                    }
                }
                "ifversion" => flat.extend(self.flatten(item.children())),
                "ifmodule" => {}
                _ => flat.push(item),
            }
        }
        flat
    }

    fn holds(&self, condition: &str) -> bool {
        let Some(modules) = &self.modules else { return !condition.starts_with('!') };
        let name = condition.trim_start_matches('!');
        let bare = name.strip_prefix("mod_").and_then(|name| name.strip_suffix(".c"));
        let bare = bare.or_else(|| name.strip_suffix("_module")).unwrap_or(name);
        let is_loaded = modules.contains(bare) || BUILT_IN.contains(&bare);
        is_loaded != condition.starts_with('!')
    }

    /// Whether a module is loaded; `false` if the list of modules is unknown.
    pub(crate) fn has_module(&self, name: &str) -> bool {
        self.modules.as_ref().is_some_and(|modules| modules.contains(name))
    }

    /// Replaces `${NAME}` by the value that `Define` sets.
    pub(crate) fn expand(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.defines {
            text = text.replace(&format!("${{{name}}}"), value);
        }
        text
    }
}

/// Reads files and the files that they include. `is_main`: they are the whole configuration.
pub(crate) fn read(
    machine: &dyn Machine,
    sources: &mut Sources,
    paths: &[PathBuf],
    root: &Path,
    is_main: bool,
) -> Result<Apache, Refusal> {
    let mut apache = Apache::default();
    for path in paths {
        apache.items.extend(include(machine, sources, path, root, None, 0)?);
    }
    let mut modules = BTreeSet::new();
    let mut defines = BTreeMap::new();
    visit(&apache.items, &mut |item| match item.name.as_str() {
        "loadmodule" => {
            modules.insert(item.word(0).trim_end_matches("_module").to_owned());
        }
        "define" => {
            defines.insert(item.word(0).to_owned(), item.word(1).to_owned());
        }
        _ => {}
    });
    apache.modules = is_main.then_some(modules);
    apache.defines = defines;
    Ok(apache)
}

fn visit<'a>(items: &'a [Directive], act: &mut impl FnMut(&'a Directive)) {
    for item in items {
        act(item);
        visit(item.children(), act);
        visit(&item.included, act);
    }
}

fn include(
    machine: &dyn Machine,
    sources: &mut Sources,
    path: &Path,
    root: &Path,
    from: Option<Position>,
    depth: usize,
) -> Result<Vec<Directive>, Refusal> {
    let file = sources.load(machine, path, from)?;
    let mut reader = Reader { text: sources.text(file), file, at: 0 };
    let mut items = reader
        .section(None, 0)
        .map_err(|(offset, problem, fix)| sources.refusal(Position { file, offset }, problem, fix))?;
    resolve(machine, sources, &mut items, root, depth)?;
    Ok(items)
}

fn resolve(
    machine: &dyn Machine,
    sources: &mut Sources,
    items: &mut [Directive],
    root: &Path,
    depth: usize,
) -> Result<(), Refusal> {
    for item in items {
        if let Some((children, _)) = &mut item.block {
            resolve(machine, sources, children, root, depth)?;
        }
        if !["include", "includeoptional"].contains(&item.name.as_str()) {
            continue;
        }
        let position = item.position();
        if depth >= INCLUDE_DEPTH_MAX {
            let problem = format!("files are included more than {INCLUDE_DEPTH_MAX} deep");
            return Err(sources.refusal(position, problem, "remove the circle of includes"));
        }
        let pattern = root.join(item.word(0));
        let is_pattern = item.word(0).contains(['*', '?', '[']);
        let paths = if machine.is_directory(&pattern) {
            machine.matching(&format!("{}/*", pattern.display()))
        } else if is_pattern || item.name == "includeoptional" {
            machine.matching(&pattern.to_string_lossy())
        } else {
            vec![pattern]
        };
        for path in paths.into_iter().filter(|path| !machine.is_directory(path)) {
            let read = include(machine, sources, &path, root, Some(position), depth + 1)?;
            item.included.extend(read);
        }
    }
    Ok(())
}

/// An offset, the problem there, and the fix.
type Fault = (usize, String, &'static str);

struct Reader<'a> {
    text: &'a str,
    file: usize,
    at: usize,
}

impl<'a> Reader<'a> {
    /// The next line with its continuations, without white space at both ends. Returns its span.
    fn line(&mut self) -> Option<Span> {
        let start = self.at;
        loop {
            let rest = self.text.get(self.at..)?;
            if rest.is_empty() && self.at == start {
                return None;
            }
            let length = rest.find('\n').unwrap_or(rest.len());
            let line = rest.get(..length)?;
            self.at += (length + 1).min(rest.len());
            let continues = line.trim_end_matches('\r').ends_with('\\') && self.at < self.text.len();
            if !continues {
                let whole = self.text.get(start..self.at)?;
                let first = start + (whole.len() - whole.trim_start().len());
                let end = start + whole.trim_end().len();
                return Some(Span { start: first, end: end.max(first) });
            }
        }
    }

    fn section(&mut self, open: Option<&str>, depth: usize) -> Result<Vec<Directive>, Fault> {
        let mut items = Vec::new();
        if depth > INCLUDE_DEPTH_MAX {
            return Err((self.at, "sections are nested too deep".to_owned(), "remove a level"));
        }
        while let Some(span) = self.line() {
            let line = self.text.get(span.start..span.end).unwrap_or_default();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(name) = line.strip_prefix("</") {
                let name = name.trim_end_matches('>').trim().to_ascii_lowercase();
                if Some(name.as_str()) != open {
                    let problem = format!("`{line}` closes no section");
                    return Err((span.start, problem, "close the innermost open section"));
                }
                // The caller finds the tag at `self.at`.
                self.at = span.start;
                return Ok(items);
            }
            items.push(self.directive(span, line, depth)?);
        }
        match open {
            Some(name) => {
                Err((self.text.len(), format!("the section <{name}> has no end"), "add its end tag"))
            }
            None => Ok(items),
        }
    }

    fn directive(&mut self, span: Span, line: &'a str, depth: usize) -> Result<Directive, Fault> {
        let is_section = line.starts_with('<');
        let inner = if is_section {
            if !line.ends_with('>') {
                return Err((span.start, "the tag has no `>`".to_owned(), "add it"));
            }
            Span { start: span.start + 1, end: span.end - 1 }
        } else {
            span
        };
        let mut words = words(self.text, inner);
        if words.is_empty() {
            return Err((span.start, "the tag has no name".to_owned(), "remove it"));
        }
        let name = words.remove(0).text.to_ascii_lowercase();
        let mut directive =
            Directive { file: self.file, name, words, span, block: None, included: Vec::new() };
        if is_section {
            let children = self.section(Some(&directive.name), depth + 1)?;
            let close = self.at;
            if let Some(tag) = self.line() {
                directive.span.end = tag.end;
            }
            directive.block = Some((children, close));
        }
        Ok(directive)
    }
}

/// The words of a part of the text. A backslash at the end of a line is white space.
fn words(text: &str, part: Span) -> Vec<Word> {
    let mut words = Vec::new();
    let mut at = part.start;
    let peek = |at: usize| text.get(at..part.end).and_then(|rest| rest.chars().next());
    let is_continued = |at: usize| {
        text.get(at..part.end).is_some_and(|rest| rest.starts_with("\\\n") || rest.starts_with("\\\r\n"))
    };
    while let Some(character) = peek(at) {
        if character.is_whitespace() || is_continued(at) {
            at += character.len_utf8();
            continue;
        }
        let start = at;
        let quote = ['"', '\''].contains(&character).then_some(character);
        at += usize::from(quote.is_some());
        let mut word = String::new();
        while let Some(character) = peek(at) {
            let is_end = quote
                .map_or_else(|| character.is_whitespace() || is_continued(at), |quote| character == quote);
            if is_end {
                at += usize::from(quote.is_some());
                break;
            }
            at += character.len_utf8();
            let next = peek(at).filter(|next| character == '\\' && quote == Some(*next));
            if let Some(next) = next {
                at += next.len_utf8();
                word.push(next);
            } else {
                word.push(character);
            }
        }
        words.push(Word { text: word, span: Span { start, end: at } });
    }
    words
}

#[cfg(test)]
mod tests {
    use super::{Directive, Reader};
    use proptest::prelude::*;

    fn items(text: &str) -> Result<Vec<Directive>, usize> {
        Reader { text, file: 0, at: 0 }.section(None, 0).map_err(|(at, ..)| at)
    }

    fn show(items: &[Directive]) -> String {
        let show = |item: &Directive| {
            let words: Vec<_> = item.words.iter().map(|word| word.text.as_str()).collect();
            let inner =
                if item.block.is_some() { format!("[{}]", show(item.children())) } else { String::new() };
            format!("{}({}){inner}", item.name, words.join("|"))
        };
        items.iter().map(show).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn lines_sections_and_words_are_read() {
        let text = "# c \\\n still a comment\nListen 80\n<VirtualHost *:80 [::]:80>\n  ServerAlias a \\\n\tb\n\
                    <If \"%{X} == 'y z'\">\n</If>\n</VirtualHost>\nLogFormat \"%h \\\"%r\\\"\" x\n";
        let items = items(text).unwrap();
        assert_eq!(
            show(&items),
            "listen(80) virtualhost(*:80|[::]:80)[serveralias(a|b) if(%{X} == 'y z')[]] logformat(%h \"%r\"|x)"
        );
        let host = items.get(1).unwrap();
        assert!(text.get(host.span.start..host.span.end).unwrap().ends_with("</VirtualHost>"));
    }

    #[test]
    fn faults_name_their_place() {
        for (text, place) in
            [("<A>\n", 4), ("</A>\n", 0), ("<A>\n<B>\n</A>\n", 8), ("x\n  <A\n", 4), ("<>\n</>\n", 0)]
        {
            assert_eq!(items(text).map(|items| show(&items)), Err(place), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-z \"'\\\\<>/#\n\té]{0,80}") {
            match items(&text) {
                Err(at) => prop_assert!(at <= text.len()),
                Ok(items) => for item in items {
                    prop_assert!(text.get(item.span.start..item.span.end).is_some());
                }
            }
        }
    }
}
