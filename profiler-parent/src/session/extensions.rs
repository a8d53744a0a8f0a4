//! Values that other crates keep with a session: one of each type, made at its first use.
//!
//! The pusher keeps here what its destinations have got. Invariant: a value lives as long as the
//! session or its last user.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A value of some type.
type Extension = Arc<dyn Any + Send + Sync>;

/// The values of a session, by type.
#[derive(Debug, Default)]
pub(crate) struct SessionExtensions(Mutex<HashMap<TypeId, Extension>>);

impl SessionExtensions {
    /// The session's value of this type.
    pub(crate) fn get<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let value = values
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Arc::<T>::default());
        // The key is the type of the value, so the default is never made.
        Arc::clone(value).downcast().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_one_value_of_each_type() {
        let extensions = SessionExtensions::default();
        *extensions.get::<Mutex<u32>>().lock().unwrap() = 7;
        assert_eq!(*extensions.get::<Mutex<u32>>().lock().unwrap(), 7);
        assert_eq!(*extensions.get::<Mutex<i32>>().lock().unwrap(), 0);
    }
}
