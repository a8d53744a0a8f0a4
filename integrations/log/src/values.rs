//! Reads the key-values and the texts of a record, whose code belongs to the program.
//!
//! Used by `sites` and `recording`. Numbers and booleans keep their types; everything else is a
//! bounded text. A `Display`, a `Debug` or a `Source` of the host may panic: the panic ends at its
//! text. It may also log: see `formatting`. Invariants: at most [`MAX_VALUES`] key-values are read
//! of a record; the others are counted.

use std::fmt::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};

use log::kv::{Error, Key, Source, Value, VisitSource, VisitValue};
use profiler_core::internal::payload::PayloadError;
use profiler_core::internal::runtime_site::FieldWriter;

/// Most bytes of a text.
pub(crate) const MAX_TEXT: usize = 1024;
/// Most key-values of a record that are fields of its marker.
pub(crate) const MAX_VALUES: usize = 16;
/// What stands for a text whose `Display` or `Debug` has panicked.
const PANICKED: &str = "(its Display panicked)";
/// What a text that is cut off ends with.
const ELLIPSIS: &str = "…";

/// Passes the key-values to `visit`, with their index, up to a panic of the host's code.
pub(crate) fn for_each(source: &dyn Source, visit: impl FnMut(usize, Key<'_>, Value<'_>)) {
    let mut visitor = Numbered { next: 0, visit };
    // After a panic, the visitor is not used again, and each call of it is complete.
    let visited = catch_unwind(AssertUnwindSafe(|| source.visit(&mut visitor)));
    if let Err(payload) = visited {
        // Its drop may panic, too.
        std::mem::forget(payload);
    }
}

struct Numbered<F> {
    next: usize,
    visit: F,
}

impl<'kvs, F: FnMut(usize, Key<'_>, Value<'_>)> VisitSource<'kvs> for Numbered<F> {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), Error> {
        (self.visit)(self.next, key, value);
        self.next = self.next.saturating_add(1);
        Ok(())
    }
}

/// Writes one value per name, in this order, and "none" for names without a value.
pub(crate) fn write(
    source: &dyn Source,
    names: &[Box<str>],
    out: &mut FieldWriter<'_>,
) -> Result<(), PayloadError> {
    if names.is_empty() {
        return Ok(());
    }
    let mut written = 0;
    let mut result = Ok(());
    for_each(source, |index, key, value| {
        // A source that yields other keys than before has values without a name.
        let is_next = index == written && result.is_ok();
        if is_next && names.get(index).is_some_and(|name| **name == *key.as_str()) {
            result = write_value(&value, out);
            written += 1;
        }
    });
    result?;
    (written..names.len()).try_for_each(|_| out.none())
}

fn write_value(value: &Value<'_>, out: &mut FieldWriter<'_>) -> Result<(), PayloadError> {
    let mut writer = ValueWriter {
        out,
        result: Ok(()),
    };
    let _ = value.visit(&mut writer);
    writer.result
}

/// Writes the value that it visits.
struct ValueWriter<'w, 'a> {
    out: &'w mut FieldWriter<'a>,
    result: Result<(), PayloadError>,
}

impl ValueWriter<'_, '_> {
    fn done(&mut self, result: Result<(), PayloadError>) -> Result<(), Error> {
        self.result = result;
        Ok(())
    }
}

impl<'v> VisitValue<'v> for ValueWriter<'_, '_> {
    fn visit_any(&mut self, value: Value<'_>) -> Result<(), Error> {
        let value = Guarded(&value);
        let result = self.out.display(format_args!("{value}"), MAX_TEXT);
        self.done(result)
    }

    fn visit_null(&mut self) -> Result<(), Error> {
        let result = self.out.none();
        self.done(result)
    }

    fn visit_u64(&mut self, value: u64) -> Result<(), Error> {
        let result = self.out.u64(value);
        self.done(result)
    }

    fn visit_i64(&mut self, value: i64) -> Result<(), Error> {
        let result = self.out.i64(value);
        self.done(result)
    }

    fn visit_f64(&mut self, value: f64) -> Result<(), Error> {
        let result = self.out.f64(value);
        self.done(result)
    }

    fn visit_bool(&mut self, value: bool) -> Result<(), Error> {
        let result = self.out.bool(value);
        self.done(result)
    }

    fn visit_str(&mut self, value: &str) -> Result<(), Error> {
        let result = self.out.text(value, MAX_TEXT);
        self.done(result)
    }
}

/// Formats a value of the host, whose code may panic.
pub(crate) struct Guarded<'a, T: ?Sized>(pub(crate) &'a T);

impl<T: fmt::Display + ?Sized> fmt::Display for Guarded<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // After a panic, the value is not used again, and the formatter only has a part of a text.
        match catch_unwind(AssertUnwindSafe(|| self.0.fmt(f))) {
            Ok(result) => result,
            Err(payload) => {
                std::mem::forget(payload); // its drop may panic, too
                f.write_str(PANICKED)
            }
        }
    }
}

/// Formats at most [`MAX_TEXT`] bytes of a text of the host, and "…" if more was to come.
pub(crate) struct Bounded<T>(pub(crate) T);

impl<T: fmt::Display> fmt::Display for Bounded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cut = Cut {
            out: f,
            left: MAX_TEXT,
            is_cut: false,
        };
        let formatted = write!(cut, "{}", Guarded(&self.0));
        if cut.is_cut {
            f.write_str(ELLIPSIS)
        } else {
            formatted
        }
    }
}

impl<T: fmt::Display> serde::Serialize for Bounded<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Passes a text on up to a bound. Formatting stops there.
struct Cut<'w, 'f> {
    out: &'w mut fmt::Formatter<'f>,
    left: usize,
    is_cut: bool,
}

impl fmt::Write for Cut<'_, '_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.is_cut {
            return Err(fmt::Error);
        }
        let fitting = part.floor_char_boundary(self.left);
        self.out.write_str(part.get(..fitting).unwrap_or(""))?;
        self.left = self.left.saturating_sub(fitting);
        self.is_cut = fitting < part.len();
        if self.is_cut { Err(fmt::Error) } else { Ok(()) }
    }
}

/// All key-values as one text: `key=value key=value`.
pub(crate) struct Listed<'a>(pub(crate) &'a dyn Source);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut result = Ok(());
        for_each(self.0, |index, key, value| {
            if result.is_ok() {
                let space = if index == 0 { "" } else { " " };
                result = write!(f, "{space}{key}={}", Guarded(&value));
            }
        });
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_formatting_stops() {
        let endless = fmt::from_fn(|f| {
            loop {
                f.write_str("äbc")?;
            }
        });
        let text = Bounded(endless).to_string();
        assert_eq!(text.len(), MAX_TEXT + ELLIPSIS.len());
        assert!(text.ends_with("äbc…"), "{text}");
        assert_eq!(Bounded("short").to_string(), "short");
    }
}
