//! Macros that put `libprofiler_agent.so` and the files for C into a program.
//!
//! Used by `profiler-cli`. Cargo has no stable way to name the shared library of a dependency. But
//! it tells the compiler where the dependency's rlib is, and the compiler has made both with one
//! call, side by side, before it compiles a program that depends on them. So [`library!`] looks for
//! the rlib in the compiler's arguments. `cargo check` makes neither: there, and if the arguments
//! cannot be read, the macro stands for no bytes, and the command says that it does not contain the
//! library.

use std::path::{Path, PathBuf};

use proc_macro::TokenStream;

/// The name of the dependency in the compiler's arguments.
const DEPENDENCY: &str = "profiler_agent=";

/// The bytes of the shared library of `profiler-agent`, as `&'static [u8]`; empty if it was not
/// built. The program must depend on `profiler-agent`.
#[proc_macro]
pub fn library(_: TokenStream) -> TokenStream {
    let found = library_in(std::env::args());
    let code = found
        .filter(|path| path.exists())
        .and_then(|path| {
            path.to_str()
                .map(|path| format!("include_bytes!({path:?})"))
        })
        .unwrap_or_else(|| "&[]".to_owned());
    code.parse().unwrap_or_default()
}

/// The text of `profiler.h`, as `&'static str`.
#[proc_macro]
pub fn header(_: TokenStream) -> TokenStream {
    literal(include_str!("../profiler.h"))
}

/// The text of `profiler-agent.pc.in`, as `&'static str`.
#[proc_macro]
pub fn pkg_config(_: TokenStream) -> TokenStream {
    literal(include_str!("../profiler-agent.pc.in"))
}

fn literal(text: &str) -> TokenStream {
    proc_macro::TokenTree::from(proc_macro::Literal::string(text)).into()
}

/// The shared library beside the rlib that the arguments name.
fn library_in(arguments: impl Iterator<Item = String>) -> Option<PathBuf> {
    let named = arguments.filter_map(|argument| {
        let (before, path) = argument.split_once(DEPENDENCY)?;
        // Before the name there may be options, such as `priv:`.
        let is_whole_name = before.is_empty() || before.ends_with([':', ',', '=']);
        is_whole_name.then(|| PathBuf::from(path))
    });
    let is_rlib = |path: &PathBuf| path.extension().is_some_and(|end| end == "rlib");
    named.filter(is_rlib).last().map(|path| beside(&path))
}

fn beside(rlib: &Path) -> PathBuf {
    rlib.with_extension("so")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library_of(arguments: &[&str]) -> Option<PathBuf> {
        library_in(arguments.iter().map(|argument| (*argument).to_owned()))
    }

    #[test]
    fn the_library_is_beside_the_rlib() {
        let rlib = "profiler_agent=/t/deps/libprofiler_agent-0123.rlib";
        let so = Some(PathBuf::from("/t/deps/libprofiler_agent-0123.so"));
        assert_eq!(library_of(&["rustc", "--extern", rlib]), so);
        assert_eq!(library_of(&["--extern", &format!("priv:{rlib}")]), so);
        assert_eq!(library_of(&[&format!("--extern={rlib}")]), so);
    }

    #[test]
    fn a_check_has_no_library() {
        let metadata = "profiler_agent=/t/deps/libprofiler_agent-0123.rmeta";
        assert_eq!(library_of(&["rustc", "--extern", metadata]), None);
        let other = "my_profiler_agent=/t/deps/libmy_profiler_agent.rlib";
        assert_eq!(library_of(&["rustc", "--extern", other]), None);
        assert_eq!(library_of(&["rustc"]), None);
    }
}
