//! Copies JSON values from a parser to a writer, and changes numbers on the way.
//!
//! Used by the second pass for everything that is not text of a marker. Numbers that are not
//! changed keep their value exactly; the rest of a value is copied as it is. Invariant: no value is
//! held, apart from single strings.

use std::fmt;
use std::io::Write;

use profiler_json::JsonWriter;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

/// A number of a profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Num {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    /// A time in nanoseconds, written in milliseconds.
    Nanos(i64),
}

/// A changed number, or what is wrong with it.
pub(super) type Changed = Result<Num, String>;

/// Times beyond this, in milliseconds (almost 300 years), have no exact value in nanoseconds.
const MAX_MS: f64 = 9e12;

impl Num {
    pub(super) fn write<W: Write>(self, out: &mut JsonWriter<W>) {
        match self {
            Self::Unsigned(number) => out.u64(number),
            Self::Signed(number) => out.i64(number),
            Self::Float(number) => out.f64(number),
            Self::Nanos(ns) => out.millis_ns(ns),
        }
    }

    /// A number in JSON text.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let whole = text.parse().map(Self::Unsigned);
        let whole = whole.or_else(|_| text.parse().map(Self::Signed)).ok();
        whole.or_else(|| text.parse().ok().map(Self::Float))
    }

    const fn as_f64(self) -> f64 {
        match self {
            Self::Unsigned(number) => number as f64,
            Self::Signed(number) => number as f64,
            Self::Float(number) => number,
            Self::Nanos(ns) => ns as f64 / 1e6,
        }
    }

    /// The number of the row that is `more` rows later.
    pub(super) const fn plus(self, more: u64) -> Self {
        match self {
            Self::Unsigned(number) => Self::Unsigned(number.saturating_add(more)),
            other => other,
        }
    }

    /// A number of rows.
    pub(super) const fn as_count(self) -> u64 {
        match self {
            Self::Unsigned(count) => count,
            _ => 0,
        }
    }

    /// A time in milliseconds, moved by `ns`. Moved times are whole nanoseconds, as recorded ones.
    pub(super) fn moved(self, ns: i64) -> Self {
        let ms = self.as_f64();
        match ns {
            0 => self,
            _ if ms.abs() < MAX_MS => Self::Nanos(((ms * 1e6).round() as i64).saturating_add(ns)),
            _ => Self::Float(ms + ns as f64 / 1e6),
        }
    }

    /// The number of a row in another table. -1 is no row.
    pub(super) fn remapped(self, numbers: &[u32], what: &str) -> Changed {
        let unknown = || {
            let (at, count) = (self.as_f64(), numbers.len());
            format!("a row refers to {what} {at}, but there are {count}")
        };
        match self {
            Self::Signed(-1) => Ok(self),
            Self::Unsigned(number) => {
                let known = usize::try_from(number).ok().and_then(|at| numbers.get(at));
                let known = known.map(|number| Self::Unsigned(u64::from(*number)));
                known.ok_or_else(unknown)
            }
            _ => Err(unknown()),
        }
    }
}

/// Copies one value, and changes each number in it.
pub(super) struct Rewrite<'o, W: Write, F> {
    pub(super) out: &'o mut JsonWriter<W>,
    pub(super) change: &'o mut F,
}

/// Copies the value of a member under its key.
pub(super) fn copy<'de, A: MapAccess<'de>, W: Write>(
    key: &str,
    map: &mut A,
    out: &mut JsonWriter<W>,
) -> Result<(), A::Error> {
    change(key, map, out, Ok)
}

/// Copies the value of a member under its key, and changes each number in it.
pub(super) fn change<'de, A: MapAccess<'de>, W: Write>(
    key: &str,
    map: &mut A,
    out: &mut JsonWriter<W>,
    mut change: impl FnMut(Num) -> Changed,
) -> Result<(), A::Error> {
    out.key(key);
    let change = &mut change;
    map.next_value_seed(Rewrite { out, change })
}

/// Copies a list of times of which each but the first is the distance from the previous one.
pub(super) fn move_first<'de, A: MapAccess<'de>, W: Write>(
    key: &str,
    map: &mut A,
    out: &mut JsonWriter<W>,
    ns: i64,
) -> Result<(), A::Error> {
    let mut first = Some(ns);
    change(key, map, out, |num| {
        Ok(first.take().map_or(num, |ns| num.moved(ns)))
    })
}

impl<'de, W: Write, F: FnMut(Num) -> Changed> DeserializeSeed<'de> for Rewrite<'_, W, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<W: Write, F: FnMut(Num) -> Changed> Rewrite<'_, W, F> {
    fn number<E: serde::de::Error>(self, number: Num) -> Result<(), E> {
        (self.change)(number).map_err(E::custom)?.write(self.out);
        Ok(())
    }
}

impl<'de, W: Write, F: FnMut(Num) -> Changed> Visitor<'de> for Rewrite<'_, W, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.out.null();
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.out.bool(value);
        Ok(())
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<(), E> {
        self.number(Num::Unsigned(number))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<(), E> {
        self.number(Num::Signed(number))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<(), E> {
        self.number(Num::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.out.string(text);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { out, change } = self;
        out.begin_array();
        while items
            .next_element_seed(Rewrite {
                out: &mut *out,
                change: &mut *change,
            })?
            .is_some()
        {}
        out.end_array();
        if out.is_failed() {
            return Err(A::Error::custom("the output failed"));
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Self { out, change } = self;
        out.begin_object();
        while let Some(key) = members.next_key::<String>()? {
            out.key(&key);
            members.next_value_seed(Rewrite {
                out: &mut *out,
                change: &mut *change,
            })?;
        }
        out.end_object();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str, mut change: impl FnMut(Num) -> Changed) -> Result<String, String> {
        let mut out = JsonWriter::new(Vec::new());
        let rewrite = Rewrite {
            out: &mut out,
            change: &mut change,
        };
        let mut from = serde_json::Deserializer::from_str(text);
        rewrite.deserialize(&mut from).map_err(|e| e.to_string())?;
        Ok(String::from_utf8(out.finish().unwrap()).unwrap())
    }

    #[test]
    fn a_copy_is_the_same_text() {
        let text = r#"{"a":[1,-1,2.5,null,true,"\"ü",{"b":[]},18446744073709551615],"c":1e+300}"#;
        assert_eq!(rewritten(text, Ok).unwrap(), text);
    }

    #[test]
    fn times_are_moved_exactly_and_stay_as_they_are_without_a_move() {
        let moved = |ns| rewritten("[0.1,null,-2,1e13]", move |num| Ok(num.moved(ns))).unwrap();
        assert_eq!(moved(0), "[0.1,null,-2,10000000000000]");
        assert_eq!(moved(-1), "[0.099999,null,-2.000001,10000000000000]");
    }

    #[test]
    fn a_number_of_no_row_is_an_error() {
        let remap = |text| rewritten(text, |num| num.remapped(&[7, 9], "stack"));
        assert_eq!(remap("[1,null,0,-1]").unwrap(), "[9,null,7,-1]");
        for wrong in ["2", "-2", "0.5"] {
            let said = remap(wrong).unwrap_err();
            assert!(said.contains("refers to stack"), "{said}");
        }
    }
}
