//! The recording API in builds without the engine: the same names, which do nothing.
//!
//! Called by libraries and applications that record, in programs that do not enable recording, and
//! in all programs on systems that the engine does not support, such as Windows. The packages under
//! `integrations/` find what they use of the engine in `internal`.
//! Every public item has the name and the signature of an item of the engine, where it is
//! documented. Invariants: nothing here reads a clock, stores, allocates or makes a system call, so
//! the compiler removes every call; the program `tests/recording_api.rs` compiles with the engine
//! and with this module. Guards implement `Drop`, so that the compiler and clippy report the same
//! warnings about their users in both builds.

/// Implements `Future` for a wrapper that only polls the future inside.
macro_rules! plain_future {
    ($wrapper:ident) => {
        impl<F: std::future::Future> std::future::Future for $wrapper<F> {
            type Output = F::Output;

            #[inline(always)]
            fn poll(
                self: std::pin::Pin<&mut Self>,
                context: &mut std::task::Context<'_>,
            ) -> std::task::Poll<F::Output> {
                // SAFETY: the future inside is pinned with `self`: it is not moved out of it, the
                // wrapper has no `Drop`, and there is no other access to the field.
                unsafe { self.map_unchecked_mut(|this| &mut this.0) }.poll(context)
            }
        }
    };
}

pub mod alloc;
pub mod counter;
pub mod future;
pub mod groups;
pub mod internal;
pub mod label;
pub mod marker;
pub mod safepoint;
pub mod sampler;
pub mod session;
pub mod thread;
pub mod time;
pub mod trace;
