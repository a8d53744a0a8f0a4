//! Systems and builds without crashes: nothing is installed.

use crate::error::CrashError;

pub(crate) const fn install() -> Result<(), CrashError> {
    Ok(())
}

pub(crate) const fn prepare_thread() -> Result<(), CrashError> {
    Ok(())
}
