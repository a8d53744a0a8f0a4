//! The values that recording macros take as fields: `marker!("load", url = url, bytes = 17)`.
//!
//! Compiled with and without the feature `engine`. Applications use this module as
//! [`crate::marker`]. The macros pass all fields of a marker as one tuple, which implements
//! [`MarkerFields`]. Invariant: each field writes exactly one value, so the values match the keys
//! in order.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::schema::Format;

/// Where the values of fields are written. Not for direct use.
#[doc(hidden)]
pub trait FieldSink {
    /// Why a value cannot be written.
    type Error;

    /// A field without a value.
    ///
    /// # Errors
    /// If there is no room, as for all other values.
    fn put_none(&mut self) -> Result<(), Self::Error>;

    /// A boolean.
    ///
    /// # Errors
    /// As above.
    fn put_bool(&mut self, value: bool) -> Result<(), Self::Error>;

    /// An unsigned integer.
    ///
    /// # Errors
    /// As above.
    fn put_u64(&mut self, value: u64) -> Result<(), Self::Error>;

    /// A signed integer.
    ///
    /// # Errors
    /// As above.
    fn put_i64(&mut self, value: i64) -> Result<(), Self::Error>;

    /// A floating-point number.
    ///
    /// # Errors
    /// As above.
    fn put_f64(&mut self, value: f64) -> Result<(), Self::Error>;

    /// A text.
    ///
    /// # Errors
    /// As above.
    fn put_text(&mut self, value: &str) -> Result<(), Self::Error>;

    /// A text that is formatted where it is stored. It is cut after 64 KiB.
    ///
    /// # Errors
    /// As above.
    fn put_display(&mut self, value: fmt::Arguments<'_>) -> Result<(), Self::Error>;
}

/// A value that a recording macro takes as a field: a number, a boolean, a text, a path, a
/// duration, or an option of these.
///
/// The type decides how viewers show the value. For other formats, such as bytes or a URL, use a
/// type of your own: see [`ProfilerMarker`](crate::marker::ProfilerMarker).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a marker",
    note = "fields are numbers, booleans, texts, paths, durations, and options and references of these",
    note = "in a macro, pass another type as a text: `field = value.to_string()`",
    note = "in a macro, `category = …` and `options = …` come before the fields",
    note = "in `#[derive(ProfilerMarker)]`, give the field a format: `#[field(format = \"…\")]`"
)]
pub trait MarkerValue {
    /// How viewers show the value.
    #[doc(hidden)]
    const FORMAT: Format;

    /// Writes the value.
    ///
    /// # Errors
    /// Those of the sink.
    #[doc(hidden)]
    fn write<S: FieldSink>(&self, sink: &mut S) -> Result<(), S::Error>;
}

macro_rules! values {
    ($($type:ty => $format:ident, |$value:ident, $sink:ident| $write:expr;)*) => {$(
        impl MarkerValue for $type {
            const FORMAT: Format = Format::$format;

            #[inline]
            fn write<S: FieldSink>(&self, $sink: &mut S) -> Result<(), S::Error> {
                let $value = self;
                $write
            }
        }
    )*};
}

values! {
    bool => String, |value, sink| sink.put_bool(*value);
    u8 => Integer, |value, sink| sink.put_u64(u64::from(*value));
    u16 => Integer, |value, sink| sink.put_u64(u64::from(*value));
    u32 => Integer, |value, sink| sink.put_u64(u64::from(*value));
    u64 => Integer, |value, sink| sink.put_u64(*value);
    usize => Integer, |value, sink| sink.put_u64(*value as u64);
    i8 => Integer, |value, sink| sink.put_i64(i64::from(*value));
    i16 => Integer, |value, sink| sink.put_i64(i64::from(*value));
    i32 => Integer, |value, sink| sink.put_i64(i64::from(*value));
    i64 => Integer, |value, sink| sink.put_i64(*value);
    isize => Integer, |value, sink| sink.put_i64(*value as i64);
    f32 => Decimal, |value, sink| sink.put_f64(f64::from(*value));
    f64 => Decimal, |value, sink| sink.put_f64(*value);
    char => String, |value, sink| sink.put_text(value.encode_utf8(&mut [0; 4]));
    str => String, |value, sink| sink.put_text(value);
    String => String, |value, sink| sink.put_text(value);
    Cow<'_, str> => String, |value, sink| sink.put_text(value);
    Path => FilePath, |value, sink| match value.to_str() {
        Some(text) => sink.put_text(text),
        None => sink.put_display(format_args!("{}", value.display())),
    };
    PathBuf => FilePath, |value, sink| value.as_path().write(sink);
    Duration => Duration, |value, sink| sink.put_f64(value.as_secs_f64() * 1000.0);
    fmt::Arguments<'_> => String, |value, sink| sink.put_display(*value);
}

macro_rules! pointers {
    ($($pointer:ty),*) => {$(
        impl<T: MarkerValue + ?Sized> MarkerValue for $pointer {
            const FORMAT: Format = T::FORMAT;

            #[inline]
            fn write<S: FieldSink>(&self, sink: &mut S) -> Result<(), S::Error> {
                (**self).write(sink)
            }
        }
    )*};
}

pointers!(&T, Box<T>, Arc<T>);

impl<T: MarkerValue> MarkerValue for Option<T> {
    const FORMAT: Format = T::FORMAT;

    #[inline]
    fn write<S: FieldSink>(&self, sink: &mut S) -> Result<(), S::Error> {
        match self {
            Some(value) => value.write(sink),
            None => sink.put_none(),
        }
    }
}

/// The values of all fields of a marker: a tuple of up to twelve. Not for direct use.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "these cannot be the fields of a marker",
    note = "a marker has at most twelve fields in a macro; for more, use a type of your own"
)]
pub trait MarkerFields {
    /// How viewers show each of them.
    const FORMATS: &'static [Format];

    /// Writes all values.
    ///
    /// # Errors
    /// Those of the sink.
    fn write<S: FieldSink>(&self, sink: &mut S) -> Result<(), S::Error>;
}

macro_rules! tuples {
    ($($name:ident)*) => { tuples!(@ [] $($name)*); };
    (@ [$($done:ident)*]) => {};
    (@ [$($done:ident)*] $next:ident $($rest:ident)*) => {
        impl<$($done: MarkerValue,)* $next: MarkerValue> MarkerFields for ($($done,)* $next,) {
            const FORMATS: &'static [Format] = &[$($done::FORMAT,)* $next::FORMAT];

            #[inline]
            #[allow(non_snake_case)] // each value has the name of its type
            fn write<S: FieldSink>(&self, sink: &mut S) -> Result<(), S::Error> {
                let ($($done,)* $next,) = self;
                $($done.write(sink)?;)*
                $next.write(sink)
            }
        }
        tuples!(@ [$($done)* $next] $($rest)*);
    };
}

tuples!(A B C D E F G H I J K L);
