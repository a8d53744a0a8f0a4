//! The parameters of a request: the `key=value` pairs after the question mark.
//!
//! Invariant: parsing never fails; malformed pairs are left out. An invalid value is treated as
//! missing, so a page of another version still works.

/// The pairs of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the text after the question mark. Escapes (`%20`, `+`) are decoded.
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let pair = |pair: &str| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((unescape(key)?, unescape(value)?))
        };
        Self(pairs.filter_map(pair).collect())
    }

    /// The first value of a key; `None` if the key is missing.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| known == key)
            .map(|(_, value)| value.as_str())
    }

    /// The first value of a key; `None` if it is missing or empty.
    pub fn text(&self, key: &str) -> Option<String> {
        self.get(key)
            .filter(|value| !value.is_empty())
            .map(ToOwned::to_owned)
    }

    /// All values of a key, in the order of the query.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(known, _)| known == key)
            .map(|(_, value)| value.as_str())
    }

    /// The first value of a key as a number; `None` if it is missing or not such a number.
    pub fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.get(key)?.parse().ok()
    }

    /// The number of rows that a key requests: [`usize::MAX`] for `all`, and `otherwise` if the
    /// value is missing or not a number.
    pub fn rows(&self, key: &str, otherwise: usize) -> usize {
        if self.get(key) == Some("all") {
            usize::MAX
        } else {
            self.number(key).unwrap_or(otherwise)
        }
    }
}

/// Decodes percent encoding; `None` if the result is not valid UTF-8.
fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => digit(rest.next()?)? << 4 | digit(rest.next()?)?,
            _ => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

fn digit(byte: u8) -> Option<u8> {
    u8::try_from(char::from(byte).to_digit(16)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_parsed_and_malformed_ones_are_left_out() {
        let query = Query::parse("find=a%20b%2Bc+d&open=1&open=2&top=all&x=%ff&y=%4&z&n=7");
        assert_eq!(query.get("find"), Some("a b+c d"));
        assert_eq!(query.all("open").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(
            (query.get("x"), query.get("y"), query.get("z")),
            (None, None, Some(""))
        );
        assert_eq!(
            (
                query.rows("top", 5),
                query.rows("n", 5),
                query.rows("none", 5)
            ),
            (usize::MAX, 7, 5)
        );
        assert_eq!(query.text("z"), None);
        assert_eq!(Query::parse(""), Query::default());
    }
}
