//! Finds profiles that were partly pushed to an engine during the recording.
//!
//! Used by `profiler push`. The profile of a recording contains what its batches contain, and says
//! in its log which destinations have got them.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use profiler_parent::internal::reading::{ProfileReader, PushedLog, Wanted};
use profiler_parent::push::PushDestination;

use crate::plain::plain;

/// Refuses a file if one of these destinations has batches of it, or if batches wait for one.
pub(super) fn refuse_second_push(files: &[PathBuf], addresses: &[String]) -> Result<()> {
    let mut destinations = Vec::new();
    for address in addresses {
        destinations.push(PushDestination::parse(address)?.address());
    }
    for file in files {
        let logs = logs(file)?;
        // A merged profile has the logs of several recordings.
        let mut known = logs
            .iter()
            .filter(|log| destinations.contains(&log.address));
        if let Some(log) = known.find(|log| has_a_part(log)) {
            bail!(
                "cannot push to {}: the recording of {} was pushed there ({} batches sent, {} \
                 refused in part, {} waiting), so its entries would be there twice; --again pushes \
                 it nevertheless",
                plain(&log.address),
                file.display(),
                log.sent.batches,
                log.rejected.batches,
                log.waiting_batches,
            );
        }
    }
    Ok(())
}

/// Whether a destination has a part of a recording, or will get one from a spool.
const fn has_a_part(log: &PushedLog) -> bool {
    log.sent.batches > 0 || log.rejected.batches > 0 || log.waiting_batches > 0
}

/// What the log of a profile says about pushing.
fn logs(file: &Path) -> Result<Vec<PushedLog>> {
    let wanted = Wanted {
        logs: true,
        ..Wanted::default()
    };
    Ok(ProfileReader::open(file, wanted)?.into_survey().pushed())
}
