//! The source files that a profile in the processed format names.
//!
//! Used by `profiler view`, which shows only such files. Invariants: besides the names, only the
//! numbers of their texts are kept in memory; rows and names beyond [`MAX_SOURCES`] and
//! [`MAX_NAME_BYTES`] are passed over while the file is read, so their files are not shown. In the
//! profiles of this project the table of sources comes before the texts; other profiles are read a
//! second time.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;

use serde::Deserialize as _;
use serde::de::{DeserializeSeed as _, Deserializer, IgnoredAny, MapAccess, SeqAccess};

use super::json::{Items, List, Members, Object, OptionalList, object, skip};
use super::table::{Number, as_index};
use super::text::text;
use super::walk::{PartId, Visit, walk};

/// Limit on the rows of the table that are read.
const MAX_SOURCES: usize = 1 << 20;
/// Limit on the sum of the names.
const MAX_NAME_BYTES: usize = 64 << 20;

/// The names in the table of sources, as the profile has them.
///
/// # Errors
/// When the file cannot be read, or is not a profile.
pub fn source_names(file: &File) -> io::Result<BTreeSet<String>> {
    let mut sources = Sources {
        bytes_left: MAX_NAME_BYTES,
        ..Sources::default()
    };
    walk(text(file)?, &mut sources).map_err(io::Error::from)?;
    if sources.texts_came_first {
        walk(text(file)?, &mut sources).map_err(io::Error::from)?;
    }
    Ok(sources.names)
}

#[derive(Debug, Default)]
struct Sources {
    /// The numbers of the names in the list of texts, once the table was read.
    rows: Option<BTreeSet<usize>>,
    texts_came_first: bool,
    bytes_left: usize,
    names: BTreeSet<String>,
}

impl Visit for Sources {
    fn value<'de, D: Deserializer<'de>>(
        &mut self,
        _: PartId,
        key: &str,
        from: D,
    ) -> Result<(), D::Error> {
        match key {
            "shared" => Object(self).deserialize(from),
            _ => IgnoredAny::deserialize(from).map(drop),
        }
    }
}

impl Members for Sources {
    const NAME: &'static str = "shared tables";

    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match (key, &self.rows) {
            ("sources", None) => {
                let table: SourceTable = object(map)?;
                self.rows = Some(table.names.texts);
                Ok(())
            }
            ("stringArray", Some(rows)) => map.next_value_seed(List(&mut Texts {
                next: 0,
                rows,
                bytes_left: &mut self.bytes_left,
                names: &mut self.names,
            })),
            ("stringArray", None) => {
                self.texts_came_first = true;
                skip(map)
            }
            _ => skip(map),
        }
    }
}

/// The table of sources, of which only the names are kept.
#[derive(Debug, Default)]
struct SourceTable {
    names: NameColumn,
}

impl Members for SourceTable {
    const NAME: &'static str = "a table of sources";

    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "filename" => map.next_value_seed(OptionalList(&mut self.names)),
            _ => skip(map),
        }
    }
}

/// The names of the sources, as numbers of texts.
#[derive(Debug, Default)]
struct NameColumn {
    rows: usize,
    texts: BTreeSet<usize>,
}

impl Items for NameColumn {
    const NAME: &'static str = "a list of names";

    fn item<'de, A: SeqAccess<'de>>(&mut self, items: &mut A) -> Result<bool, A::Error> {
        if self.rows >= MAX_SOURCES {
            return Ok(items.next_element::<IgnoredAny>()?.is_some());
        }
        let Some(Number(text)) = items.next_element()? else {
            return Ok(false);
        };
        self.rows += 1;
        self.texts.extend(as_index(text));
        Ok(true)
    }
}

/// The list of texts, of which some are kept.
struct Texts<'s> {
    next: usize,
    rows: &'s BTreeSet<usize>,
    bytes_left: &'s mut usize,
    names: &'s mut BTreeSet<String>,
}

impl Items for Texts<'_> {
    const NAME: &'static str = "a list of texts";

    fn item<'de, A: SeqAccess<'de>>(&mut self, items: &mut A) -> Result<bool, A::Error> {
        let is_source = self.rows.contains(&self.next);
        self.next += 1;
        if !is_source {
            return Ok(items.next_element::<IgnoredAny>()?.is_some());
        }
        let Some(name) = items.next_element::<String>()? else {
            return Ok(false);
        };
        if let Some(left) = self.bytes_left.checked_sub(name.len()) {
            *self.bytes_left = left;
            self.names.insert(name);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde::de::{DeserializeSeed, IntoDeserializer as _};

    use super::*;

    fn names(profile: &str) -> Vec<String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(profile.as_bytes()).unwrap();
        source_names(&file).unwrap().into_iter().collect()
    }

    #[test]
    fn names_and_rows_beyond_the_limits_are_left_out() {
        let long = "x".repeat(MAX_NAME_BYTES);
        let profile = format!(
            r#"{{"meta":{{}},"shared":{{"sources":{{"filename":[0,1]}},"stringArray":["/a.c","{long}"]}},"threads":[]}}"#
        );
        assert_eq!(names(&profile), ["/a.c"]);
        let rows = "0,".repeat(MAX_SOURCES - 1);
        let profile = format!(
            r#"{{"meta":{{}},"shared":{{"sources":{{"filename":[{rows}1,2]}},"stringArray":["/a.c","/b.c","/c.c"]}},"threads":[]}}"#
        );
        assert_eq!(names(&profile), ["/a.c", "/b.c"]);
    }

    /// A list of any length.
    struct Repeated {
        number: u64,
        count: usize,
        taken: usize,
    }

    impl<'de> SeqAccess<'de> for Repeated {
        type Error = serde::de::value::Error;

        fn next_element_seed<T: DeserializeSeed<'de>>(
            &mut self,
            seed: T,
        ) -> Result<Option<T::Value>, Self::Error> {
            if self.taken == self.count {
                return Ok(None);
            }
            self.taken += 1;
            seed.deserialize(self.number.into_deserializer()).map(Some)
        }
    }

    #[test]
    fn rows_beyond_the_limit_are_passed_over_while_the_table_is_read() {
        let mut names = NameColumn::default();
        let list = |number, count| Repeated {
            number,
            count,
            taken: 0,
        };
        let mut within = list(3, MAX_SOURCES);
        let mut beyond = list(4, MAX_SOURCES);
        while names.item(&mut within).unwrap() {}
        while names.item(&mut beyond).unwrap() {}
        assert_eq!((within.taken, beyond.taken), (MAX_SOURCES, MAX_SOURCES));
        assert_eq!(
            (names.rows, names.texts),
            (MAX_SOURCES, BTreeSet::from([3]))
        );
    }

    #[test]
    fn only_texts_that_the_table_of_sources_refers_to_are_names_of_sources() {
        let sources = r#""sources":{"length":3,"uuid":[null,null,null],"filename":[2,0,null,9]}"#;
        let texts = r#""stringArray":["/a.c","main","/b.c","/c.c"]"#;
        for shared in [format!("{sources},{texts}"), format!("{texts},{sources}")] {
            let profile = format!(
                r#"{{"meta":{{}},"libs":[],"shared":{{"frameTable":{{}},{shared}}},"threads":[{{"stringArray":["/d.c"]}}]}}"#
            );
            assert_eq!(names(&profile), ["/a.c", "/b.c"]);
        }
        assert!(names(r#"{"meta":{},"threads":[]}"#).is_empty());
        assert!(names(&format!(r#"{{"shared":{{{texts}}},"meta":{{}}}}"#)).is_empty());
    }
}
