//! Decides whether a file may describe the generated code of a process.
//!
//! Used by the look-up, before a file is opened. Runtimes write to `/tmp`, where every user may
//! create files, and where files outlive their processes. Invariant: a file is used only if the
//! process's own user wrote it, while the process ran. A file that existed before the process may
//! contain entries of an earlier process with the same number.

use profiler_core::ids::UserId;
use profiler_core::time::UnixNs;

use crate::sys::{FileFacts, FileWriters};

/// By how much the times of files and of processes may differ: some file systems keep whole
/// seconds.
const TOLERANCE_NS: u64 = 1_000_000_000;

/// What must hold for a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileTerms {
    /// The user of the process.
    pub(crate) user: UserId,
    /// When the process started.
    pub(crate) started: UnixNs,
    /// When the process ended, if it has.
    pub(crate) ended: Option<UnixNs>,
}

/// Why a file is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it does not belong to the user of the process")]
    OtherUser,
    #[error("every user may write to it")]
    Writable,
    #[error("a group of users may write to it")]
    GroupWritable,
    #[error("it has more than one name")]
    Linked,
    #[error("it is older than the process")]
    Older,
    #[error("it was written to after the end of the process")]
    Newer,
}

impl FileTerms {
    /// Checks a file.
    pub(crate) fn check(&self, facts: &FileFacts) -> Result<(), Refusal> {
        let is_older = |time: UnixNs| time.0.saturating_add(TOLERANCE_NS) < self.started.0;
        let is_newer = |ended: UnixNs| facts.changed.0 > ended.0.saturating_add(TOLERANCE_NS);
        if !facts.is_regular {
            Err(Refusal::NotAFile)
        } else if facts.owner != self.user {
            Err(Refusal::OtherUser)
        } else if facts.writers == FileWriters::All {
            Err(Refusal::Writable)
        } else if facts.writers == FileWriters::Group {
            Err(Refusal::GroupWritable)
        } else if facts.links > 1 {
            Err(Refusal::Linked)
        } else if is_older(facts.changed) || facts.born.is_some_and(is_older) {
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
            writers: FileWriters::Owner,
            links: 1,
            bytes: 1,
            changed: UnixNs(changed * SECOND),
            born: None,
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
        for (writers, refusal) in [
            (FileWriters::All, Refusal::Writable),
            (FileWriters::Group, Refusal::GroupWritable),
        ] {
            assert_eq!(check(FileFacts { writers, ..file }), Err(refusal));
        }
        assert_eq!(check(FileFacts { links: 2, ..file }), Err(Refusal::Linked));
        assert_eq!(check(facts(98)), Err(Refusal::Older));
        assert_eq!(check(facts(202)), Err(Refusal::Newer));
    }

    #[test]
    fn a_file_that_was_created_before_the_process_is_refused_although_it_was_written_to() {
        let born = |at: u64| FileFacts {
            born: Some(UnixNs(at * SECOND)),
            ..facts(150)
        };
        assert_eq!(terms(Some(200)).check(&born(98)), Err(Refusal::Older));
        assert_eq!(terms(Some(200)).check(&born(99)), Ok(()));
        assert_eq!(terms(None).check(&born(120)), Ok(()));
    }
}
