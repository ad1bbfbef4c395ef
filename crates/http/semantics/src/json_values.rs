//! Extracts values from a JSON text. The end of the text may be missing, because often only the
//! beginning of a response is available.
//!
//! Invariant: the time is proportional to the length of the text, and nesting is bounded. Text
//! inside a string is never reported as a separate value.

/// Maximum nesting depth. Parsing stops at deeper values.
const DEPTH_MAX: usize = 32;

/// Maximum length of a reported string in bytes. Longer strings are left out. If the name of a
/// member is longer, it is empty in the path.
const VALUE_BYTES_MAX: usize = 2048;

/// Receives the path and the text of a value.
pub(crate) type ValueCallback<'a> = dyn FnMut(&[Vec<u8>], &[u8]) + 'a;

/// Calls `visit` with the path and the text of each string, number and literal. In a path, `*`
/// represents an array element. Stops silently where the text ends, or where its structure is not
/// JSON. Whether a number or literal is valid is not checked.
pub(crate) fn json_values(text: &[u8], visit: &mut ValueCallback<'_>) {
    let mut reader = JsonReader { rest: text, path: Vec::new(), visit };
    // `None` means that the text ended or is not JSON. The values found before that count.
    let _ = reader.value();
}

struct JsonReader<'a> {
    rest: &'a [u8],
    path: Vec<Vec<u8>>,
    visit: &'a mut ValueCallback<'a>,
}

impl JsonReader<'_> {
    fn value(&mut self) -> Option<()> {
        match self.peek()? {
            b'{' => self.members(),
            b'[' => self.elements(),
            b'"' => {
                if let Some(text) = self.string()? {
                    (self.visit)(&self.path, &text);
                }
                Some(())
            }
            _ => {
                let ends = |octet: &u8| matches!(octet, b',' | b'}' | b']') || octet.is_ascii_whitespace();
                // At the end of the text, a part of the number or literal may be missing. So it is
                // not reported.
                let length = self.rest.iter().position(ends)?;
                let (token, rest) = self.rest.split_at(length);
                if token.is_empty() {
                    return None;
                }
                self.rest = rest;
                (self.visit)(&self.path, token);
                Some(())
            }
        }
    }

    fn members(&mut self) -> Option<()> {
        self.enter()?;
        if self.peek()? == b'}' {
            return self.skip();
        }
        loop {
            self.expect(b'"', false)?;
            let name = self.string()?.unwrap_or_default();
            self.expect(b':', true)?;
            self.path.push(name);
            self.value()?;
            self.path.pop();
            match self.peek()? {
                b',' => self.skip()?,
                b'}' => return self.skip(),
                _ => return None,
            }
        }
    }

    fn elements(&mut self) -> Option<()> {
        self.enter()?;
        if self.peek()? == b']' {
            return self.skip();
        }
        self.path.push(b"*".to_vec());
        loop {
            self.value()?;
            match self.peek()? {
                b',' => self.skip()?,
                b']' => {
                    self.path.pop();
                    return self.skip();
                }
                _ => return None,
            }
        }
    }

    fn enter(&mut self) -> Option<()> {
        if self.path.len() >= DEPTH_MAX {
            return None;
        }
        self.skip()
    }

    /// Reads a string and resolves its escapes; `Some(None)` if it is too long to be kept.
    fn string(&mut self) -> Option<Option<Vec<u8>>> {
        self.expect(b'"', true)?;
        let mut text = Vec::new();
        loop {
            let (&octet, rest) = self.rest.split_first()?;
            self.rest = rest;
            let octet = match octet {
                b'"' => return Some((text.len() <= VALUE_BYTES_MAX).then_some(text)),
                b'\\' => self.escaped()?,
                other => other,
            };
            if text.len() <= VALUE_BYTES_MAX {
                text.push(octet);
            }
        }
    }

    /// The byte that an escape encodes; the backslash has been read. A `\u` escape of a character
    /// outside ASCII becomes `?`, because no rule needs such a character. `\b`, `\f` and `\r`
    /// become their letters.
    fn escaped(&mut self) -> Option<u8> {
        let (&octet, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(match octet {
            b'n' => b'\n',
            b't' => b'\t',
            b'u' => {
                let digits = std::str::from_utf8(self.rest.get(..4)?).ok()?;
                let code = u32::from_str_radix(digits, 16).ok()?;
                self.rest = self.rest.get(4..)?;
                u8::try_from(code).ok().filter(u8::is_ascii).unwrap_or(b'?')
            }
            other => other,
        })
    }

    /// Skips white space and returns the next byte without consuming it.
    fn peek(&mut self) -> Option<u8> {
        self.rest = self.rest.trim_ascii_start();
        self.rest.first().copied()
    }

    fn skip(&mut self) -> Option<()> {
        self.rest = self.rest.get(1..)?;
        Some(())
    }

    fn expect(&mut self, octet: u8, takes: bool) -> Option<()> {
        if self.peek()? != octet {
            return None;
        }
        if takes { self.skip() } else { Some(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::json_values;

    fn values(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        json_values(text.as_bytes(), &mut |path, value| {
            let path = path.join(&b'.').escape_ascii().to_string();
            found.push(format!("{path}={}", value.escape_ascii()));
        });
        found
    }

    #[test]
    fn values_have_their_paths() {
        let text = r#" {"a": [1, {"b": "x\/y\u0041"}, []], "c": {}, "d": null, "e": "f"} "#;
        assert_eq!(values(text), ["a.*=1", "a.*.b=x/yA", "d=null", "e=f"]);
    }

    #[test]
    fn json_inside_a_string_is_not_reported() {
        assert_eq!(values(r#"{"a": "\"status\":201,{", "b": 1}"#), [r#"a=\"status\":201,{"#, "b=1"]);
    }

    #[test]
    fn cut_text_gives_the_values_before_the_cut() {
        let text = r#"{"a": 12, "b": [{"c": "d"}, 34]}"#;
        for end in 0..text.len() {
            let found = values(&text[..end]);
            assert!(values(text).starts_with(&found), "{end}: {found:?}");
        }
        for text in ["", "{", "[}", "{\"a\"1}", "\u{0}", &"[".repeat(100_000)] {
            assert!(values(text).is_empty(), "{text:.20}");
        }
    }

    #[test]
    fn long_string_is_left_out_and_the_rest_is_read() {
        let text = format!("{{\"a\": \"{}\", \"b\": 2}}", "x".repeat(5000));
        assert_eq!(values(&text), ["b=2"]);
    }
}
