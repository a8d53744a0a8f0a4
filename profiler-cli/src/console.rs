//! The lines that the command prints on standard output and standard error.
//!
//! Used by every subcommand. Invariant: a line that cannot be written ends no subcommand; `main`
//! reports the error of standard output at the end.

use std::io::Write as _;
use std::sync::OnceLock;

use profiler_parent::recover::PassedOver;

use crate::plain::plain;

/// An error with its causes. Omits a cause that the error already contains.
pub(crate) fn sentence(error: &anyhow::Error) -> String {
    error
        .chain()
        .skip(1)
        .map(ToString::to_string)
        .fold(error.to_string(), |sentence, cause| {
            if sentence.ends_with(&cause) {
                sentence
            } else {
                format!("{sentence}: {cause}")
            }
        })
}

/// The first error of writing to standard output.
static OUTPUT_ERROR: OnceLock<std::io::Error> = OnceLock::new();

/// Prints a line. If that fails, [`output_error`] returns the first error.
pub(crate) fn say(line: &str) {
    if let Err(error) = writeln!(std::io::stdout(), "{line}") {
        let _ = OUTPUT_ERROR.set(error);
    }
}

/// Prints a line on standard error, if that can be written: a message must not end the command.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The first error of writing to standard output, if there was one. A pipe whose reader has closed
/// it is not an error, because the reader needs no more output.
pub(crate) fn output_error() -> Option<&'static std::io::Error> {
    if let Err(error) = std::io::stdout().flush() {
        let _ = OUTPUT_ERROR.set(error);
    }
    OUTPUT_ERROR
        .get()
        .filter(|error| error.kind() != std::io::ErrorKind::BrokenPipe)
}

/// Reports the files that were passed over on standard error.
pub(crate) fn complain(passed_over: &[PassedOver]) {
    for PassedOver { name, why } in passed_over {
        tell(&format!(
            "profiler: passed over {}: {}",
            plain(name),
            plain(why)
        ));
    }
}
