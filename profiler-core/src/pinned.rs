//! Access to the parts of a future that wraps another one.
//!
//! Used by `groups` and `future`. Invariant: a wrapper is a struct of the wrapped future, which is
//! pinned with it, and of what is recorded about it, which is not. It implements neither `Drop` nor
//! `Unpin`, and no other code hands out a reference to the future.

/// Gives `$wrapper<F>` a method `parts`: the pinned future, and the other field.
macro_rules! parts_of_pinned {
    ($wrapper:ident { $future:ident, $record:ident: $type:ty }) => {
        impl<F> $wrapper<F> {
            /// The wrapped future, and what is recorded about it.
            #[inline]
            fn parts(self: std::pin::Pin<&mut Self>) -> (std::pin::Pin<&mut F>, &mut $type) {
                // SAFETY: the future is not moved: the reference goes straight into a pin, the
                // wrapper has no `Drop`, and it hands out no other reference to the future. The
                // other field is not pinned.
                let this = unsafe { self.get_unchecked_mut() };
                // SAFETY: as above: the future lies inside the pinned value and stays there until
                // it is dropped in place.
                let future = unsafe { std::pin::Pin::new_unchecked(&mut this.$future) };
                (future, &mut this.$record)
            }
        }
    };
}

pub(crate) use parts_of_pinned;
