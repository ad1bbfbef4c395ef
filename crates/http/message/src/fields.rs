//! Header and trailer fields: an ordered list of name and value pairs.
//!
//! Invariant: the order is kept, also among fields of one name (RFC 9110 section 5.3). A head has
//! about ten to thirty fields, so a scan that compares lengths first is faster than hashing and
//! needs no extra memory. Values are bytes; nothing here assumes that they are text.

use bytes::Bytes;

/// One field line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name as received. Compare it with [`Field::is`], because names ignore case.
    pub name: Bytes,
    /// The value without surrounding whitespace.
    pub value: Bytes,
}

impl Field {
    /// Whether this field has the given name, ignoring ASCII case.
    #[inline]
    pub fn is(&self, name: &str) -> bool {
        self.name.len() == name.len() && self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

/// The field lines of one head or trailer section, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<Field>);

impl Fields {
    /// An empty section.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// An empty section with capacity for `count` field lines.
    pub fn with_capacity(count: usize) -> Self {
        Self(Vec::with_capacity(count))
    }

    /// The number of field lines.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no field line.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All field lines in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Field> {
        self.0.iter()
    }

    /// The value of the first field line called `name`.
    pub fn first(&self, name: &str) -> Option<&Bytes> {
        self.0.iter().find(|field| field.is(name)).map(|field| &field.value)
    }

    /// The value of `name` if exactly one field line has that name.
    pub fn only(&self, name: &str) -> Option<&Bytes> {
        let mut named = self.0.iter().filter(|field| field.is(name));
        match (named.next(), named.next()) {
            (Some(field), None) => Some(&field.value),
            _ => None,
        }
    }

    /// Whether any field line is called `name`.
    pub fn has(&self, name: &str) -> bool {
        self.first(name).is_some()
    }

    /// The values of all field lines called `name`, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Bytes> + use<'a> {
        self.0.iter().filter(move |field| field.is(name)).map(|field| &field.value)
    }

    /// The members of the list-valued field `name` over all its lines (RFC 9110 section 5.6.1).
    /// Members are trimmed and empty ones are skipped. A comma inside a quoted string does not
    /// separate.
    pub fn list<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.all(name).flat_map(|value| list_members(value))
    }

    /// Adds a field line at the end.
    pub fn push(&mut self, name: impl Into<Bytes>, value: impl Into<Bytes>) {
        self.0.push(Field { name: name.into(), value: value.into() });
    }

    /// Removes every field line called `name` and adds one at the end.
    pub fn set(&mut self, name: &'static str, value: impl Into<Bytes>) {
        self.remove(name);
        self.push(name, value);
    }

    /// Removes every field line called `name`. Returns whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|field| !field.is(name));
        self.0.len() != before
    }

    /// Keeps only the field lines for which `keep` holds.
    pub fn retain(&mut self, keep: impl FnMut(&Field) -> bool) {
        self.0.retain(keep);
    }

    /// The size of these fields in HTTP/1 format in bytes, including line ends.
    pub fn wire_bytes(&self) -> usize {
        self.0.iter().map(|field| field.name.len() + field.value.len() + 4).sum()
    }
}

impl<'a> IntoIterator for &'a Fields {
    type Item = &'a Field;
    type IntoIter = std::slice::Iter<'a, Field>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl FromIterator<Field> for Fields {
    fn from_iter<I: IntoIterator<Item = Field>>(fields: I) -> Self {
        Self(fields.into_iter().collect())
    }
}

/// Collects field lines from names and values.
impl<N: Into<Bytes>, V: Into<Bytes>> FromIterator<(N, V)> for Fields {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(lines: I) -> Self {
        lines.into_iter().map(|(name, value)| Field { name: name.into(), value: value.into() }).collect()
    }
}

/// The members of one comma-separated field value (RFC 9110 section 5.6.1). Members are trimmed of
/// ASCII whitespace and empty ones are skipped. Commas inside quoted strings, which may have
/// backslash escapes, do not separate.
pub fn list_members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        while let Some(value) = rest {
            let (member, after) = split_member(value);
            rest = after;
            let member = member.trim_ascii();
            if !member.is_empty() {
                return Some(member);
            }
        }
        None
    })
}

/// Splits at the first comma outside quoted strings.
fn split_member(value: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut quoted = false;
    let mut escaped = false;
    for (index, &byte) in value.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => {
                let (member, after) = value.split_at(index);
                return (member, after.get(1..));
            }
            _ => {}
        }
    }
    (value, None)
}

#[cfg(test)]
mod tests {
    use super::{Fields, list_members};

    fn members(value: &str) -> Vec<String> {
        list_members(value.as_bytes()).map(|member| member.escape_ascii().to_string()).collect()
    }

    #[test]
    fn names_ignore_case_and_order_is_kept() {
        let mut fields: Fields = [("Vary", "a"), ("X", "1"), ("vARY", "b")].into_iter().collect();
        assert_eq!(fields.all("vary").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(fields.only("vary"), None);
        assert_eq!(fields.only("x").unwrap(), "1");
        assert!(fields.remove("VARY"));
        assert_eq!(fields.len(), 1);
    }

    #[test]
    fn lists_split_only_outside_quotes() {
        assert_eq!(members("a, b ,,c,"), ["a", "b", "c"]);
        assert_eq!(members(r#"private="x, y", max-age=1"#), [r#"private=\"x, y\""#, "max-age=1"]);
        assert_eq!(members(r#""a\",b", c"#), [r#"\"a\\\",b\""#, "c"]);
        assert_eq!(members(""), Vec::<String>::new());
    }

    #[test]
    fn unclosed_quote_includes_the_rest() {
        assert_eq!(members(r#"a, "b, c"#), ["a", r#"\"b, c"#]);
    }
}
