//! Fuzzes the server of the live page with the bytes of clients, while it shows a real session.
//! Answers must be well-formed and in time, and requests without the token must be refused.
//!
//! The checks are shared with `profiler-parent/tests/foreign_requests.rs`.

use std::cell::Cell;

use crate::hostile::asked;

thread_local! {
    static PAGE: asked::Asked = asked::Asked::new();
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Checks one input.
pub(crate) fn check_input(data: &[u8]) {
    PAGE.with(|page| {
        page.check(data);
        COUNT.set(COUNT.get() + 1);
        if COUNT.get().is_multiple_of(64) {
            page.check_serves();
        }
    });
}
