//! The fields and the types of an event (`TrackEvent`).
//!
//! Used by all parts of [`super`] that write events.

use super::super::proto::Message;
use super::tracks::TrackId;

pub(super) const CATEGORY_IID: u64 = 3;
pub(super) const TYPE: u64 = 9;
pub(super) const NAME_IID: u64 = 10;
pub(super) const TRACK: u64 = 11;
pub(super) const CATEGORY: u64 = 22;
pub(super) const NAME: u64 = 23;
pub(super) const VALUE: u64 = 30;
pub(super) const VALUE_WITH_FRACTION: u64 = 44;
pub(super) const FLOWS: u64 = 47;
pub(super) const ENDING_FLOWS: u64 = 48;
pub(super) const CALLSTACK: u64 = 56;

pub(super) const BEGIN: u64 = 1;
pub(super) const END: u64 = 2;
pub(super) const INSTANT: u64 = 3;
pub(super) const COUNTER: u64 = 4;

/// An event of this type on a track.
pub(super) fn new(kind: u64, track: TrackId) -> Message {
    let mut event = Message::default();
    event.number(TYPE, kind);
    event.number(TRACK, track.0);
    event
}
