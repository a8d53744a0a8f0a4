//! The place of a thread: its innermost function, and the innermost function of the program itself.
//!
//! Used by `reading`. A thread that waits is in a function of the C library; the caller of interest
//! is in the program.

use std::collections::HashMap;

use profiler_json::WaitLabel;
use profiler_reader::{Function, NodeId, Tables};

/// The name of a place without a stack.
const NO_STACK: &str = "(no stack)";
/// The beginnings of the file names of libraries that belong to the system.
const SYSTEM_LIBRARIES: [&str; 9] = [
    "libc.so",
    "libc-",
    "libc.musl",
    "libpthread",
    "librt.so",
    "ld-",
    "linux-vdso",
    "[vdso]",
    "libgcc_s",
];
/// The beginnings of names of functions in the standard libraries of languages.
const STANDARD_LIBRARIES: [&str; 8] = [
    "std::", "core::", "alloc::", "<std::", "<core::", "<alloc::", "<&", "__",
];

/// The number of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameId(u32);

/// The number of a label of waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LabelId(u32);

/// The facts about a stack that the analyses need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackPlace {
    /// The innermost function.
    pub innermost: NameId,
    /// The innermost function of the program.
    pub of_program: NameId,
    /// For whom the thread waits, if it is known.
    pub label: Option<LabelId>,
}

/// The names and labels of a profile.
#[derive(Debug, Default)]
pub struct Places {
    names: Vec<String>,
    known_names: HashMap<String, NameId>,
    labels: Vec<WaitLabel>,
    known_labels: HashMap<WaitLabel, LabelId>,
}

impl Places {
    /// The text of a name.
    #[must_use]
    pub fn name(&self, id: NameId) -> &str {
        self.names.get(id.0 as usize).map_or("", String::as_str)
    }

    /// The label with this number.
    #[must_use]
    pub fn label(&self, id: LabelId) -> Option<&WaitLabel> {
        self.labels.get(id.0 as usize)
    }

    /// The place of a stack. `None` is a sample without a stack.
    pub(crate) fn of(&mut self, tables: &Tables, node: Option<NodeId>) -> StackPlace {
        let mut label = None;
        let mut innermost = None;
        let mut of_program = None;
        for func in node.into_iter().flat_map(|node| tables.functions(node)) {
            let Some(function) = tables.function(func) else {
                continue;
            };
            if innermost.is_none()
                && label.is_none()
                && let Some(found) = WaitLabel::of(function.name)
            {
                label = Some(self.label_id(found));
                continue;
            }
            innermost.get_or_insert(func);
            if !is_of_system(&function) {
                of_program = Some(func);
                break;
            }
        }
        let mut name = |func| {
            let function = tables.function(func);
            self.name_id(function.map_or(NO_STACK, |function| function.name))
        };
        let innermost_name = innermost.map(&mut name);
        let of_program = of_program.map(name).or(innermost_name);
        let no_stack = || self.name_id(NO_STACK);
        let innermost = innermost_name.unwrap_or_else(no_stack);
        StackPlace {
            innermost,
            of_program: of_program.unwrap_or(innermost),
            label,
        }
    }

    pub(crate) fn name_id(&mut self, name: &str) -> NameId {
        if let Some(known) = self.known_names.get(name) {
            return *known;
        }
        let id = NameId(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        self.names.push(name.to_owned());
        self.known_names.insert(name.to_owned(), id);
        id
    }

    pub(crate) fn label_id(&mut self, label: WaitLabel) -> LabelId {
        if let Some(known) = self.known_labels.get(&label) {
            return *known;
        }
        let id = LabelId(u32::try_from(self.labels.len()).unwrap_or(u32::MAX));
        self.labels.push(label.clone());
        self.known_labels.insert(label, id);
        id
    }
}

/// Whether a function belongs to the C library, the loader, the kernel or the standard library of a
/// language.
fn is_of_system(function: &Function<'_>) -> bool {
    let library = function.library.unwrap_or_default();
    let file = library.rsplit('/').next().unwrap_or(library);
    let begins = |beginnings: &[&str], text: &str| beginnings.iter().any(|at| text.starts_with(at));
    begins(&SYSTEM_LIBRARIES, file) || begins(&STANDARD_LIBRARIES, function.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function<'t>(name: &'t str, library: Option<&'t str>) -> Function<'t> {
        Function {
            name,
            library,
            ..Function::default()
        }
    }

    #[test]
    fn functions_of_the_system_are_told_from_those_of_the_program() {
        for (name, library) in [
            ("read", Some("libc.so.6")),
            ("read", Some("/usr/lib/x86_64-linux-gnu/libc-2.31.so")),
            ("__vdso_clock_gettime", Some("linux-vdso.so.1")),
            ("std::io::Read::read", Some("worker")),
            ("<std::fs::File as std::io::Read>::read", None),
        ] {
            assert!(is_of_system(&function(name, library)), "{name}");
        }
        for (name, library) in [
            ("main", Some("worker")),
            ("curl_easy_perform", Some("libcurl.so.4")),
            ("standard", None),
        ] {
            assert!(!is_of_system(&function(name, library)), "{name}");
        }
    }
}
