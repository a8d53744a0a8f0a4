//! Why a process does not record, in words of the profile.
//!
//! Found by `proc` and from the file of a program; `sightings` decides by it what is reported.

use std::fmt;

/// Why a process does not record, if it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// It has no loader.
    Static,
    /// It is made for another processor.
    Foreign,
    /// It is set-user-ID or similar.
    OtherRights,
    /// It belongs to another user and executes a program of its own: it cannot use the session's
    /// directory.
    OtherUser,
    /// It does not know the address of the session.
    ClearedEnvironment,
    /// It is not told to load the library.
    ChangedPreload,
    /// It is a copy of its parent process.
    Forked,
    /// Nothing is known.
    Silent,
}

impl Reason {
    /// Whether the reason makes it certain that the program makes no file.
    pub(super) const fn is_certain(self) -> bool {
        matches!(
            self,
            Self::Static
                | Self::Foreign
                | Self::OtherRights
                | Self::OtherUser
                | Self::ClearedEnvironment
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Static => "it is statically linked",
            Self::Foreign => "it is made for another processor",
            Self::OtherRights => "it has other rights than the profiler",
            Self::OtherUser => "it belongs to another user than the profiler",
            Self::ClearedEnvironment => "its environment was cleared",
            Self::ChangedPreload => "LD_PRELOAD was removed from its environment",
            Self::Forked => "it was forked, and could make no file for its samples",
            Self::Silent => "it has made no file for its samples",
        })
    }
}
