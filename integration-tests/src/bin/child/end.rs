//! Ends of all kinds.

use crate::{Words, number};

pub(crate) fn obey(name: &str, words: Words<'_>) -> Option<anyhow::Result<String>> {
    let code = || number(words, 0).ok().and_then(|code| i32::try_from(code).ok()).unwrap_or(0);
    Some(match name {
        "exit" => std::process::exit(code()),
        "quit" => quit(code()),
        "abort" => std::process::abort(),
        "kill" => kill(),
        "segv" => {
            // SAFETY: the system's own handling, instead of the runtime's, which would return.
            #[allow(unsafe_code)]
            unsafe {
                libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            }
            raise(libc::SIGSEGV)
        }
        "stop" => raise(libc::SIGSTOP),
        "shutdown" => {
            profiler_child::shutdown();
            Ok("ok".to_owned())
        }
        _ => return None,
    })
}

/// Ends without any handler of the C library.
fn quit(code: i32) -> ! {
    // SAFETY: ends the process; nothing of it is used afterwards.
    #[allow(unsafe_code)]
    unsafe {
        libc::_exit(code)
    }
}

/// Ends as by the system's own hand.
pub(crate) fn kill() -> anyhow::Result<String> {
    raise(libc::SIGKILL)
}

fn raise(signal: i32) -> anyhow::Result<String> {
    // SAFETY: sends a signal to this process, whose handlers are the system's own.
    #[allow(unsafe_code)]
    unsafe {
        libc::raise(signal)
    };
    Ok("ok".to_owned())
}
