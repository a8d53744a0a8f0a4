//! The place of a thread: its innermost function, and the innermost function of the program itself.
//!
//! Used by `reading`. A thread that waits is in a function of the C library; the caller of interest
//! is in the program.

use std::collections::HashMap;

use profiler_json::WaitLabel;
use profiler_reader::{FuncId, Function, NodeId, Tables};

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

    /// The place of a stack. `None` is a sample without a stack. `programs` is what
    /// [`functions_of_program`] has found in the tables.
    pub(crate) fn of(
        &mut self,
        tables: &Tables,
        programs: &[Option<FuncId>],
        node: Option<NodeId>,
    ) -> StackPlace {
        let mut nodes = node.into_iter().flat_map(|node| tables.named_nodes(node));
        let mut first = nodes.next();
        let named = first.and_then(|(_, func)| tables.function(func));
        let label = named.and_then(|function| WaitLabel::of(function.name));
        if label.is_some() {
            first = nodes.next();
        }
        let label = label.map(|label| self.label_id(label));
        let innermost = first.map(|(_, func)| func);
        let of_program = first.and_then(|(node, _)| *programs.get(node.0 as usize)?);
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

/// The innermost function of the program on each stack, in the order of the stacks. Determined once
/// for all samples, because the search on a deep stack without such a function takes long.
pub(crate) fn functions_of_program(tables: &Tables) -> Vec<Option<FuncId>> {
    let mut found: Vec<Option<FuncId>> = Vec::with_capacity(tables.node_count());
    for node in &tables.nodes {
        let own = tables.frame(node.frame).map(|frame| frame.func);
        let own = own.filter(|func| {
            let function = tables.function(*func);
            function.is_some_and(|function| !is_of_system(&function))
        });
        // A caller comes before its callees.
        let of_caller = || *found.get(node.caller?.0 as usize)?;
        let of_program = own.or_else(of_caller);
        found.push(of_program);
    }
    found
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
