//! The stacks of a profile in the processed format, as functions with names, files and lines.
//!
//! Used by the tests of generated code.

use std::path::Path;

use anyhow::Context;
use serde_json::Value;

/// A function on a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFunction {
    /// Its name.
    pub name: String,
    /// Its source; empty if it has none.
    pub file: String,
    /// Its first line, if the profile contains it.
    pub line: Option<u64>,
}

/// All stacks of a profile, each with the outermost function first.
#[derive(Debug)]
pub struct NamedStacks(Vec<Vec<NamedFunction>>);

impl NamedStacks {
    /// Reads a profile that is not compressed.
    ///
    /// # Errors
    /// When the file is not a profile in the processed format.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let profile: Value = serde_json::from_slice(&std::fs::read(path)?)?;
        Self::of(&profile).context("a table is missing or damaged")
    }

    fn of(profile: &Value) -> Option<Self> {
        let shared = &profile["shared"];
        let column = |table: &str, name: &str| shared[table][name].as_array();
        let strings = shared["stringArray"].as_array()?;
        let text = |at: &Value| Some(strings.get(index(at)?)?.as_str()?.to_owned());
        let filenames = column("sources", "filename")?;
        let lines = column("funcTable", "lineNumber")?;
        let names = column("funcTable", "name")?;
        let sources = column("funcTable", "source")?;
        let function = |((name, source), line): ((&Value, &Value), &Value)| {
            let file = index(source).and_then(|source| text(filenames.get(source)?));
            Some(NamedFunction {
                name: text(name)?,
                file: file.unwrap_or_default(),
                line: line.as_u64(),
            })
        };
        let functions = names.iter().zip(sources).zip(lines).map(function);
        let functions: Vec<NamedFunction> = functions.collect::<Option<_>>()?;
        let of_frames = column("frameTable", "func")?;
        let frames = column("stackTable", "frame")?;
        let mut stacks: Vec<Vec<NamedFunction>> = Vec::new();
        for (frame, caller) in frames.iter().zip(column("stackTable", "prefix")?) {
            let callers = index(caller).and_then(|caller| stacks.get(caller).cloned());
            let mut stack = callers.unwrap_or_default();
            let function = functions.get(index(of_frames.get(index(frame)?)?)?)?;
            stack.push(function.clone());
            stacks.push(stack);
        }
        Some(Self(stacks))
    }

    /// The first function with this name.
    pub fn function(&self, name: &str) -> Option<&NamedFunction> {
        let mut innermost = self.0.iter().filter_map(|stack| stack.last());
        innermost.find(|function| function.name == name)
    }

    /// Whether a stack has functions with these names, in this order, the outermost first. Other
    /// functions may be between them, and the names may have a path of Rust before them.
    pub fn has_in_order(&self, names: &[&str]) -> bool {
        self.0.iter().any(|stack| {
            let mut rest = stack.iter();
            names
                .iter()
                .all(|name| rest.any(|function| is_named(function, name)))
        })
    }

    /// Whether a stack has code that is in no file and has no name: it is shown as a number.
    pub fn has_nameless_code(&self) -> bool {
        let mut functions = self.0.iter().flatten();
        functions.any(|function| function.name.starts_with("0x"))
    }
}

fn is_named(function: &NamedFunction, name: &str) -> bool {
    let path = function.name.strip_suffix(name);
    path.is_some_and(|path| path.is_empty() || path.ends_with("::"))
}

fn index(value: &Value) -> Option<usize> {
    usize::try_from(value.as_u64()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn stacks_have_the_functions_of_their_frames() {
        let profile = json!({"shared": {
            "stringArray": ["a::main", "f", "/a.js"],
            "sources": {"filename": [2]},
            "funcTable": {"name": [0, 1], "source": [null, 0], "lineNumber": [null, 7]},
            "frameTable": {"func": [1, 0]},
            "stackTable": {"frame": [1, 0], "prefix": [null, 0]},
        }});
        let stacks = NamedStacks::of(&profile).unwrap();
        let f = stacks.function("f").unwrap();
        assert_eq!((f.file.as_str(), f.line), ("/a.js", Some(7)));
        assert!(stacks.has_in_order(&["main", "f"]) && stacks.has_in_order(&["f"]));
        assert!(!stacks.has_in_order(&["f", "main"]) && !stacks.has_in_order(&["ain"]));
        assert!(!stacks.has_nameless_code());
    }
}
