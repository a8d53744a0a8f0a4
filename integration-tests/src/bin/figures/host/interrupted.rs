//! Blocking calls that end with `EINTR`.

use anyhow::Result;

use crate::figure::Report;

pub(super) fn measure(_report: &mut Report) -> Result<()> {
    Ok(())
}
