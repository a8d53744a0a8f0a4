//! Whether a file is a profile that the viewer can open.
//!
//! Called before anything is served, so that a wrong file is said here and not in a browser. A file of moderate
//! size is looked through to its end, of a large one the beginning and the last byte: nobody wants to wait for
//! gigabytes. Nothing is kept of either.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::reading::text::{is_compressed, text};
use crate::sys;

/// Files up to so many bytes are looked through whole.
const WHOLE: u64 = 16 << 20;
/// Bytes of text that are looked at of others.
const HEAD: u64 = 1 << 20;

/// The form of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// As Gecko writes it: one object per process.
    Gecko,
    /// As the viewer keeps it: shared tables.
    Processed,
    /// What tells them apart stands further behind than was looked.
    Unknown,
}

/// Why a file is no profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotAProfile {
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    /// A directory, a device, a pipe.
    #[error("it is not a file")]
    NotAFile,
    /// It has no text.
    #[error("it is empty")]
    Empty,
    /// It is no JSON, or not to its end.
    #[error("{0}")]
    Damaged(serde_json::Error),
    /// It is JSON, and something else.
    #[error("it has no {0}")]
    Lacks(&'static str),
    /// It is cut off.
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

/// Looks at the keys of the outermost object.
fn outline(text: impl Read, is_whole: bool) -> Result<Kind, NotAProfile> {
    let mut outline = Outline::default();
    let read = match is_whole {
        true => outline.read(text),
        false => outline.read(text.take(HEAD)),
    };
    match read {
        Err(error) if !is_whole && error.is_eof() && outline.is_known => Ok(outline.kind()),
        Err(error) if error.is_eof() && outline.is_known => Err(NotAProfile::CutOff),
        Err(error) => Err(NotAProfile::Damaged(error)),
        Ok(()) if !outline.has_meta => Err(NotAProfile::Lacks("meta")),
        Ok(()) if !outline.has_threads => Err(NotAProfile::Lacks("threads")),
        Ok(()) => Ok(outline.kind()),
    }
}

/// Whether the last byte that is not white space closes an object.
fn ends_an_object(file: &File, length: u64) -> io::Result<bool> {
    let mut tail = [0; 64];
    let position = length.saturating_sub(tail.len() as u64);
    let read = sys::read_at(file, &mut tail, position)?;
    Ok(tail.get(..read).unwrap_or_default().trim_ascii_end().ends_with(b"}"))
}

/// What was seen so far.
#[derive(Debug, Default)]
struct Outline {
    /// The first key is one of a profile's.
    is_known: bool,
    has_meta: bool,
    has_threads: bool,
    is_processed: Option<bool>,
}

/// Of `meta`, what tells the forms apart.
#[derive(Debug, Deserialize)]
struct Meta {
    #[serde(rename = "preprocessedProfileVersion")]
    processed: Option<IgnoredAny>,
}

impl Outline {
    fn read(&mut self, text: impl Read) -> serde_json::Result<()> {
        let mut json = serde_json::Deserializer::from_reader(text);
        DeserializeSeed::deserialize(&mut *self, &mut json)?;
        json.end()
    }

    fn kind(&self) -> Kind {
        match self.is_processed {
            Some(true) => Kind::Processed,
            Some(false) => Kind::Gecko,
            None => Kind::Unknown,
        }
    }
}

impl<'de> DeserializeSeed<'de> for &mut Outline {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Outline {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a profile")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
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
        let mut is_first = true;
        while let Some(key) = map.next_key::<String>()? {
            if std::mem::take(&mut is_first) {
                self.is_known = KEYS.contains(&key.as_str());
            }
            match key.as_str() {
                "meta" => {
                    self.is_processed = Some(map.next_value::<Meta>()?.processed.is_some());
                    self.has_meta = true;
                }
                "threads" => {
                    map.next_value::<Vec<IgnoredAny>>()?;
                    self.has_threads = true;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
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
    fn both_forms_are_profiles_wherever_meta_stands() {
        assert_eq!(whole(r#"{"processes":[],"threads":[{}],"meta":{"version":31}}"#), Ok(Kind::Gecko));
        let processed = r#"{"meta":{"preprocessedProfileVersion":60,"x":[1]},"threads":[]}"#;
        assert_eq!(whole(processed), Ok(Kind::Processed));
    }

    #[test]
    fn what_else_is_json_or_not_is_no_profile() {
        assert_eq!(whole(r#"{"meta":{}}"#), Err("it has no threads".to_owned()));
        assert_eq!(whole(r#"{"threads":[]}"#), Err("it has no meta".to_owned()));
        assert!(whole(r#"{"meta":{},"threads":[{]"#).is_err());
        assert_eq!(whole(r#"{"meta":{},"threads":["#), Err("it ends too early".to_owned()));
        for wrong in
            ["", "[]", "7", "hello", "{} {}", r#"{"meta":3,"threads":[]}"#, r#"{"meta":{},"threads":{}}"#]
        {
            assert!(whole(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn of_a_large_one_the_beginning_decides() {
        let long = format!(r#"{{"meta":{{}},"threads":["{}"#, "x".repeat(2 << 20));
        assert!(matches!(outline(long.as_bytes(), false), Ok(Kind::Gecko)));
        let other = format!(r#"{{"traceEvents":["{}"#, "x".repeat(2 << 20));
        assert!(outline(other.as_bytes(), false).is_err());
        let broken = format!(r#"{{"meta":{{}},"threads":[}}{}"#, "x".repeat(2 << 20));
        assert!(outline(broken.as_bytes(), false).is_err());
    }
}
