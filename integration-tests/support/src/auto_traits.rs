//! Assertions about `Send` and `Sync`, which the compiler checks.
//!
//! A type has these traits by what it contains, so a new private field can take them away from a
//! public type. A test that lists the types shows that.

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

/// Asserts that none of these types is `Send`: guards that belong to their thread.
#[macro_export]
macro_rules! assert_not_send {
    ($($type:ty),+ $(,)?) => {
        $(const _: fn() = || {
            // If the type were `Send`, both implementations would fit, and `_` would be ambiguous.
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
