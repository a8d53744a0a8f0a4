//! Answers the viewer's requests for source files: `source/v1`.
//!
//! The request is `{debugName, debugId, moduleOffset, file}`. The first three are the viewer's
//! proof that the file belongs to the profile: an address in one of its libraries whose debug
//! information names the file. Called by [`super::named`]. Invariants: only a file that the debug
//! information at this address names, or that the profile's table of sources names, is read, for
//! any content of the request; a name that only the profile contains must be that of a source file
//! ([`super::source_name`]), and so must that of the file to which it leads; which file on this
//! machine that is, and what may be read of it, is decided by [`super::source_files`].

use std::io;

use serde::{Deserialize, Serialize};

use super::api::hexadecimal;
use super::source_files::{NamedBy, SourceFileError, SourceFiles};
use super::source_name::{SourceNameError, check_source_name};
use profiler_symbols::Place;
use profiler_symbols::source_path::viewer_form;

/// A request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SourceRequest {
    pub(super) debug_name: String,
    pub(super) debug_id: String,
    /// The address, relative to the library.
    #[serde(deserialize_with = "hexadecimal")]
    pub(super) module_offset: u64,
    /// The file, as the profile or an answer to `symbolicate/v5` has it.
    pub(super) file: String,
}

/// The answer.
#[derive(Debug, Serialize)]
pub(super) struct SourceAnswer {
    file: String,
    source: String,
}

/// The reason why a source file is not shown. The viewer shows the text to the user.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceError {
    /// The profile has no such library.
    #[error("the profile has no library {name} with the id {id}")]
    NoSuchLibrary {
        /// The requested name.
        name: String,
        /// The requested id.
        id: String,
    },
    /// Neither the profile nor the debug information names the file.
    #[error("neither the profile nor the debug information at this address names the file {0}")]
    NotNamed(String),
    /// The names in the profile cannot be read.
    #[error("cannot read the profile: {0}")]
    Profile(#[source] io::Error),
    /// Only the profile names the file, and the name is not that of a source file.
    #[error(transparent)]
    Name(#[from] SourceNameError),
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] SourceFileError),
}

/// Reads the requested file. `place` is what the debug information says about the address;
/// `is_named` tells whether the profile's table of sources names a file.
pub(super) fn source(
    request: SourceRequest,
    place: &Place,
    is_named: impl FnOnce(&str) -> io::Result<bool>,
    files: &SourceFiles,
) -> Result<SourceAnswer, SourceError> {
    let file = request.file;
    let mut paths = place
        .frames
        .iter()
        .filter_map(|frame| frame.file.as_deref());
    let path = paths.find(|path| *path == file || viewer_form(path) == file);
    if let Some(path) = path {
        let source = files.read(path, NamedBy::DebugInformation)?;
        return Ok(SourceAnswer { file, source });
    }
    if !is_named(&file).map_err(SourceError::Profile)? {
        return Err(SourceError::NotNamed(file));
    }
    check_source_name(&file)?;
    let source = files.read(&file, NamedBy::Profile)?;
    Ok(SourceAnswer { file, source })
}
