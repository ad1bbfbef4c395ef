//! Reads the configuration language of nginx into directives with spans.
//!
//! The tokens are those of nginx: words end at white space, `;` and `{`; a quote counts only at the
//! beginning of a word; `#` begins a comment only between words. Included files become children of
//! their `include`. Variables are not expanded.

use crate::directive::{Directive, Word};
use crate::source::{INCLUDE_DEPTH_MAX, Machine, Position, Refusal, Sources, Span};
use std::path::{Path, PathBuf};

/// The directives of one level, with those of included files in the place of each `include`.
pub(crate) fn flatten(items: &[Directive]) -> Vec<&Directive> {
    let mut flat = Vec::new();
    for item in items {
        if item.name == "include" {
            flat.extend(flatten(&item.included));
        } else {
            flat.push(item);
        }
    }
    flat
}

/// All directives at and below a level.
pub(crate) fn all(items: &[Directive]) -> Vec<&Directive> {
    let mut found = Vec::new();
    for item in flatten(items) {
        found.push(item);
        found.extend(all(item.children()));
    }
    found
}

/// Reads a file and the files that it includes. Relative paths begin at `root`.
pub(crate) fn read(
    machine: &dyn Machine,
    sources: &mut Sources,
    path: &Path,
    root: &Path,
) -> Result<Vec<Directive>, Refusal> {
    include(machine, sources, path, root, None, 0)
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
        .block(0)
        .map_err(|(offset, problem, fix)| sources.refusal(Position { file, offset }, problem, fix))?;
    resolve(machine, sources, &mut items, root, depth)?;
    Ok(items)
}

/// Reads the files that `include` directives name.
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
        if item.name != "include" {
            continue;
        }
        let position = item.position();
        if depth >= INCLUDE_DEPTH_MAX {
            let problem = format!("files are included more than {INCLUDE_DEPTH_MAX} deep");
            return Err(sources.refusal(position, problem, "remove the circle of includes"));
        }
        let pattern = root.join(item.word(0));
        let is_pattern = item.word(0).contains(['*', '?', '[']);
        let paths: Vec<PathBuf> =
            if is_pattern { machine.matching(&pattern.to_string_lossy()) } else { vec![pattern] };
        for path in paths {
            let read = include(machine, sources, &path, root, Some(position), depth + 1)?;
            item.included.extend(read);
        }
    }
    Ok(())
}

/// An offset, the problem there, and the fix.
type Fault = (usize, &'static str, &'static str);

struct Reader<'a> {
    text: &'a str,
    file: usize,
    at: usize,
}

enum Token {
    Word(Word),
    End,
    Open,
    Close,
    Nothing,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at..)?.chars().next()
    }

    fn step(&mut self, character: char) {
        self.at += character.len_utf8();
    }

    fn token(&mut self) -> Result<Token, Fault> {
        loop {
            let Some(character) = self.peek() else { return Ok(Token::Nothing) };
            match character {
                _ if character.is_ascii_whitespace() => self.step(character),
                '#' => {
                    let rest = self.text.get(self.at..).unwrap_or_default();
                    self.at += rest.find('\n').unwrap_or(rest.len());
                }
                ';' | '{' | '}' => {
                    self.step(character);
                    return Ok(match character {
                        ';' => Token::End,
                        '{' => Token::Open,
                        _ => Token::Close,
                    });
                }
                _ => return self.word().map(Token::Word),
            }
        }
    }

    fn word(&mut self) -> Result<Word, Fault> {
        let start = self.at;
        let quote = self.peek().filter(|character| ['"', '\''].contains(character));
        if let Some(quote) = quote {
            self.step(quote);
        }
        let mut text = String::new();
        let mut is_after_dollar = false;
        while let Some(character) = self.peek() {
            let ends = match quote {
                Some(quote) => character == quote,
                None => {
                    character.is_ascii_whitespace()
                        || character == ';'
                        || (character == '{' && !is_after_dollar)
                }
            };
            if ends {
                if let Some(quote) = quote {
                    self.step(quote);
                    let is_alone = self
                        .peek()
                        .is_none_or(|next| next.is_ascii_whitespace() || [';', '{', ')'].contains(&next));
                    if !is_alone {
                        return Err((self.at, "text follows a closing quote", "put a space after the quote"));
                    }
                }
                return Ok(Word { text, span: Span { start, end: self.at } });
            }
            self.step(character);
            is_after_dollar = character == '$';
            if character == '\\' {
                let Some(next) = self.peek() else { break };
                self.step(next);
                // nginx drops the backslash before these and keeps it before all others.
                match next {
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    'n' => text.push('\n'),
                    '"' | '\'' | '\\' => text.push(next),
                    _ => text.extend(['\\', next]),
                }
                continue;
            }
            text.push(character);
        }
        if quote.is_some() {
            return Err((start, "the quoted text has no end", "add the missing quote"));
        }
        // The caller reports that the directive has no end.
        Ok(Word { text, span: Span { start, end: self.at } })
    }

    fn block(&mut self, depth: usize) -> Result<Vec<Directive>, Fault> {
        let mut items = Vec::new();
        let mut words: Vec<Word> = Vec::new();
        if depth > INCLUDE_DEPTH_MAX {
            return Err((self.at, "blocks are nested too deep", "remove a level of blocks"));
        }
        loop {
            let before = self.at;
            let token = self.token()?;
            match token {
                Token::Word(word) => words.push(word),
                Token::End | Token::Open => {
                    if words.is_empty() {
                        return Err((
                            before,
                            "`;` or `{` stands where a directive should begin",
                            "remove it, as `nginx -t` says too",
                        ));
                    }
                    let name = words.remove(0);
                    let block = match token {
                        Token::Open if name.text.ends_with("_by_lua_block") => {
                            Some((Vec::new(), self.raw()?))
                        }
                        Token::Open => Some((self.block(depth + 1)?, self.at - 1)),
                        _ => None,
                    };
                    items.push(Directive {
                        file: self.file,
                        name: name.text,
                        words: std::mem::take(&mut words),
                        span: Span { start: name.span.start, end: self.at },
                        block,
                        included: Vec::new(),
                    });
                }
                Token::Close | Token::Nothing => {
                    if let Some(word) = words.first() {
                        return Err((word.span.start, "the directive has no `;`", "add `;` after it"));
                    }
                    return match (token, depth) {
                        (Token::Close, 0) => {
                            Err((self.at - 1, "`}` closes no block", "remove it, or add the missing `{`"))
                        }
                        (Token::Nothing, 1..) => {
                            Err((self.at, "the file ends inside a block", "add the missing `}`"))
                        }
                        _ => Ok(items),
                    };
                }
            }
        }
    }

    /// Skips a block of Lua by its braces. Returns the offset of the closing one.
    fn raw(&mut self) -> Result<usize, Fault> {
        let start = self.at;
        let mut open = 1_usize;
        while let Some(character) = self.peek() {
            self.step(character);
            match character {
                '{' => open += 1,
                '}' => open -= 1,
                _ => {}
            }
            if open == 0 {
                return Ok(self.at - 1);
            }
        }
        Err((start, "the file ends inside a block of Lua", "add the missing `}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::Reader;
    use proptest::prelude::*;

    fn items(text: &str) -> Result<String, usize> {
        let items = Reader { text, file: 0, at: 0 }.block(0).map_err(|(at, ..)| at)?;
        let show = |item: &super::Directive| {
            let words: Vec<_> = item.words.iter().map(|word| word.text.as_str()).collect();
            assert!(text.get(item.span.start..item.span.end).is_some());
            format!("{}({}){}", item.name, words.join(","), item.children().len())
        };
        Ok(items.iter().map(show).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn words_end_as_in_nginx() {
        for (text, expected) in [
            ("return 200 a#b; # c\n", "return(200,a#b)0"),
            ("log_format m '$a'\n  '\"$b\"';", "log_format(m,$a,\"$b\")0"),
            ("return 200 x\"y;", "return(200,x\"y)0"),
            ("set $a ${b}c;", "set($a,${b}c)0"),
            ("return 200 b\\ c \"\\\"q\";", "return(200,b\\ c,\"q)0"),
            ("location ~ \"^/a{2}$\" { a; b; }", "location(~,^/a{2}$)2"),
            ("if ($host = \"x\") { return 301 /; }", "if(($host,=,x,))1"),
            ("content_by_lua_block { if a then b() end; t = {} } c;", "content_by_lua_block()0 c()0"),
        ] {
            assert_eq!(items(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn faults_name_their_place() {
        for (text, place) in [
            ("a", 0),
            ("a b", 0),
            ("a \"b;", 2),
            ("a {", 3),
            ("a; }", 3),
            ("a;;", 2),
            ("a \"b\"c;", 5),
            ("x { a }", 4),
        ] {
            assert_eq!(items(text), Err(place), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-z \"'\\\\;{}$#\n\té]{0,80}") {
            if let Err(at) = items(&text) {
                prop_assert!(at <= text.len());
            }
        }
    }
}
