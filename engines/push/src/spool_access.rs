//! The directory of a spool: made if it does not exist, and refused if other users can write in it.
//!
//! Called by the pusher. All batches in a spool are sent, so only this user may put files there.
//! The directories above are trusted.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

/// The rights of other users to write in a directory.
const OTHERS_WRITE: u32 = 0o022;

/// Why a directory cannot be a spool.
#[derive(Debug, thiserror::Error)]
enum UnsafeSpool {
    #[error("it belongs to another user (number {0})")]
    OfAnotherUser(u32),
    #[error("other users can write in it (mode {0:o}); `chmod go-w` takes this right away")]
    OthersWrite(u32),
}

/// Makes the directory, for this user only, or checks the one that exists.
pub(super) fn prepare_spool(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(directory)?;
    let metadata = fs::metadata(directory)?;
    let refused = if !is_own(&metadata) {
        UnsafeSpool::OfAnotherUser(metadata.uid())
    } else if metadata.mode() & OTHERS_WRITE != 0 {
        UnsafeSpool::OthersWrite(metadata.mode() & 0o7777)
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, refused))
}

/// Whether a file belongs to the user of this process.
pub(super) fn is_own(metadata: &fs::Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_spool_in_which_other_users_can_write_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let spool = base.path().join("a/spool");
        prepare_spool(&spool).unwrap();
        assert_eq!(fs::metadata(&spool).unwrap().mode() & 0o777, 0o700);
        for (mode, is_refused) in [(0o755, false), (0o775, true), (0o702, true), (0o1777, true)] {
            fs::set_permissions(&spool, PermissionsExt::from_mode(mode)).unwrap();
            let error = prepare_spool(&spool).err().map(|error| error.to_string());
            let reason = UnsafeSpool::OthersWrite(mode).to_string();
            assert_eq!(error, is_refused.then_some(reason));
        }
    }
}
