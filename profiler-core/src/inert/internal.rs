//! What the packages under `integrations/` use of the engine, without the engine.

pub mod panic_note {
    //! Panics that are not noted.

    use crate::time::Timestamp;

    /// What would be noted of a panic.
    #[derive(Clone, Copy, Debug)]
    pub struct PanicFacts<'a> {
        /// When it began.
        pub at: Timestamp,
        /// Its message.
        pub message: &'a str,
        /// The source file.
        pub file: &'a str,
        /// The line in the file.
        pub line: u32,
        /// The column in the line.
        pub column: u32,
        /// The name of the thread.
        pub thread: &'a str,
        /// Whether the process cannot survive the panic.
        pub ends_process: bool,
    }

    /// A panic that was noted: there is none.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum NotedPanic {}

    /// `None`: no session runs.
    pub fn note(_facts: &PanicFacts<'_>) -> Option<NotedPanic> {
        None
    }

    /// `None`: no thread is named in a profile.
    pub fn thread_name() -> Option<String> {
        None
    }

    impl NotedPanic {
        /// Is never called, because there is no value.
        pub fn hook_returned(self) -> Option<Self> {
            match self {}
        }

        /// Is never called, because there is no value.
        pub fn ends_process(self) -> Option<Self> {
            match self {}
        }
    }
}

pub mod payload {
    //! Payloads that are not written.

    use std::fmt;

    /// The reason why a payload could not be written. Nothing is written here.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum PayloadError {
        /// The room is too small.
        NoRoom,
    }

    impl fmt::Display for PayloadError {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("no room for the payload")
        }
    }

    impl std::error::Error for PayloadError {}
}

pub mod runtime_site {
    //! Call sites that record nothing.

    use std::fmt;
    use std::marker::PhantomData;

    use super::payload::PayloadError;
    use crate::category::{Category, CategoryPair, OTHER};
    use crate::marker::MarkerOptions;
    use crate::schema::MarkerSchema;

    /// The category "Other": nothing is recorded that belongs to another one.
    pub const fn category_of_target(_target: &str) -> &'static Category {
        &OTHER
    }

    /// A call site that records nothing.
    #[derive(Debug)]
    pub struct RuntimeSite(CategoryPair);

    impl RuntimeSite {
        /// A site that records nothing.
        pub fn new(
            _name: &'static str,
            category: impl Into<CategoryPair>,
            _schema: MarkerSchema,
        ) -> Self {
            Self(category.into())
        }

        /// Its category.
        pub const fn category(&self) -> CategoryPair {
            self.0
        }

        /// Does nothing; `write` is not called.
        #[inline(always)]
        pub fn add<F>(&self, _options: MarkerOptions, _write: F)
        where
            F: FnMut(&mut FieldWriter<'_>) -> Result<(), PayloadError>,
        {
        }
    }

    /// Does nothing.
    #[inline(always)]
    pub fn end_span(_site: &RuntimeSite, _number: u64) {}

    /// Does nothing.
    #[inline(always)]
    pub fn count_without_site() {}

    /// Writes no fields. There is no value of this type.
    #[derive(Debug)]
    pub struct FieldWriter<'a>(PhantomData<&'a mut [u8]>, Never);

    #[derive(Debug)]
    enum Never {}

    impl FieldWriter<'_> {
        /// Is never called, because there is no value.
        ///
        /// # Errors
        /// None.
        pub fn none(&mut self) -> Result<(), PayloadError> {
            match self.1 {}
        }

        /// Is never called, because there is no value.
        ///
        /// # Errors
        /// None.
        pub fn bool(&mut self, _value: bool) -> Result<(), PayloadError> {
            match self.1 {}
        }

        /// Is never called, because there is no value.
        ///
        /// # Errors
        /// None.
        pub fn u64(&mut self, _value: u64) -> Result<(), PayloadError> {
            match self.1 {}
        }

        /// Is never called, because there is no value.
        ///
        /// # Errors
        /// None.
        pub fn i64(&mut self, _value: i64) -> Result<(), PayloadError> {
            match self.1 {}
        }

        /// Is never called, because there is no value.
        ///
        /// # Errors
        /// None.
        pub fn f64(&mut self, _value: f64) -> Result<(), PayloadError> {
            match self.1 {}
        }

        /// Is never called, because there is no value.
        ///
        /// # Errors
        /// None.
        pub fn text(&mut self, _text: &str, _most: usize) -> Result<(), PayloadError> {
            match self.1 {}
        }

        /// Is never called, because there is no value.
        ///
        /// # Errors
        /// None.
        pub fn display(
            &mut self,
            _text: fmt::Arguments<'_>,
            _most: usize,
        ) -> Result<(), PayloadError> {
            match self.1 {}
        }
    }
}

pub mod span_number {
    //! Spans without numbers.

    use crate::marker::{MarkerOptions, MarkerTiming};

    /// Always 0.
    #[inline(always)]
    pub const fn draw_span_number() -> u64 {
        0
    }

    /// Always 0.
    #[inline(always)]
    pub const fn flow_of(_number: u64) -> u64 {
        0
    }

    /// Options with this timing.
    #[inline(always)]
    pub fn options_of_span(_number: u64, timing: MarkerTiming) -> MarkerOptions {
        MarkerOptions::from(timing)
    }
}
