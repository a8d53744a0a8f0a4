//! The progress line of long work: what is being done, on standard error.
//!
//! Used by every subcommand that may take long. Invariants: the line exists only while standard
//! error is a terminal, and otherwise nothing is written; it is removed before the command prints
//! its result.

use std::path::Path;
use std::thread::{Builder, scope};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use profiler_files::{WorkEvent, WorkListener};
use profiler_parent::{CaptureEvent, CaptureEvents};

use crate::console::tell;
use crate::plain::plain;

/// A line that disappears when the last of its clones is dropped.
#[derive(Clone, Debug)]
pub(crate) struct ProgressLine(ProgressBar);

impl ProgressLine {
    /// A line without a text, which is not visible yet.
    pub(crate) fn new() -> Self {
        Self::on(ProgressDrawTarget::stderr())
    }

    /// A line that is never visible.
    pub(crate) fn hidden() -> Self {
        Self::on(ProgressDrawTarget::hidden())
    }

    fn on(target: ProgressDrawTarget) -> Self {
        let bar = ProgressBar::with_draw_target(None, target).with_finish(ProgressFinish::AndClear);
        // Cut to the width of the terminal.
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// Whether standard error is a terminal.
    pub(crate) fn is_visible(&self) -> bool {
        !self.0.is_hidden()
    }

    /// Shows another text.
    pub(crate) fn show(&self, text: &str) {
        self.0.set_message(plain(text));
    }

    /// Prints a message of the command on standard error, and not into the line.
    pub(crate) fn say(&self, message: &str) {
        self.0.suspend(|| tell(&format!("profiler: {message}")));
    }

    /// Removes the line.
    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }

    /// Shows the events of work with a file of this name.
    pub(crate) fn listener(&self, file: &Path) -> WorkListener {
        let line = self.clone();
        let name = last_part(&file.to_string_lossy());
        WorkListener::new(move |event| {
            if let Some(text) = work_text(event, &name) {
                line.show(&text);
            }
        })
    }

    /// Shows the events of a capture or a recovery until it ends.
    pub(crate) fn watch(&self, events: CaptureEvents) {
        for event in events {
            if let Some(text) = capture_text(&event) {
                self.show(&text);
            }
        }
    }
}

/// Does some work, and shows its events meanwhile. Removes the line at the end.
pub(crate) fn with_progress<T>(
    line: &ProgressLine,
    events: CaptureEvents,
    work: impl FnOnce() -> T,
) -> T {
    let done = scope(|scope| {
        // If no thread can be started, nothing is shown.
        let _ = Builder::new()
            .name("progress".to_owned())
            .spawn_scoped(scope, || line.watch(events));
        work()
    });
    line.clear();
    done
}

/// The text of an event of work with a file; `None` for an unknown event.
fn work_text(event: WorkEvent<'_>, file: &str) -> Option<String> {
    match event {
        WorkEvent::Reading { bytes, of } => {
            let percent = bytes.saturating_mul(100) / of.max(1);
            Some(format!("reading {file}: {} %", percent.min(100)))
        }
        WorkEvent::Naming {
            library,
            libraries_done,
            libraries,
        } => Some(names_text(library, libraries_done, libraries)),
        WorkEvent::Writing => Some(format!("{file}: writing")),
        _ => None,
    }
}

/// The text of an event of a capture; `None` for an event that does not change what is shown.
fn capture_text(event: &CaptureEvent) -> Option<String> {
    match event {
        CaptureEvent::Asked(children) => Some(format!("waiting for {children} processes")),
        CaptureEvent::Progress {
            pid,
            proportion,
            location,
        } => Some(format!(
            "process {pid}: {location}, {:.0} %",
            proportion * 100.0
        )),
        CaptureEvent::Naming {
            module,
            modules_done,
            modules,
            ..
        } => Some(names_text(module, *modules_done, *modules)),
        CaptureEvent::Writing {
            processes_done,
            processes,
            ..
        } => Some(format!(
            "writing: {} of {processes} processes",
            processes_done + 1
        )),
        _ => None,
    }
}

fn names_text(library: &str, done: usize, of: usize) -> String {
    format!(
        "names: {} of {of} libraries ({})",
        done + 1,
        last_part(library)
    )
}

fn last_part(path: &str) -> String {
    let last = path.rsplit('/').next().unwrap_or(path);
    last.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_is_done_and_how_much_of_it() {
        let naming = WorkEvent::Naming {
            library: "/usr/lib/libc.so.6",
            libraries_done: 2,
            libraries: 41,
        };
        assert_eq!(
            work_text(naming, "a.json").unwrap(),
            "names: 3 of 41 libraries (libc.so.6)"
        );
        let reading = WorkEvent::Reading { bytes: 30, of: 200 };
        assert_eq!(
            work_text(reading, "a.json").unwrap(),
            "reading a.json: 15 %"
        );
        let empty = WorkEvent::Reading { bytes: 0, of: 0 };
        assert_eq!(work_text(empty, "a.json").unwrap(), "reading a.json: 0 %");
        let naming = CaptureEvent::Naming {
            module: "/app".to_owned(),
            addresses: 7,
            modules_done: 0,
            modules: 1,
        };
        assert_eq!(
            capture_text(&naming).unwrap(),
            "names: 1 of 1 libraries (app)"
        );
    }
}
