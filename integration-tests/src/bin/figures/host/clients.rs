//! Requests of the live page that fail beside slow clients.

use anyhow::Result;

use crate::figure::Report;

pub(super) fn measure(_report: &mut Report) -> Result<()> {
    Ok(())
}
