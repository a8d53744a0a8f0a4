//! Assertions about `Send` and `Sync`, which the compiler checks.
//!
//! Used by tests that list the public types of a crate. The compiler derives these traits from the
//! fields of a type, so a new private field can remove them from a public type. Such a test then
//! does not compile.

/// Asserts that all of these types are `Send` and `Sync`.
#[macro_export]
macro_rules! assert_send_sync {
    ($($type:ty),+ $(,)?) => {
        $(const _: fn() = || {
            fn is_send_sync<T: Send + Sync>() {}
            is_send_sync::<$type>();
        };)+
    };
}

/// Asserts that all of these types are `Send`. They need not be `Sync`.
#[macro_export]
macro_rules! assert_send {
    ($($type:ty),+ $(,)?) => {
        $(const _: fn() = || {
            fn is_send<T: Send>() {}
            is_send::<$type>();
        };)+
    };
}

/// Asserts that none of these types is `Send`, for guards that belong to their thread.
#[macro_export]
macro_rules! assert_not_send {
    ($($type:ty),+ $(,)?) => {
        $(const _: fn() = || {
            // If the type were `Send`, both implementations would apply, and `_` would be
            // ambiguous.
            trait Is<Trait> {
                fn checked() {}
            }
            struct Sendable;
            impl<T: ?Sized> Is<()> for T {}
            impl<T: ?Sized + Send> Is<Sendable> for T {}
            let _ = <$type as Is<_>>::checked;
        };)+
    };
}
