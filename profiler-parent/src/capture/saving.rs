//! A capture that is awaited: saved by a thread of the profiler, without a runtime.
//!
//! Returned by [`super::Capture::save_async`]. The first poll starts the thread ([`Awaited`]).
//! Invariant: a capture whose future was dropped leaves no file, unless the file was complete
//! already.

use std::future::Future;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::{fmt, mem};

use profiler_gecko::CancelFlag;

use super::{Capture, CaptureError, CaptureReport, is_capturing};
use crate::awaited::Awaited;

type Saved = Result<CaptureReport, CaptureError>;

/// A capture that is being saved. See [`Capture::save_async`].
#[must_use = "futures do nothing unless polled"]
pub struct SavingCapture(Progress);

enum Progress {
    NotBegun(Box<Capture>, PathBuf),
    /// The capture was made by the symbols of another one, which would wait for it.
    Refused,
    Saving(Awaited<Saved>, CancelFlag),
    Over,
}

impl SavingCapture {
    pub(super) fn new(capture: Capture, path: PathBuf) -> Self {
        Self(match is_capturing() {
            true => Progress::Refused,
            false => Progress::NotBegun(Box::new(capture), path),
        })
    }
}

impl fmt::Debug for SavingCapture {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let progress = match self.0 {
            Progress::NotBegun(..) => "not begun",
            Progress::Refused => "refused",
            Progress::Saving(..) => "saving",
            Progress::Over => "over",
        };
        out.debug_tuple("SavingCapture").field(&progress).finish()
    }
}

impl Future for SavingCapture {
    type Output = Saved;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Saved> {
        let (saving, cancel) = match mem::replace(&mut self.0, Progress::Over) {
            Progress::NotBegun(..) if is_capturing() => return refused(),
            Progress::Refused => return refused(),
            Progress::NotBegun(capture, path) => match begin(*capture, path) {
                Ok(begun) => begun,
                Err(error) => return Poll::Ready(Err(error)),
            },
            Progress::Saving(saving, cancel) => (saving, cancel),
            // The result was returned already: there is nothing to wait for.
            Progress::Over => return Poll::Pending,
        };
        match saving.poll(context.waker()) {
            Poll::Ready(Ok(saved)) => Poll::Ready(saved),
            Poll::Ready(Err(panic)) => resume_unwind(panic),
            Poll::Pending => {
                self.0 = Progress::Saving(saving, cancel);
                Poll::Pending
            }
        }
    }
}

fn refused() -> Poll<Saved> {
    Poll::Ready(Err(CaptureError::WithinCapture))
}

/// Starts the thread that saves the capture.
fn begin(capture: Capture, path: PathBuf) -> Result<(Awaited<Saved>, CancelFlag), CaptureError> {
    let cancel = capture.course.cancel_flag();
    let saving = Awaited::start("profiler-save", move || capture.save(path));
    Ok((saving.map_err(CaptureError::NoThread)?, cancel))
}

impl Drop for SavingCapture {
    fn drop(&mut self) {
        if let Progress::Saving(_, cancel) = &self.0 {
            cancel.cancel();
        }
    }
}
