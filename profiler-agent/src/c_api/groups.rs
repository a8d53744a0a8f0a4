//! Performance groups for C: the time that a process spends for each plugin, tenant or part.

#![allow(unsafe_code)]

use std::ffi::c_char;

use profiler_core::groups::{Entered, Group, blocking};

use crate::handles::Handles;
use crate::{joining, text};

static GROUPS: Handles<Group> = Handles::new();

/// A group. C sees only pointers to it.
#[derive(Debug)]
#[allow(non_camel_case_types)] // its name in C
#[repr(C)]
pub struct mpprof_group {
    _private: [u8; 0],
}

/// What [`mpprof_group_leave`] needs to know. All zeros: nothing was entered.
#[derive(Clone, Copy, Debug, Default)]
#[allow(non_camel_case_types)] // its name in C
#[repr(C)]
pub struct mpprof_entered {
    words: [u64; 2],
}

impl From<Entered> for mpprof_entered {
    fn from(entered: Entered) -> Self {
        Self {
            words: entered.into_raw(),
        }
    }
}

/// Returns the group of this name, such as `plugin:spell checker`, and makes it if it is new. The
/// part before the colon is its kind, if it is the name of a kind. Null if `name` is null, or if
/// 4,096 groups exist.
///
/// # Safety
/// `name` is null or a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpprof_group_new(name: *const c_char) -> *const mpprof_group {
    joining::is_recording(); // what the group is used for is then recorded from the beginning
    // SAFETY: the caller's condition.
    let name = unsafe { text::name(name) };
    let group = name.and_then(|name| GROUPS.get_or_make(&name, Group::named));
    group.map_or(std::ptr::null(), |group| std::ptr::from_ref(group).cast())
}

/// The calling thread works for this group until it calls [`mpprof_group_leave`].
///
/// # Safety
/// `group` is null, or was returned by [`mpprof_group_new`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpprof_group_enter(group: *const mpprof_group) -> mpprof_entered {
    // SAFETY: the caller's condition.
    let group = unsafe { known(group) };
    group.map_or_else(mpprof_entered::default, |group| group.enter().into())
}

/// The calling thread waits for this group until it calls [`mpprof_group_leave`]: the time is
/// blocking time of all groups that it has entered.
///
/// # Safety
/// As [`mpprof_group_enter`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpprof_group_wait(group: *const mpprof_group) -> mpprof_entered {
    // SAFETY: the caller's condition.
    let group = unsafe { known(group) };
    group.map_or_else(mpprof_entered::default, |group| blocking(group).into())
}

/// Ends what [`mpprof_group_enter`] or [`mpprof_group_wait`] has begun, on the same thread.
#[unsafe(no_mangle)]
pub extern "C" fn mpprof_group_leave(entered: mpprof_entered) {
    drop(Entered::from_raw(entered.words));
}

/// # Safety
/// `group` is null, or was returned by [`mpprof_group_new`].
unsafe fn known(group: *const mpprof_group) -> Option<&'static Group> {
    // SAFETY: null, or a group that lives as long as the process.
    unsafe { group.cast::<Group>().as_ref() }
}
