//! The listeners of alerts: callbacks by target and name.
//!
//! Called by the dispatcher. Invariants: once [`Listeners::remove`] has returned, the callback is
//! not running and is not called again (a callback that removes itself is still running); a
//! callback that panics, when it is called or when it is dropped, is removed and affects no other;
//! while a callback runs, only its own lock is held.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use super::Alert;

/// Which alerts a listener gets. The target need not exist yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AlertTarget {
    /// Alerts of all groups.
    All,
    /// Alerts of groups of this kind, by its name.
    Kind(String),
    /// Alerts of groups with this name, of any kind and in any process.
    Group(String),
}

impl AlertTarget {
    fn is_of(&self, alert: &Alert) -> bool {
        match self {
            Self::All => true,
            Self::Kind(kind) => *kind == alert.kind,
            Self::Group(name) => *name == alert.group,
        }
    }
}

/// Why a listener was not added or removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListenerError {
    /// The target already has a listener of that name.
    #[error("a listener {0:?} for {1:?} already exists")]
    Duplicate(String, AlertTarget),
    /// The target has no listener of that name.
    #[error("there is no listener {0:?} for {1:?}")]
    Unknown(String, AlertTarget),
}

type Callback = Box<dyn FnMut(&[Alert]) + Send>;

struct Listener {
    target: AlertTarget,
    name: String,
    is_active: AtomicBool,
    callback: Mutex<Option<Callback>>,
}

impl Drop for Listener {
    /// Drops the callback's captures, which belong to the host: their drop may panic, on any
    /// thread.
    fn drop(&mut self) {
        let callback = self
            .callback
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(callback)));
    }
}

/// All listeners.
#[derive(Default)]
pub(super) struct Listeners {
    all: Mutex<Vec<Arc<Listener>>>,
    /// The thread that calls the listeners.
    caller: Mutex<Option<ThreadId>>,
}

impl std::fmt::Debug for Listeners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listeners")
            .field("count", &self.lock().len())
            .finish_non_exhaustive()
    }
}

impl Listeners {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Listener>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(
        &self,
        target: AlertTarget,
        name: &str,
        callback: Callback,
    ) -> Result<(), ListenerError> {
        let mut all = self.lock();
        if all
            .iter()
            .any(|one| one.target == target && one.name == name)
        {
            return Err(ListenerError::Duplicate(name.to_owned(), target));
        }
        let is_active = AtomicBool::new(true);
        let callback = Mutex::new(Some(callback));
        all.push(Arc::new(Listener {
            target,
            name: name.to_owned(),
            is_active,
            callback,
        }));
        Ok(())
    }

    pub(super) fn remove(&self, target: &AlertTarget, name: &str) -> Result<(), ListenerError> {
        let mut all = self.lock();
        let place = all
            .iter()
            .position(|one| one.target == *target && one.name == name);
        let Some(place) = place else {
            return Err(ListenerError::Unknown(name.to_owned(), target.clone()));
        };
        let listener = all.remove(place);
        drop(all);
        listener.is_active.store(false, Ordering::Release);
        let caller = *self.caller.lock().unwrap_or_else(PoisonError::into_inner);
        if caller != Some(std::thread::current().id()) {
            // Wait for a running call.
            drop(
                listener
                    .callback
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner),
            );
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Calls every listener with the alerts of its target, in the order of registration.
    pub(super) fn notify(&self, alerts: &[Alert]) {
        *self.caller.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(std::thread::current().id());
        let all: Vec<Arc<Listener>> = self.lock().clone();
        for listener in all {
            let mine: Vec<Alert> = alerts
                .iter()
                .filter(|alert| listener.target.is_of(alert))
                .cloned()
                .collect();
            if !mine.is_empty() && !listener.call(&mine) {
                // Compares identities, because another listener may have its name by now.
                self.lock().retain(|one| !Arc::ptr_eq(one, &listener));
            }
        }
    }
}

impl Listener {
    /// Returns false if the callback panicked.
    fn call(&self, alerts: &[Alert]) -> bool {
        let mut callback = self.callback.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(callback) = callback
            .as_mut()
            .filter(|_| self.is_active.load(Ordering::Acquire))
        else {
            return true;
        };
        catch_unwind(AssertUnwindSafe(|| callback(alerts))).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn counting(listeners: &Listeners, target: AlertTarget, name: &str) -> Arc<AtomicUsize> {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let callback = Box::new(move |alerts: &[Alert]| {
            counted.fetch_add(alerts.len(), Ordering::Relaxed);
        });
        listeners.add(target, name, callback).unwrap();
        count
    }

    #[test]
    fn a3_a_listener_receives_the_alerts_of_its_target_in_one_call() {
        let listeners = Listeners::default();
        let group = counting(&listeners, AlertTarget::Group("a".into()), "one");
        let unknown = counting(&listeners, AlertTarget::Group("late".into()), "one");
        let kind = counting(&listeners, AlertTarget::Kind("plugin".into()), "one");
        let all = counting(&listeners, AlertTarget::All, "one");
        listeners.notify(&[Alert::test("plugin", "a"), Alert::test("tenant", "b")]);
        let counts = [&group, &unknown, &kind, &all].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counts, [1, 0, 1, 2]);
        listeners.notify(&[Alert::test("tenant", "late")]);
        assert_eq!(
            unknown.load(Ordering::Relaxed),
            1,
            "the listener was registered before the group existed"
        );
    }

    #[test]
    fn a3_duplicates_and_unknown_removals_are_errors_and_a_removed_listener_is_not_called() {
        let listeners = Listeners::default();
        let count = counting(&listeners, AlertTarget::All, "one");
        let again = listeners.add(AlertTarget::All, "one", Box::new(|_| {}));
        assert_eq!(
            again,
            Err(ListenerError::Duplicate("one".into(), AlertTarget::All))
        );
        assert!(
            listeners
                .add(AlertTarget::All, "two", Box::new(|_| {}))
                .is_ok()
        );
        let unknown = listeners.remove(&AlertTarget::Kind("x".into()), "one");
        assert_eq!(
            unknown,
            Err(ListenerError::Unknown(
                "one".into(),
                AlertTarget::Kind("x".into())
            ))
        );
        assert_eq!(listeners.remove(&AlertTarget::All, "one"), Ok(()));
        listeners.notify(&[Alert::test("plugin", "a")]);
        assert_eq!(count.load(Ordering::Relaxed), 0);
        assert!(listeners.remove(&AlertTarget::All, "one").is_err());
    }

    #[test]
    fn a3_a_callback_may_remove_itself_and_a_panicking_callback_affects_no_other() {
        let listeners = Arc::new(Listeners::default());
        let own = Arc::clone(&listeners);
        let removes = move |_: &[Alert]| own.remove(&AlertTarget::All, "once").unwrap();
        listeners
            .add(AlertTarget::All, "once", Box::new(removes))
            .unwrap();
        listeners
            .add(
                AlertTarget::All,
                "panics",
                Box::new(|_| panic!("panic of the test")),
            )
            .unwrap();
        let count = counting(&listeners, AlertTarget::All, "counts");
        (0..3).for_each(|_| listeners.notify(&[Alert::test("plugin", "a")]));
        assert_eq!(
            (count.load(Ordering::Relaxed), listeners.lock().len()),
            (3, 1)
        );
    }

    /// Panics when dropped.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "panic of the test");
        }
    }

    #[test]
    fn a3_a_callback_that_panics_when_dropped_affects_no_other() {
        let listeners = Listeners::default();
        for name in ["called", "removed", "left"] {
            let bomb = Bomb;
            let callback = move |_: &[Alert]| {
                let _kept = &bomb;
                assert_ne!(name, "called", "panic of the test");
            };
            listeners
                .add(AlertTarget::All, name, Box::new(callback))
                .unwrap();
        }
        let count = counting(&listeners, AlertTarget::All, "counts");
        listeners.notify(&[Alert::test("plugin", "a")]);
        assert_eq!(listeners.remove(&AlertTarget::All, "removed"), Ok(()));
        listeners.notify(&[Alert::test("plugin", "a")]);
        assert_eq!(
            (count.load(Ordering::Relaxed), listeners.lock().len()),
            (2, 2)
        );
        drop(listeners);
    }

    #[test]
    fn a3_a_panicking_callback_is_removed_but_not_a_new_listener_of_the_same_name() {
        let listeners = Arc::new(Listeners::default());
        let own = Arc::clone(&listeners);
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let replaces = move |_: &[Alert]| {
            own.remove(&AlertTarget::All, "same").unwrap();
            let counted = Arc::clone(&counted);
            let counts = move |alerts: &[Alert]| {
                counted.fetch_add(alerts.len(), Ordering::Relaxed);
            };
            own.add(AlertTarget::All, "same", Box::new(counts)).unwrap();
            panic!("panic of the test");
        };
        listeners
            .add(AlertTarget::All, "same", Box::new(replaces))
            .unwrap();
        (0..2).for_each(|_| listeners.notify(&[Alert::test("plugin", "a")]));
        assert_eq!(
            count.load(Ordering::Relaxed),
            1,
            "the new listener was removed with the old one"
        );
        listeners.lock().clear();
    }
}
