//! Converts messages to frames and back.
//!
//! Called by [`crate::transport::Sender`] and [`crate::transport::Receiver`].
//!
//! ```text
//! frame:  0        2                          ≤ MAX_FRAME_BYTES
//!         | version | message, profiler_core::internal::codec ... |
//!           u16 LE
//! ```
//!
//! Invariants: the version is checked before anything else, so incompatible builds report their
//! versions; a decoded message is within [`crate::limits`]; no input makes this panic or allocate
//! more than a small multiple of the frame.

use profiler_core::internal::codec::CodecError;
use profiler_core::internal::waits::{AskedWait, MAX_ASKED_MEMORY, MAX_ASKED_WAITS, NamedWait};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::limits;
use crate::message::{
    GatherOutcome, JoinAnswer, JoinRefusal, Opening, PROTOCOL_VERSION, ToChild, ToParent,
};

const VERSION_BYTES: usize = 2;

/// The reason why bytes are not a message, or why a message cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The other side speaks another version.
    #[error("the other side speaks version {theirs} of the protocol, this side version {ours}")]
    WrongVersion {
        /// The other side's version.
        theirs: u32,
        /// [`PROTOCOL_VERSION`].
        ours: u32,
    },
    /// The frame is too short for a version number.
    #[error("a frame of {0} bytes is too short for a message")]
    TooShort(usize),
    /// The frame is larger than allowed.
    #[error(
        "a frame of {length} bytes is larger than the {} allowed",
        limits::MAX_FRAME_BYTES
    )]
    TooLarge {
        /// The frame's length.
        length: usize,
    },
    /// A text or list in the message is longer than allowed.
    #[error("{what} is longer than the {limit} allowed")]
    TooLong {
        /// The text or list.
        what: &'static str,
        /// The limit that was exceeded.
        limit: usize,
    },
    /// The message could not be encoded or decoded.
    #[error("message: {0}")]
    Codec(#[from] CodecError),
}

/// A message that can be sent: [`ToChild`] or [`ToParent`], and before these [`Opening`] or
/// [`JoinAnswer`].
pub trait Message: Serialize + DeserializeOwned + Send + sealed::Sealed {
    /// Whether every text and list is within [`crate::limits`].
    ///
    /// # Errors
    /// [`ProtocolError::TooLong`].
    fn check(&self) -> Result<(), ProtocolError>;
}

mod sealed {
    /// Restricts [`super::Message`] to the messages of the protocol.
    pub trait Sealed {}
    impl Sealed for super::ToChild {}
    impl Sealed for super::ToParent {}
    impl Sealed for super::Opening {}
    impl Sealed for super::JoinAnswer {}
}

impl Message for ToChild {
    fn check(&self) -> Result<(), ProtocolError> {
        match self {
            Self::Start { params, .. } | Self::EnsureStarted { params, .. } => {
                check_filters(&params.filters)
            }
            Self::GatherProfile { spec, .. } => check_categories(&spec.categories),
            Self::NamedWaits { waits } => check_named(waits),
            _ => Ok(()),
        }
    }
}

impl Message for ToParent {
    fn check(&self) -> Result<(), ProtocolError> {
        match self {
            Self::Hello(hello) => at_most("process name", hello.name.len(), limits::MAX_NAME_BYTES),
            Self::GatherProgress { location, .. } => at_most(
                "progress location",
                location.len(),
                limits::MAX_LOCATION_BYTES,
            ),
            Self::Profile {
                outcome: GatherOutcome::Failed(why),
                ..
            } => at_most("failure text", why.len(), limits::MAX_FAILURE_BYTES),
            Self::ChunkManagerUpdate(update) => check_update(update),
            Self::AskedWaits { waits } => check_asked(waits),
            Self::Done { .. } | Self::Profile { .. } | Self::ShutdownProfile { .. } => Ok(()),
        }
    }
}

impl Message for Opening {
    fn check(&self) -> Result<(), ProtocolError> {
        let name = match self {
            Self::Join(request) => &request.name,
            Self::RecordedElsewhere(process) => &process.name,
        };
        at_most("process name", name.len(), limits::MAX_NAME_BYTES)
    }
}

impl Message for JoinAnswer {
    fn check(&self) -> Result<(), ProtocolError> {
        match self {
            Self::Refused(
                JoinRefusal::Misbehaved(why)
                | JoinRefusal::NoMemory(why)
                | JoinRefusal::System(why),
            ) => at_most("refusal", why.len(), limits::MAX_REFUSAL_BYTES),
            Self::Refused(_) | Self::Welcome { .. } => Ok(()),
        }
    }
}

fn check_update(
    update: &profiler_core::internal::manager::update::ManagerUpdate,
) -> Result<(), ProtocolError> {
    use profiler_core::internal::manager::update::{ManagerUpdate, Update};
    match update {
        ManagerUpdate::Changed(update) => at_most(
            "list of released chunks",
            update.newly_released.len(),
            Update::MAX_LISTED,
        ),
        ManagerUpdate::None | ManagerUpdate::Final => Ok(()),
    }
}

fn check_asked(waits: &[AskedWait]) -> Result<(), ProtocolError> {
    at_most("list of waits", waits.len(), MAX_ASKED_WAITS)?;
    let mut memory = waits.iter().map(|wait| wait.memory.len());
    memory.try_for_each(|bytes| at_most("memory of a wait", bytes, MAX_ASKED_MEMORY))
}

fn check_named(waits: &[NamedWait]) -> Result<(), ProtocolError> {
    at_most("list of waits", waits.len(), MAX_ASKED_WAITS)?;
    let mut names = waits.iter().filter_map(|wait| wait.name.as_ref());
    names.try_for_each(|name| at_most("name of a wait", name.len(), limits::MAX_WAIT_NAME_BYTES))
}

fn check_filters(filters: &[String]) -> Result<(), ProtocolError> {
    use profiler_core::session::SessionParams;
    at_most("list of filters", filters.len(), SessionParams::MAX_FILTERS)?;
    filters
        .iter()
        .try_for_each(|filter| at_most("filter", filter.len(), SessionParams::MAX_FILTER_BYTES))
}

fn check_categories(
    rows: &[profiler_core::internal::profile_spec::CategoryRow],
) -> Result<(), ProtocolError> {
    at_most("list of categories", rows.len(), limits::MAX_CATEGORIES)?;
    for row in rows {
        at_most("category name", row.name.len(), limits::MAX_LABEL_BYTES)?;
        at_most("category colour", row.color.len(), limits::MAX_LABEL_BYTES)?;
        at_most(
            "list of subcategories",
            row.subcategories.len(),
            limits::MAX_SUBCATEGORIES,
        )?;
        for name in &row.subcategories {
            at_most("subcategory name", name.len(), limits::MAX_LABEL_BYTES)?;
        }
    }
    Ok(())
}

fn at_most(what: &'static str, length: usize, limit: usize) -> Result<(), ProtocolError> {
    if length > limit {
        Err(ProtocolError::TooLong { what, limit })
    } else {
        Ok(())
    }
}

/// Encodes a message as a frame.
///
/// # Errors
/// [`ProtocolError::TooLong`], [`ProtocolError::TooLarge`], [`ProtocolError::Codec`].
pub fn encode<M: Message>(message: &M) -> Result<Vec<u8>, ProtocolError> {
    message.check()?;
    let body = profiler_core::internal::codec::encode(message)?;
    let mut frame = Vec::with_capacity(body.len() + VERSION_BYTES);
    frame.extend_from_slice(&wire_version().to_le_bytes());
    frame.extend_from_slice(&body);
    check_frame(&frame)?;
    Ok(frame)
}

/// Decodes the message of a frame.
///
/// # Errors
/// All of [`ProtocolError`]; for a frame of another version [`ProtocolError::WrongVersion`] takes
/// precedence over all other errors.
pub fn decode<M: Message>(frame: &[u8]) -> Result<M, ProtocolError> {
    let Some((version, body)) = frame.split_first_chunk::<VERSION_BYTES>() else {
        return Err(ProtocolError::TooShort(frame.len()));
    };
    let theirs = u16::from_le_bytes(*version);
    if theirs != wire_version() {
        return Err(ProtocolError::WrongVersion {
            theirs: theirs.into(),
            ours: PROTOCOL_VERSION,
        });
    }
    check_frame(frame)?;
    let message: M = profiler_core::internal::codec::decode(body)?;
    message.check()?;
    Ok(message)
}

/// Refuses a frame that is too large.
///
/// # Errors
/// [`ProtocolError::TooLarge`].
pub fn check_frame(frame: &[u8]) -> Result<(), ProtocolError> {
    match frame.len() {
        length if length > limits::MAX_FRAME_BYTES => Err(ProtocolError::TooLarge { length }),
        _ => Ok(()),
    }
}

/// [`PROTOCOL_VERSION`] as encoded in a frame.
const fn wire_version() -> u16 {
    #[allow(clippy::as_conversions)] // checked by the assertion below
    const VERSION: u16 = {
        assert!(
            PROTOCOL_VERSION <= 0xffff,
            "the version has 16 bits on the wire"
        );
        PROTOCOL_VERSION as u16
    };
    VERSION
}

#[cfg(test)]
mod seeds;
#[cfg(test)]
mod tests;
