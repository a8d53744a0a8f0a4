//! Locks of the host that spawning drops, and how long a spawn takes.

use anyhow::Result;

use crate::figure::Report;

pub(super) fn measure(_report: &mut Report) -> Result<()> {
    Ok(())
}
