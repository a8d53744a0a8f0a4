//! The source files that a profile in the processed format names.
//!
//! Used by `profiler view`, which shows only such files. Invariant: besides the names, only the
//! numbers of their texts are kept in memory. In the profiles of this project the table of sources
//! comes before the texts; other profiles are read a second time.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;

use serde::Deserialize as _;
use serde::de::{DeserializeSeed as _, Deserializer, IgnoredAny, MapAccess, SeqAccess};

use super::json::{Items, List, Members, Object, skip};
use super::table::{Columns, as_index};
use super::text::text;
use super::walk::{PartId, Visit, walk};

/// The names in the table of sources, as the profile has them.
///
/// # Errors
/// When the file cannot be read, or is not a profile.
pub(crate) fn source_names(file: &File) -> io::Result<BTreeSet<String>> {
    let mut sources = Sources::default();
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
                let table = map.next_value_seed(Columns([("filename", usize::MAX)]))?;
                let [names] = table.0;
                self.rows = Some(names.into_iter().filter_map(as_index).collect());
                Ok(())
            }
            ("stringArray", Some(rows)) => map.next_value_seed(List(&mut Texts {
                next: 0,
                rows,
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

/// The list of texts, of which some are kept.
struct Texts<'s> {
    next: usize,
    rows: &'s BTreeSet<usize>,
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
        let name = items.next_element::<String>()?;
        Ok(name.map(|name| self.names.insert(name)).is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn names(profile: &str) -> Vec<String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(profile.as_bytes()).unwrap();
        source_names(&file).unwrap().into_iter().collect()
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
