//! An RAII guard for an interval marker from its creation to the end of the scope.

use std::marker::PhantomData;

use super::MarkerOptions;
use super::site::MarkerSite;
use crate::category::CategoryPair;
use crate::record::session_state;
use crate::time::Timestamp;

/// Records one interval marker when it is dropped. Made by [`crate::scope!`].
///
/// If the process dies inside the scope, the interval is not in the profile. For long operations,
/// record [`super::MarkerTiming::IntervalStart`] and `IntervalEnd` instead. The guard is not
/// `Send`.
#[derive(Debug)]
#[must_use = "a scope ends when its guard is dropped; bind it: let _scope = scope!(…)"]
pub struct MarkerScope<'a> {
    open: Option<Open<'a>>,
    /// Not `Send`: the marker belongs to the thread that opened the scope.
    thread: PhantomData<*const ()>,
}

#[derive(Debug)]
struct Open<'a> {
    site: &'static MarkerSite,
    category: CategoryPair,
    start: Timestamp,
    text: Option<&'a str>,
}

impl<'a> MarkerScope<'a> {
    /// Opens a scope if a session runs.
    #[inline(always)]
    pub fn new(
        site: &'static MarkerSite,
        category: impl Into<CategoryPair>,
        text: Option<&'a str>,
    ) -> Self {
        let open = session_state::is_active().then(|| Open {
            site,
            category: category.into(),
            start: Timestamp::now(),
            text,
        });
        Self {
            open,
            thread: PhantomData,
        }
    }

    /// A scope that records nothing.
    pub const fn disabled() -> Self {
        Self {
            open: None,
            thread: PhantomData,
        }
    }
}

impl Drop for MarkerScope<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let Some(open) = &self.open else { return };
        if !session_state::is_active() {
            return;
        }
        let options = MarkerOptions::interval_until_now_from(open.start);
        match open.text {
            None => open.site.add(open.category, options),
            Some(text) => open.site.add_text(open.category, options, text),
        }
    }
}
