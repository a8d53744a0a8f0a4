//! Objects and lists in a JSON text, read member by member and item by item.
//!
//! Used by every reader in this module. A type declares with [`Members`] which members of an object
//! it takes, and with [`Items`] which items of a list; all other text is skipped.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A receiver of the members of an object.
pub trait Members {
    /// The object's name in error messages.
    const NAME: &'static str;

    /// Takes the value of a member from `map`. [`skip`] passes over an unwanted value.
    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error>;
}

/// Reads an object into a receiver of its members.
#[derive(Debug)]
pub struct Object<'t, T>(pub &'t mut T);

/// A receiver of the items of a list.
pub trait Items {
    /// The list's name in error messages.
    const NAME: &'static str;

    /// Takes the next item; false at the end.
    fn item<'de, A: SeqAccess<'de>>(&mut self, items: &mut A) -> Result<bool, A::Error>;
}

/// Reads a list into a receiver of its items.
#[derive(Debug)]
pub struct List<'t, T>(pub &'t mut T);

/// Reads a list into a receiver of its items. Null is an empty list.
#[derive(Debug)]
pub struct OptionalList<'t, T>(pub &'t mut T);

/// Passes over the value of a member.
pub(super) fn skip<'de, A: MapAccess<'de>>(map: &mut A) -> Result<(), A::Error> {
    map.next_value::<IgnoredAny>().map(drop)
}

/// Reads the value of a member that is an object.
pub(crate) fn object<'de, T: Members + Default, A: MapAccess<'de>>(
    map: &mut A,
) -> Result<T, A::Error> {
    let mut object = T::default();
    map.next_value_seed(Object(&mut object))?;
    Ok(object)
}

impl<'de, T: Members> DeserializeSeed<'de> for Object<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de, T: Members> Visitor<'de> for Object<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::NAME)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            self.0.member(&key, &mut map)?;
        }
        Ok(())
    }
}

impl<'de, T: Items> DeserializeSeed<'de> for List<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de, T: Items> Visitor<'de> for List<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::NAME)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while self.0.item(&mut items)? {}
        Ok(())
    }
}

impl<'de, T: Items> DeserializeSeed<'de> for OptionalList<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_option(self)
    }
}

impl<'de, T: Items> Visitor<'de> for OptionalList<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::NAME)
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        List(self.0).deserialize(from)
    }
}
