//! Decides whether a file may describe the generated code of a process.
//!
//! Used by [`super`], before a file is opened. Runtimes write to `/tmp`, where every user may create
//! files, and where files outlive their processes. Invariant: a file is used only if the process's
//! own user wrote it, while the process ran.

use profiler_core::time::UnixNs;

use crate::sys::{FileFacts, UserId};

/// By how much the times of files and of processes may differ: some file systems keep whole seconds.
const TOLERANCE_NS: u64 = 1_000_000_000;

/// What must hold for a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileTerms {
    /// The user of the process.
    pub(super) user: UserId,
    /// When the process started.
    pub(super) started: UnixNs,
    /// When the process ended, if it has.
    pub(super) ended: Option<UnixNs>,
}

/// Why a file is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it does not belong to the user of the process")]
    OtherUser,
    #[error("every user may write to it")]
    Writable,
    #[error("it is older than the process")]
    Older,
    #[error("it was written to after the end of the process")]
    Newer,
}

impl FileTerms {
    /// Checks a file.
    pub(super) fn check(&self, facts: &FileFacts) -> Result<(), Refusal> {
        let changed = facts.changed.0;
        let is_newer = |ended: UnixNs| changed > ended.0.saturating_add(TOLERANCE_NS);
        if !facts.is_regular {
            Err(Refusal::NotAFile)
        } else if facts.owner != self.user {
            Err(Refusal::OtherUser)
        } else if facts.is_writable_by_all {
            Err(Refusal::Writable)
        } else if changed.saturating_add(TOLERANCE_NS) < self.started.0 {
            Err(Refusal::Older)
        } else if self.ended.is_some_and(is_newer) {
            Err(Refusal::Newer)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn terms(ended: Option<u64>) -> FileTerms {
        FileTerms {
            user: UserId::new(1000),
            started: UnixNs(100 * SECOND),
            ended: ended.map(|at| UnixNs(at * SECOND)),
        }
    }

    fn facts(changed: u64) -> FileFacts {
        FileFacts {
            is_regular: true,
            owner: UserId::new(1000),
            is_writable_by_all: false,
            bytes: 1,
            changed: UnixNs(changed * SECOND),
        }
    }

    #[test]
    fn a_file_of_the_user_from_the_life_of_the_process_is_used() {
        for changed in [99, 100, 150, 201] {
            assert_eq!(terms(Some(200)).check(&facts(changed)), Ok(()), "{changed}");
        }
        assert_eq!(terms(None).check(&facts(9999)), Ok(()), "it runs");
    }

    #[test]
    fn all_other_files_are_refused() {
        let check = |facts: FileFacts| terms(Some(200)).check(&facts);
        let file = facts(150);
        let no_file = FileFacts {
            is_regular: false,
            ..file
        };
        assert_eq!(check(no_file), Err(Refusal::NotAFile));
        for other in [0, 1001] {
            let owner = UserId::new(other);
            assert_eq!(check(FileFacts { owner, ..file }), Err(Refusal::OtherUser));
        }
        let writable = FileFacts {
            is_writable_by_all: true,
            ..file
        };
        assert_eq!(check(writable), Err(Refusal::Writable));
        assert_eq!(check(facts(98)), Err(Refusal::Older));
        assert_eq!(check(facts(202)), Err(Refusal::Newer));
    }
}
