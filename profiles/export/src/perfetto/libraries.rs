//! The paths and the build ids of libraries, for the mappings of frames.
//!
//! Used by [`super::interned`]. Frames name their library; a process may have several libraries of
//! one name, whose paths and build ids are then not known.

use std::collections::HashMap;

use profiler_reader::{PartId, Survey};

/// A library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Library {
    /// The path of its file; empty if unknown.
    pub(super) path: String,
    /// Empty if unknown.
    pub(super) build_id: Vec<u8>,
}

/// The libraries of a process's object, by name. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Libraries {
    of: Option<PartId>,
    /// `None` for several libraries of one name.
    by_name: HashMap<String, Option<Library>>,
}

impl Libraries {
    /// Begins a thread of this object.
    pub(super) fn begin(&mut self, part: PartId, survey: &Survey) {
        if self.of.replace(part) == Some(part) {
            return;
        }
        self.by_name.clear();
        let libs = survey.parts.get(part.0).into_iter();
        for lib in libs.flat_map(|part| &part.libs) {
            let library = Library {
                path: lib.path.clone(),
                build_id: lib.code_id.as_deref().and_then(bytes).unwrap_or_default(),
            };
            let known = self.by_name.entry(lib.name.clone());
            known
                .and_modify(|known| _ = known.take_if(|known| *known != library))
                .or_insert(Some(library));
        }
    }

    /// The library of this name.
    pub(super) fn get(&self, name: &str) -> Option<&Library> {
        self.by_name.get(name)?.as_ref()
    }
}

/// The bytes of a hexadecimal text.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use profiler_reader::Part;

    #[test]
    fn libraries_of_one_name_have_no_path_unless_they_are_the_same() {
        let libs = r#"[{"name":"a","path":"/a","codeId":"00ff"},{"name":"a","path":"/a","codeId":"00ff"},
            {"name":"b","path":"/b"},{"name":"b","path":"/c"},{"name":"c","codeId":"xy"}]"#;
        let mut part = Part::default();
        part.libs = serde_json::from_str(libs).unwrap();
        let mut survey = Survey::default();
        survey.parts.push(part);
        let mut libraries = Libraries::default();
        libraries.begin(PartId(0), &survey);
        let a = libraries.get("a").unwrap();
        assert_eq!((a.path.as_str(), &a.build_id[..]), ("/a", &[0, 0xff][..]));
        assert_eq!((libraries.get("b"), libraries.get("d")), (None, None));
        assert!(libraries.get("c").unwrap().build_id.is_empty());
        libraries.begin(PartId(1), &survey);
        assert_eq!(libraries.get("a"), None);
    }
}
