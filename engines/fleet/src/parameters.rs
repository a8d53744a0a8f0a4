//! Replaces the parameters of a query with literals of their types.
//!
//! Invariant: a value is read by the server as one literal, whatever its characters are.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A parameter of a query has no value, or one of another type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the query has no value for the parameter {parameter}")]
pub struct UnknownParameter {
    /// The parameter with its type.
    pub parameter: String,
}

/// The values of parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters(BTreeMap<&'static str, Literal>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Literal {
    Text(String),
    Number(u64),
    Date(String),
}

impl Parameters {
    /// Sets a parameter of the type `String`.
    #[must_use]
    pub fn text(self, name: &'static str, value: &str) -> Self {
        self.with(name, Literal::Text(value.to_owned()))
    }

    /// Sets a parameter of the type `UInt64`.
    #[must_use]
    pub fn number(self, name: &'static str, value: u64) -> Self {
        self.with(name, Literal::Number(value))
    }

    /// Sets a parameter of the type `Date`: a day in the form `YYYY-MM-DD`.
    #[must_use]
    pub(super) fn date(self, name: &'static str, day: String) -> Self {
        self.with(name, Literal::Date(day))
    }

    /// The number of rows that an answer may have.
    pub(super) fn limit(&self) -> Option<u64> {
        match self.0.get("limit")? {
            Literal::Number(limit) => Some(*limit),
            _ => None,
        }
    }

    fn with(mut self, name: &'static str, literal: Literal) -> Self {
        self.0.insert(name, literal);
        self
    }

    /// The query with literals for its parameters.
    ///
    /// # Errors
    /// [`UnknownParameter`].
    pub fn fill(&self, query: &str) -> Result<String, UnknownParameter> {
        let mut filled = String::with_capacity(query.len());
        let mut rest = query;
        while let Some((before, after)) = rest.split_once('{') {
            let (parameter, after) = after.split_once('}').unwrap_or((after, ""));
            filled.push_str(before);
            self.push(parameter, &mut filled)?;
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn push(&self, parameter: &str, to: &mut String) -> Result<(), UnknownParameter> {
        let unknown = || UnknownParameter {
            parameter: parameter.to_owned(),
        };
        let (name, kind) = parameter.split_once(':').ok_or_else(unknown)?;
        match (self.0.get(name).ok_or_else(unknown)?, kind) {
            (Literal::Text(text), "String") => push_text(text, to),
            (Literal::Date(day), "Date") => {
                to.push_str("toDate(");
                push_text(day, to);
                to.push(')');
            }
            // Writing to a text never fails.
            (Literal::Number(number), "UInt64") => drop(write!(to, "{number}")),
            _ => return Err(unknown()),
        }
        Ok(())
    }
}

/// Adds a literal. Inside of it, only the quotation mark and the backslash have a meaning.
fn push_text(text: &str, to: &mut String) {
    to.push('\'');
    for letter in text.chars() {
        match letter {
            '\'' | '\\' => to.extend(['\\', letter]),
            '\0' => to.push_str("\\0"),
            letter => to.push(letter),
        }
    }
    to.push('\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_literal_whatever_its_characters_are() {
        let parameters = Parameters::default()
            .text("host", r"x' OR '1' = '1'; -- \")
            .number("limit", u64::MAX);
        let filled = parameters
            .fill("h = {host:String} LIMIT {limit:UInt64}")
            .unwrap();
        assert_eq!(
            filled,
            r"h = 'x\' OR \'1\' = \'1\'; -- \\' LIMIT 18446744073709551615"
        );
        let braces = Parameters::default().text("a", "{b:String}");
        assert_eq!(braces.fill("{a:String}").unwrap(), "'{b:String}'");
    }

    #[test]
    fn a_parameter_without_a_value_of_its_type_is_an_error() {
        let parameters = Parameters::default().number("limit", 1);
        for query in [
            "{limit:String}",
            "{limit}",
            "{other:UInt64}",
            "{limit:UInt64",
        ] {
            let filled = parameters.fill(query);
            assert_eq!(
                filled.is_ok(),
                query.starts_with("{limit:UInt64"),
                "{query}"
            );
        }
    }
}
