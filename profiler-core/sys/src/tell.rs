//! One line on standard error, for users who have asked for it.
//!
//! Used where an environment variable asks why the profiler is off. Invariants: the call neither
//! waits for a reader nor writes to a pipe without one; it takes no lock of the standard library.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Longer lines are cut: a pipe takes this many bytes at once.
const MAX_BYTES: usize = 512;

/// Writes `line` to standard error, with its control characters replaced. Writes nothing if
/// standard error is closed, has no reader, or has no room now.
pub fn tell(line: &str) {
    let stderr = std::io::stderr();
    if has_room(stderr.as_fd()) {
        let _ = rustix::io::write(&stderr, one_line(line).as_bytes());
    }
}

fn has_room(stderr: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::new(&stderr, PollFlags::OUT)];
    let at_once = Timespec::try_from(Duration::ZERO).ok();
    let bad = PollFlags::ERR | PollFlags::NVAL;
    poll(&mut polled, at_once.as_ref()).is_ok()
        && polled.iter().all(|place| {
            let now = place.revents();
            now.contains(PollFlags::OUT) && !now.intersects(bad)
        })
}

/// The text as one line of at most [`MAX_BYTES`].
fn one_line(text: &str) -> String {
    let mut line: String = text
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect();
    let mut end = line.len().min(MAX_BYTES - 1);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    line.truncate(end);
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_one_line_that_a_pipe_takes_at_once() {
        assert_eq!(one_line("a\nb\u{1b}[1m"), "a b [1m\n");
        let long = one_line(&"ä".repeat(MAX_BYTES));
        assert!(long.len() <= MAX_BYTES && long.ends_with("ä\n"));
    }
}
