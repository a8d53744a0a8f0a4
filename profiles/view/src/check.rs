//! Checks whether a file is a profile that the viewer can open.
//!
//! Called before the server starts, so that the command reports a wrong file instead of the
//! browser. A file of moderate size is read to its end; of a large file only the beginning and the
//! last bytes are read, so that the user does not wait for gigabytes. Invariant: no content of the
//! file is kept.

use std::fs::File;
use std::io::{self, Read};

use serde::Deserialize as _;
use serde::de::{Deserializer, Error as _, IgnoredAny};

use profiler_reader::text::{is_compressed, text};
use profiler_reader::{Meta, ParseError, PartId, Visit, walk};

/// Files of at most this many bytes are read to their end.
const WHOLE: u64 = 16 << 20;
/// Bytes of text read from larger files.
const HEAD: u64 = 1 << 20;

/// The form of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The Gecko form: one object per process.
    Gecko,
    /// The viewer's own form: shared tables.
    Processed,
    /// The distinguishing key is not in the part that was read.
    Unknown,
}

/// The reason why a file is not a profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotAProfile {
    /// The file cannot be read.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    /// It is a directory, a device, or a pipe.
    #[error("it is not a file")]
    NotAFile,
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// It is not JSON, or ends too early.
    #[error("{0}")]
    Damaged(serde_json::Error),
    /// It is JSON without a required key.
    #[error("it has no {0}")]
    Lacks(&'static str),
    /// It is truncated.
    #[error("it ends too early")]
    CutOff,
}

/// Checks a file.
///
/// # Errors
/// [`NotAProfile`].
pub fn check(file: &File) -> Result<Kind, NotAProfile> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(NotAProfile::NotAFile);
    }
    let length = metadata.len();
    if length == 0 {
        return Err(NotAProfile::Empty);
    }
    let is_whole = length <= WHOLE;
    if !is_whole && !is_compressed(file)? && !ends_an_object(file, length)? {
        return Err(NotAProfile::CutOff);
    }
    outline(text(file)?, is_whole)
}

/// Reads the keys of the outermost object.
fn outline(text: impl Read, is_whole: bool) -> Result<Kind, NotAProfile> {
    let mut outline = Outline::default();
    let read = walk(
        text.take(if is_whole { u64::MAX } else { HEAD }),
        &mut outline,
    );
    let Outline {
        is_known,
        has_threads,
        kind,
    } = outline;
    match read {
        Err(ParseError::Cut { .. }) if is_known == Some(true) => {
            if is_whole {
                Err(NotAProfile::CutOff)
            } else {
                Ok(kind.unwrap_or(Kind::Unknown))
            }
        }
        Err(error) => Err(NotAProfile::Damaged(serde_json::Error::custom(error))),
        Ok(()) if !has_threads && kind.is_some() => Err(NotAProfile::Lacks("threads")),
        Ok(()) => kind.ok_or(NotAProfile::Lacks("meta")),
    }
}

/// Whether the last byte other than white space closes an object.
fn ends_an_object(file: &File, length: u64) -> io::Result<bool> {
    let mut tail = [0; 64];
    let position = length.saturating_sub(tail.len() as u64);
    let read = profiler_sys::read_at(file, &mut tail, position)?;
    Ok(tail
        .get(..read)
        .unwrap_or_default()
        .trim_ascii_end()
        .ends_with(b"}"))
}

/// The first keys that a profile may have.
const KEYS: [&str; 12] = [
    "meta",
    "libs",
    "threads",
    "processes",
    "shared",
    "counters",
    "pages",
    "profilerOverhead",
    "pausedRanges",
    "sources",
    "profilingLog",
    "profileGatheringLog",
];

/// The keys of the outermost object so far.
#[derive(Debug, Default)]
struct Outline {
    /// Whether the first key belongs to a profile; `None` before it was read.
    is_known: Option<bool>,
    has_threads: bool,
    kind: Option<Kind>,
}

impl Visit for Outline {
    fn key(&mut self, part: PartId, key: &str) {
        self.is_known.get_or_insert_with(|| KEYS.contains(&key));
        self.has_threads |= part == PartId::default() && key == "threads";
    }

    fn value<'de, D: Deserializer<'de>>(
        &mut self,
        at: PartId,
        key: &str,
        from: D,
    ) -> Result<(), D::Error> {
        if key != "meta" || at != PartId::default() {
            return IgnoredAny::deserialize(from).map(drop);
        }
        let is_processed = Meta::deserialize(from)?.is_processed();
        self.kind = Some(if is_processed {
            Kind::Processed
        } else {
            Kind::Gecko
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Result<Kind, String> {
        outline(text.as_bytes(), true).map_err(|error| error.to_string())
    }

    #[test]
    fn both_forms_are_profiles_for_any_position_of_meta() {
        assert_eq!(
            whole(r#"{"processes":[],"threads":[{}],"meta":{"version":31}}"#),
            Ok(Kind::Gecko)
        );
        let processed = r#"{"meta":{"preprocessedProfileVersion":60,"x":[1]},"threads":[]}"#;
        assert_eq!(whole(processed), Ok(Kind::Processed));
    }

    #[test]
    fn other_json_and_invalid_json_are_not_profiles() {
        assert_eq!(whole(r#"{"meta":{}}"#), Err("it has no threads".to_owned()));
        assert_eq!(whole(r#"{"threads":[]}"#), Err("it has no meta".to_owned()));
        assert!(whole(r#"{"meta":{},"threads":[{]"#).is_err());
        assert_eq!(
            whole(r#"{"meta":{},"threads":["#),
            Err("it ends too early".to_owned())
        );
        for wrong in [
            "",
            "[]",
            "7",
            "hello",
            "{} {}",
            r#"{"meta":3,"threads":[]}"#,
            r#"{"meta":{},"threads":{}}"#,
        ] {
            assert!(whole(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_the_beginning_of_a_large_file_is_checked() {
        let long = format!(r#"{{"meta":{{}},"threads":["{}"#, "x".repeat(2 << 20));
        assert!(matches!(outline(long.as_bytes(), false), Ok(Kind::Gecko)));
        let other = format!(r#"{{"traceEvents":["{}"#, "x".repeat(2 << 20));
        assert!(outline(other.as_bytes(), false).is_err());
        let broken = format!(r#"{{"meta":{{}},"threads":[}}{}"#, "x".repeat(2 << 20));
        assert!(outline(broken.as_bytes(), false).is_err());
    }
}
