//! The libraries that a profile names: what somebody with symbols needs to know of it.
//!
//! Read when the first question for symbols comes, as a stream: of gigabytes only these rows are kept.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;

use serde::Deserialize;

use crate::reading::text::text;

/// A library, as a row of `libs` names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Library {
    /// Its file name.
    pub name: String,
    /// Where its file was.
    pub path: String,
    /// By which name symbols are asked for.
    pub debug_name: String,
    /// Where its debug information was.
    pub debug_path: String,
    /// By which identifier symbols are asked for.
    pub breakpad_id: String,
    /// Its build id.
    pub code_id: Option<String>,
    /// For which processor it is.
    pub arch: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Part {
    libs: Vec<Library>,
    processes: Vec<Part>,
}

/// All libraries of all processes of a profile, each once.
///
/// # Errors
/// When the file cannot be read, or is no profile.
pub fn libraries(file: &File) -> io::Result<Vec<Library>> {
    let root: Part = serde_json::from_reader(text(file)?).map_err(io::Error::from)?;
    let mut all = BTreeSet::new();
    let mut parts = vec![root];
    while let Some(part) = parts.pop() {
        all.extend(part.libs);
        parts.extend(part.processes);
    }
    Ok(all.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn libraries_of_all_processes_are_found_once_whatever_else_is_there() {
        let lib = r#"{"name":"a","path":"/a","debugName":"a","debugPath":"/a","breakpadId":"AB0","codeId":null,"start":1}"#;
        let text = format!(
            r#"{{"processes":[{{"libs":[{lib}],"threads":[{{"x":1}}]}},{{"meta":{{}}}}],"libs":[{lib},{{"name":"b"}}],"meta":{{}}}}"#
        );
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let found = libraries(&file).unwrap();
        assert_eq!(found.iter().map(|lib| lib.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((found[0].breakpad_id.as_str(), &found[0].code_id), ("AB0", &None));
    }
}
