//! Definitions of a library that is loaded again and again.

use anyhow::Result;

use crate::figure::Report;

pub(super) fn measure(_report: &mut Report) -> Result<()> {
    Ok(())
}
