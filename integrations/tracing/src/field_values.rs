//! Writes the values of a span or an event into its entry, in the order of its fields.
//!
//! Used by `recording`. Numbers stay numbers; everything that is formatted is a bounded text. A
//! `Debug` of the host may panic: the panic ends at its value. It may also emit events: the core
//! refuses an entry within an entry, and counts it. Invariant: the values of one payload are
//! written in the order of the fields of the metadata, with "none" for fields without a value.

use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use profiler_core::internal::payload::PayloadError;
use profiler_core::internal::runtime_site::FieldWriter;
use tracing_core::field::{Field, Visit};

use crate::call_site::CallSite;

/// Most bytes of a text.
const MAX_TEXT: usize = 1024;
/// What stands for the value of a field whose `Debug` has panicked.
const PANICKED: &str = "(its Debug panicked)";

/// Writes all values. `visit` passes them to a visitor; it is called again, once for each field, if
/// they do not come in the order of the fields.
#[inline]
pub(crate) fn write(
    site: &CallSite,
    out: &mut FieldWriter<'_>,
    visit: impl Fn(&mut dyn Visit),
) -> Result<(), PayloadError> {
    if site.has_unordered_values.load(Ordering::Relaxed) {
        return write_one_by_one(site, out, visit);
    }
    let mut values = ValueWriter::new(out, None);
    visit(&mut values);
    if values.is_unordered {
        site.has_unordered_values.store(true, Ordering::Relaxed);
        // The entry is begun anew in a larger room. This happens once for each call site.
        return Err(PayloadError::NoRoom);
    }
    values.result()
}

#[cold]
fn write_one_by_one(
    site: &CallSite,
    out: &mut FieldWriter<'_>,
    visit: impl Fn(&mut dyn Visit),
) -> Result<(), PayloadError> {
    for index in 0..site.metadata.fields().len() {
        let mut value = ValueWriter::new(out, Some(index));
        visit(&mut value);
        value.result()?;
        if value.next == index {
            out.none()?;
        }
    }
    Ok(())
}

/// Writes the values that it visits.
struct ValueWriter<'w, 'a> {
    out: &'w mut FieldWriter<'a>,
    /// The index of the next field.
    next: usize,
    /// The only field to write, if not all.
    only: Option<usize>,
    is_unordered: bool,
    /// A value did not fit. Not the error itself, which is larger than a word: the compiler would
    /// copy it with loads that are wider than the stores before them.
    is_full: bool,
}

impl<'w, 'a> ValueWriter<'w, 'a> {
    #[inline]
    fn new(out: &'w mut FieldWriter<'a>, only: Option<usize>) -> Self {
        Self {
            out,
            next: only.unwrap_or(0),
            only,
            is_unordered: false,
            is_full: false,
        }
    }

    /// Whether all values fitted.
    #[inline]
    const fn result(&self) -> Result<(), PayloadError> {
        if self.is_full {
            Err(PayloadError::NoRoom)
        } else {
            Ok(())
        }
    }

    #[inline]
    fn value(
        &mut self,
        field: &Field,
        write: impl FnOnce(&mut FieldWriter<'a>) -> Result<(), PayloadError>,
    ) {
        let index = field.index();
        if self
            .only
            .is_some_and(|only| only != index || self.next != only)
        {
            return;
        }
        self.is_unordered |= index < self.next;
        if !self.is_full && !self.is_unordered {
            let written = self.fill_up_to(index).and_then(|()| write(self.out));
            self.is_full = written.is_err();
            self.next = index.saturating_add(1);
        }
    }

    /// Writes that the fields before this one have no value.
    #[inline]
    fn fill_up_to(&mut self, index: usize) -> Result<(), PayloadError> {
        (self.next..index).try_for_each(|_| self.out.none())
    }
}

impl Visit for ValueWriter<'_, '_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.value(field, |out| out.f64(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.value(field, |out| out.i64(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.value(field, |out| out.u64(value));
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.value(field, |out| out.display(format_args!("{value}"), MAX_TEXT));
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.value(field, |out| out.display(format_args!("{value}"), MAX_TEXT));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.value(field, |out| out.bool(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.value(field, |out| out.text(value, MAX_TEXT));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let value = Guarded(|f: &mut fmt::Formatter<'_>| fmt::Display::fmt(value, f));
        self.value(field, |out| out.display(format_args!("{value}"), MAX_TEXT));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let value = Guarded(|f: &mut fmt::Formatter<'_>| value.fmt(f));
        self.value(field, |out| out.display(format_args!("{value}"), MAX_TEXT));
    }
}

/// Formats a value of the host, whose code may panic.
struct Guarded<F>(F);

impl<F: Fn(&mut fmt::Formatter<'_>) -> fmt::Result> fmt::Display for Guarded<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // After a panic, the value is not used again, and the formatter only has a part of a text.
        match catch_unwind(AssertUnwindSafe(|| (self.0)(f))) {
            Ok(result) => result,
            Err(payload) => {
                // Its drop may panic, too.
                std::mem::forget(payload);
                f.write_str(PANICKED)
            }
        }
    }
}
