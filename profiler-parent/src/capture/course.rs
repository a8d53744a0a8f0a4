//! The course of a capture: the events that it sends, and whether its profile is still wanted.
//!
//! Used by both formats. A capture whose profile is not wanted ends early: it reads and names
//! nothing more, its output fails, and no file appears.

use std::io::{self, Write};

use crossbeam_channel::Sender;
use profiler_core::internal::reader::ModuleDefinition;
use profiler_gecko::CancelFlag;

use super::{CaptureError, CaptureEvent};
use crate::processed::names::{CodeNames, Symbols};

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Course {
    events: Sender<CaptureEvent>,
    cancelled: CancelFlag,
}

impl Course {
    pub(super) fn new(events: Sender<CaptureEvent>) -> Self {
        Self {
            events,
            cancelled: CancelFlag::new(),
        }
    }

    /// Where the events go.
    pub(crate) const fn events(&self) -> &Sender<CaptureEvent> {
        &self.events
    }

    /// Cancels the capture when it is raised.
    pub(super) fn cancel_flag(&self) -> CancelFlag {
        self.cancelled.clone()
    }

    /// Whether the profile is not wanted any more.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }

    /// Returns an error if the profile is not wanted any more.
    pub(crate) fn check(&self) -> Result<(), CaptureError> {
        match self.is_cancelled() {
            true => Err(CaptureError::Cancelled),
            false => Ok(()),
        }
    }

    /// An output that fails when the capture is cancelled.
    pub(super) const fn output<'a, W>(&'a self, out: &'a mut W) -> WantedOutput<'a, W> {
        WantedOutput { out, course: self }
    }

    /// Names that are unknown when the capture is cancelled.
    pub(super) const fn symbols<'a>(&'a self, symbols: &'a mut dyn Symbols) -> WantedSymbols<'a> {
        WantedSymbols {
            symbols,
            course: self,
        }
    }
}

/// See [`Course::output`].
#[derive(Debug)]
pub(super) struct WantedOutput<'a, W> {
    out: &'a mut W,
    course: &'a Course,
}

impl<W: Write> Write for WantedOutput<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.course.check().map_err(io::Error::other)?;
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// See [`Course::symbols`].
pub(super) struct WantedSymbols<'a> {
    symbols: &'a mut dyn Symbols,
    course: &'a Course,
}

impl Symbols for WantedSymbols<'_> {
    fn begin(&mut self, modules: usize) {
        self.symbols.begin(modules);
    }

    fn resolve(
        &mut self,
        module: &ModuleDefinition,
        addresses: &[u64],
        found: &mut dyn FnMut(u64, &CodeNames<'_>),
    ) {
        if !self.course.is_cancelled() {
            self.symbols.resolve(module, addresses, found);
        }
    }

    fn names_generated_code(&self) -> bool {
        !self.course.is_cancelled() && self.symbols.names_generated_code()
    }

    fn left_out(&mut self) -> Vec<String> {
        self.symbols.left_out()
    }
}
