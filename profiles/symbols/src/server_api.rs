//! Answers the viewer's requests for names: `/symbolicate/v5` of a symbol server.
//!
//! Used by `profiler view` for profiles whose addresses have no names yet. The viewer identifies a
//! library by its debug name and breakpad id, as in the profile's `libs`, and sends addresses
//! relative to it. Invariants: accepts any text; only libraries named in the profile are read, for
//! any content of the request; the answer has one frame for every frame of the request; it has at
//! most [`LONGEST_ANSWER`] bytes, and is written from the results without a second form in memory;
//! the symbols, which the caller may have locked, are used neither while the request is parsed nor
//! while the answer is written.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use super::bounded::{LONGEST_ANSWER, LONGEST_NAME, to_json};
use super::{ModuleKey, Place, SourceFrame, Wanted};
use crate::source_path::viewer_form;

/// Limit on the addresses in one request.
const MAX_ADDRESSES: usize = 4 << 20;

/// A library in a profile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Library {
    /// `debugName`.
    pub debug_name: String,
    /// `breakpadId`.
    pub breakpad_id: String,
    /// `path`.
    pub path: String,
    /// `codeId`, the build id in hexadecimal, decoded; empty if the library has none.
    pub build_id: Vec<u8>,
}

impl Library {
    /// Creates a library from a row of a profile's `libs`; `code_id` is empty if the row has none.
    pub fn new(debug_name: &str, breakpad_id: &str, path: &str, code_id: &str) -> Self {
        Self {
            debug_name: debug_name.to_owned(),
            breakpad_id: breakpad_id.to_owned(),
            path: path.to_owned(),
            build_id: from_hex(code_id).unwrap_or_default(),
        }
    }
}

/// Decodes hexadecimal; `None` if the text is invalid.
fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs
        .iter()
        .map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?))
        .collect();
    if rest.is_empty() { bytes } else { None }
}

/// The reason why a request has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The text is not a valid request.
    #[error("not a request for names: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A frame refers to a library that the job does not list.
    #[error("a frame refers to library {0}, which is not in its job's memory map")]
    NoSuchLibrary(i64),
    /// The request has too many addresses.
    #[error("more than {MAX_ADDRESSES} addresses")]
    TooMuch,
    /// A library name is too long: every frame of the answer would repeat it.
    #[error("the name of a library has {0} bytes, more than {LONGEST_NAME}")]
    LongName(usize),
    /// The answer would be too long.
    #[error("the answer would have more than {LONGEST_ANSWER} bytes")]
    LongAnswer,
}

/// The request: several jobs, or a single one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Request {
    Several { jobs: Vec<Job> },
    One(Job),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Job {
    /// Debug name and breakpad id.
    memory_map: Vec<(String, String)>,
    /// Index of the library in the map, and address. Index -1: an address in no library.
    stacks: Vec<Vec<(i64, u64)>>,
}

#[derive(Serialize)]
struct Answer<'r> {
    results: Vec<JobAnswer<'r>>,
}

#[derive(Serialize)]
struct JobAnswer<'r> {
    stacks: Stacks<'r>,
    /// By `debugName/breakpadId`; true if any name was found in the library.
    found_modules: HashMap<String, bool>,
}

/// All stacks of a job, computed during serialization.
struct Stacks<'r>(&'r Job, &'r KnownPlaces<'r>);

/// One stack.
struct Stack<'r>(&'r Stacks<'r>, &'r [(i64, u64)]);

impl Serialize for Stacks<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.stacks.iter().map(|frames| Stack(self, frames)))
    }
}

impl Serialize for Stack<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self(Stacks(job, known), frames) = self;
        to.collect_seq(frames.iter().enumerate().map(|(at, (library, address))| {
            let key = library_of(job, *library);
            let place = key.and_then(|key| known.get(&key)?.get(address));
            answer_frame(
                at,
                key.map_or("", |(name, _)| name),
                *address,
                place.map(|place| &**place),
            )
        }))
    }
}

#[derive(Serialize)]
struct FrameAnswer<'r> {
    frame: usize,
    module: &'r str,
    module_offset: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_offset: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_size: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<Cow<'r, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    inlines: Vec<InlineAnswer<'r>>,
}

#[derive(Serialize)]
struct InlineAnswer<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<Cow<'r, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

/// The results by debug name, breakpad id and address.
type KnownPlaces<'r> = HashMap<(&'r str, &'r str), HashMap<u64, Arc<Place>>>;

/// Answers a request with JSON. `resolve` looks up addresses, as
/// [`Symbols::resolve_all`](super::Symbols::resolve_all) does. It is called once.
///
/// # Errors
/// [`RequestError`]: the request is invalid; an HTTP server answers with status 400.
pub fn answer(
    request: &str,
    libraries: &[Library],
    resolve: impl FnOnce(&[Wanted<'_>]) -> Vec<Vec<Arc<Place>>>,
) -> Result<String, RequestError> {
    let jobs = match serde_json::from_str(request)? {
        Request::Several { jobs } => jobs,
        Request::One(job) => vec![job],
    };
    let texts = jobs
        .iter()
        .flat_map(|job| &job.memory_map)
        .flat_map(|(name, id)| [name, id]);
    if let Some(long) = texts.map(String::len).find(|len| *len > LONGEST_NAME) {
        return Err(RequestError::LongName(long));
    }
    let known = look_up(&jobs, libraries, resolve)?;
    let results = jobs.iter().map(|job| answer_job(job, &known)).collect();
    to_json(&Answer { results }, LONGEST_ANSWER).ok_or(RequestError::LongAnswer)
}

/// Looks up the addresses of all jobs, one library at a time.
fn look_up<'r>(
    jobs: &'r [Job],
    libraries: &[Library],
    resolve: impl FnOnce(&[Wanted<'_>]) -> Vec<Vec<Arc<Place>>>,
) -> Result<KnownPlaces<'r>, RequestError> {
    let mut asked: HashMap<(&str, &str), Vec<u64>> = HashMap::new();
    let mut count = 0_usize;
    for job in jobs {
        for (name, id) in &job.memory_map {
            asked.entry((name, id)).or_default();
        }
        for (library, address) in job
            .stacks
            .iter()
            .flatten()
            .filter(|(library, _)| *library != -1)
        {
            count += 1;
            let (name, id) =
                library_of(job, *library).ok_or(RequestError::NoSuchLibrary(*library))?;
            asked.entry((name, id)).or_default().push(*address);
        }
    }
    if count > MAX_ADDRESSES {
        return Err(RequestError::TooMuch);
    }
    let library = |(name, id): (&str, &str)| {
        libraries
            .iter()
            .find(|library| library.debug_name == name && library.breakpad_id == id)
    };
    let (keys, wanted): (Vec<_>, Vec<_>) = asked
        .into_iter()
        .filter_map(|(key, addresses)| {
            let Library { path, build_id, .. } = library(key)?;
            Some((
                key,
                Wanted {
                    module: ModuleKey { path, build_id },
                    addresses,
                },
            ))
        })
        .unzip();
    let places = resolve(&wanted);
    let of = |(wanted, places): (Wanted<'_>, Vec<Arc<Place>>)| {
        wanted.addresses.into_iter().zip(places).collect()
    };
    Ok(keys
        .into_iter()
        .zip(wanted.into_iter().zip(places).map(of))
        .collect())
}

fn library_of(job: &Job, library: i64) -> Option<(&str, &str)> {
    let (name, id) = job.memory_map.get(usize::try_from(library).ok()?)?;
    Some((name, id))
}

fn answer_job<'r>(job: &'r Job, known: &'r KnownPlaces<'r>) -> JobAnswer<'r> {
    let found = job.memory_map.iter().map(|(name, id)| {
        let places = known.get(&(name.as_str(), id.as_str()));
        let any =
            places.is_some_and(|places| places.values().any(|place| !place.frames.is_empty()));
        (format!("{name}/{id}"), any)
    });
    JobAnswer {
        found_modules: found.collect(),
        stacks: Stacks(job, known),
    }
}

fn answer_frame<'r>(
    at: usize,
    module: &'r str,
    address: u64,
    place: Option<&'r Place>,
) -> FrameAnswer<'r> {
    let frames = place.and_then(|place| place.frames.split_last());
    let outer = frames.map(|(outer, _)| outer);
    let code = place.and_then(|place| place.function);
    let function = outer.and_then(|outer| outer.function.as_deref());
    let inline = |frame: &'r SourceFrame| InlineAnswer {
        function: frame.function.as_deref(),
        file: frame.file.as_deref().map(viewer_form),
        line: Some(frame.line).filter(|line| *line > 0),
    };
    FrameAnswer {
        frame: at,
        module,
        module_offset: format!("{address:#x}"),
        function,
        // The viewer ignores a name without this field.
        function_offset: function.map(|_| {
            format!(
                "{:#x}",
                code.map_or(0, |code| address.saturating_sub(code.start))
            )
        }),
        function_size: code
            .filter(|code| code.size > 0)
            .map(|code| format!("{:#x}", code.size)),
        file: outer.and_then(|outer| outer.file.as_deref().map(viewer_form)),
        line: outer.map(|outer| outer.line).filter(|line| *line > 0),
        inlines: frames
            .map(|(_, inlined)| inlined.iter().map(inline).collect())
            .unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_id_is_decoded_and_an_invalid_one_gives_no_build_id() {
        let of = |code_id| Library::new("name", "id", "/path", code_id).build_id;
        assert_eq!(of("00ffA1"), [0, 0xff, 0xa1]);
        assert!(of("").is_empty());
        assert!(of("abc").is_empty());
        assert!(of("xy").is_empty());
    }
}
