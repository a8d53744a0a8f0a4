//! Functions of the C library that this library replaces, because they concern all threads of a
//! process: the profiler's threads must not change what they do.
//!
//! The program calls them; each calls the function that it replaces, which [`find_originals`] has
//! looked up when the library was loaded. Before the call, the profiler leaves the process if it
//! would be in the way ([`leaving`], [`rights`]):
//!
//! - A change of the user or of the groups. The C library makes the system call on every thread,
//!   and aborts the program if the results differ. They differ if the calling thread has other
//!   rights than the profiler's threads.
//! - `unshare` and `setns`, if they are allowed to processes with one thread only.
//!
//! Invariants: without threads of the profiler, a call costs one load more, or one system call in a
//! forked child; `errno` is that of the replaced function; a call that the profiler does not leave
//! for takes no lock and allocates nothing, since a signal handler may make it. A call before the
//! library is initialised, by another library, looks its function up.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{gid_t, size_t, uid_t};

use crate::errno::{keeping_errno, set_errno};
use crate::{forks, leaving, presence, rights};

/// The flags of `unshare` that need a process with one thread.
const UNSHARED_ALONE: c_int =
    libc::CLONE_NEWUSER | libc::CLONE_THREAD | libc::CLONE_SIGHAND | libc::CLONE_VM;
/// The kinds of namespaces that only a process with one thread enters: those of users and of time,
/// and those of mounts, which need a file system state that no other thread shares.
const ENTERED_ALONE: c_int = libc::CLONE_NEWUSER | libc::CLONE_NEWNS | CLONE_NEWTIME;
const CLONE_NEWTIME: c_int = 0x80;
/// The request for the kind of the namespace that a descriptor refers to.
const NS_GET_NSTYPE: libc::Ioctl = 0xb703;

/// A function that this library replaces.
#[derive(Debug)]
struct Original {
    name: &'static CStr,
    /// Its address; null until it is looked up.
    address: AtomicPtr<c_void>,
}

impl Original {
    const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            address: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The address. `None`, with an error for the caller, if no library has the function.
    fn get(&self) -> Option<*mut c_void> {
        let mut address = self.address.load(Ordering::Relaxed);
        if address.is_null() {
            // SAFETY: the name ends with a zero.
            address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            self.address.store(address, Ordering::Relaxed);
        }
        if address.is_null() {
            set_errno(libc::ENOSYS);
            return None;
        }
        Some(address)
    }
}

/// Looks all replaced functions up. Called when the library is loaded.
pub(crate) fn find_originals() {
    for original in ALL {
        if original.get().is_none() {
            // SAFETY: takes the message of a failed look-up, which the program would read as its
            // own.
            let _ = unsafe { libc::dlerror() };
        }
    }
}

/// Defines functions with the type and the name of those that they replace. `around` calls the
/// replaced one.
macro_rules! replaced {
    ($($original:ident: fn $name:ident($($argument:ident: $kind:ty),*) = $around:expr;)*) => {
        /// All replaced functions.
        static ALL: [&Original; [$(stringify!($name)),*].len()] = [$(&$original),*];
        $(
            static $original: Original = {
                const NAME: &[u8] = concat!(stringify!($name), "\0").as_bytes();
                match CStr::from_bytes_with_nul(NAME) {
                    Ok(name) => Original::new(name),
                    Err(_) => Original::new(c""),
                }
            };

            /// Replaces the function of the C library with this name.
            ///
            /// # Safety
            /// As for the replaced function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                type Function = unsafe extern "C" fn($($kind),*) -> c_int;
                let Some(address) = $original.get() else {
                    return -1;
                };
                // SAFETY: the C library's function of this name has this type.
                let original = unsafe { transmute::<*mut c_void, Function>(address) };
                // SAFETY: the caller's promise for the function that it wanted to call.
                let call = || unsafe { original($($argument),*) };
                let around: fn($($kind,)* &dyn Fn() -> c_int) -> c_int = $around;
                around($($argument,)* &call)
            }
        )*
    };
}

replaced! {
    SETUID: fn setuid(user: uid_t) = |_, call| change_rights(call);
    SETGID: fn setgid(group: gid_t) = |_, call| change_rights(call);
    SETEUID: fn seteuid(user: uid_t) = |_, call| change_rights(call);
    SETEGID: fn setegid(group: gid_t) = |_, call| change_rights(call);
    SETREUID: fn setreuid(real: uid_t, user: uid_t) = |_, _, call| change_rights(call);
    SETREGID: fn setregid(real: gid_t, group: gid_t) = |_, _, call| change_rights(call);
    SETRESUID: fn setresuid(real: uid_t, user: uid_t, saved: uid_t) =
        |_, _, _, call| change_rights(call);
    SETRESGID: fn setresgid(real: gid_t, group: gid_t, saved: gid_t) =
        |_, _, _, call| change_rights(call);
    SETGROUPS: fn setgroups(count: size_t, groups: *const gid_t) = |_, _, call| change_rights(call);
    INITGROUPS: fn initgroups(user: *const c_char, group: gid_t) = |_, _, call| change_rights(call);
    UNSHARE: fn unshare(flags: c_int) = |flags, call| {
        change_namespaces(|| flags & UNSHARED_ALONE != 0, call)
    };
    SETNS: fn setns(namespace: c_int, kind: c_int) = |namespace, kind, call| {
        change_namespaces(|| kind_of(namespace, kind) & ENTERED_ALONE != 0, call)
    };
}

/// Changes the user or the groups of all threads by `call`.
fn change_rights(call: &dyn Fn() -> c_int) -> c_int {
    if !presence::is_here() {
        return call();
    }
    keeping_errno(|| {
        if rights::have_changed() {
            leaving::leave();
        }
    });
    let result = call();
    keeping_errno(|| {
        if presence::is_here() {
            rights::note(); // the call has changed those of the profiler's threads, too
        }
    });
    result
}

/// Changes namespaces by `call`, which the system may allow only to a process with one thread.
fn change_namespaces(needs_one_thread: impl Fn() -> bool, call: &dyn Fn() -> c_int) -> c_int {
    if presence::is_here() {
        keeping_errno(|| {
            if needs_one_thread() && forks::is_alone_but_for_us() {
                leaving::leave();
            }
        });
    }
    call()
}

/// The kinds of namespaces that `setns` is to enter. 0 allows any kind.
fn kind_of(namespace: c_int, kind: c_int) -> c_int {
    if kind != 0 {
        return kind;
    }
    // SAFETY: the request takes no further argument, and fails for other descriptors.
    let found = unsafe { libc::ioctl(namespace, NS_GET_NSTYPE) };
    found.max(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_replaced_function_is_found_behind_this_library() {
        find_originals();
        assert!(ALL.iter().all(|original| original.get().is_some()));
        let own = setuid as *const () as *const c_void;
        assert!(!ptr::eq(SETUID.get().unwrap(), own));
    }

    #[test]
    fn a_replaced_function_has_the_results_of_the_original() {
        // SAFETY: an invalid descriptor, and no group; neither changes anything.
        assert_eq!(unsafe { setns(-1, 0) }, -1);
        let error = std::io::Error::last_os_error();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
        // SAFETY: keeps all users as they are.
        assert_eq!(unsafe { setresuid(u32::MAX, u32::MAX, u32::MAX) }, 0);
    }

    #[test]
    fn the_kind_of_a_namespace_is_asked_for_if_it_is_not_given() {
        use std::os::fd::AsRawFd;
        let file = std::fs::File::open("/proc/self/ns/user").unwrap();
        assert_eq!(kind_of(file.as_raw_fd(), 0), libc::CLONE_NEWUSER);
        assert_eq!(kind_of(-1, libc::CLONE_NEWNS), libc::CLONE_NEWNS);
        assert_eq!(kind_of(-1, 0), 0);
    }
}
