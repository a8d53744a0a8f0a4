//! Finds profiles that were partly pushed to an engine during the recording.
//!
//! Used by `profiler push`. The profile of a recording contains what its batches contain, and says
//! in its log which destinations have got them.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use profiler_push::PushDestination;
use profiler_reader::{ProfileReader, PushedLog, Wanted};

use crate::plain::plain;

/// Refuses a file if one of these destinations has batches of it, or if batches wait for one.
pub(super) fn refuse_second_push(files: &[PathBuf], addresses: &[String]) -> Result<()> {
    let mut destinations = Vec::new();
    for address in addresses {
        destinations.push(PushDestination::parse(address)?.address());
    }
    for file in files {
        if let Some(log) = known_part(&logs(file)?, &destinations) {
            bail!(
                "cannot push to {}: the recording of {} was pushed there ({} batches sent, {} \
                 refused whole or in part, {} waiting), so its entries may be there twice; --again \
                 pushes it nevertheless",
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

/// The log of a destination that has a part of a recording, or will get one from a spool. A merged
/// profile has the logs of several recordings.
fn known_part<'l>(logs: &'l [PushedLog], destinations: &[String]) -> Option<&'l PushedLog> {
    let mut known = logs.iter().filter(|log| {
        let parsed = PushDestination::parse(&log.address);
        let address = parsed.map_or_else(|_| log.address.clone(), |parsed| parsed.address());
        destinations.contains(&address)
    });
    known.find(|log| log.sent.batches > 0 || log.rejected.batches > 0 || log.waiting_batches > 0)
}

/// What the log of a profile says about pushing.
fn logs(file: &Path) -> Result<Vec<PushedLog>> {
    let wanted = Wanted {
        logs: true,
        ..Wanted::default()
    };
    Ok(ProfileReader::open(file, wanted)?.into_survey().pushed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_log_of_each_form_of_an_address_is_looked_at() {
        let log = |address: &str, waiting_batches| PushedLog {
            address: address.to_owned(),
            waiting_batches,
            ..PushedLog::default()
        };
        let logs = [
            log("otlp+http://a", 1),
            log("clickhouse+http://db:8123", 0),
            log("clickhouse+http://DB:8123/profiler/", 2),
        ];
        let known = |address: &str| known_part(&logs, &[address.to_owned()]);
        let found = known("clickhouse+http://db:8123/profiler");
        assert_eq!(found.map(|log| log.waiting_batches), Some(2));
        assert!(known("clickhouse+http://db:8123/other").is_none());
        assert!(known("otlp+http://b").is_none());
    }
}
