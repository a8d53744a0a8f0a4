//! Splits a runtime's spelling of a function into its name, its file and its line.
//!
//! ```text
//! CPython   py::Shop.sell:/srv/shop.py                    Shop.sell, /srv/shop.py
//! V8        JS:*sell file:///srv/shop.mjs:10:3            sell, /srv/shop.mjs, 10
//! HotSpot   void shop.Till.sell(int)                      shop.Till.sell(int)
//! agents    Lshop/Till;::sell                             shop.Till.sell
//! ```
//!
//! Used by the look-up and shown in profiles. V8's sign of how the code was compiled (`~`, `^`,
//! `+`, `*`) and HotSpot's type of the result are left out, so a function is one function in a
//! flame graph however often it was compiled. Any other text is a name. Invariants: any text is
//! accepted; a name is never empty unless the text is.

use std::borrow::Cow;

/// What V8 writes before a function of a script.
const V8_KINDS: [&str; 5] = ["JS:", "LazyCompile:", "Function:", "Script:", "Eval:"];
/// How V8 compiled a function: interpreted, and three compilers.
const V8_TIERS: [char; 4] = ['~', '^', '+', '*'];
/// The beginnings of a script's location. Names and locations may contain spaces.
const LOCATIONS: [&str; 6] = ["/", "file:", "node:", "http:", "https:", "evalmachine."];
/// The name of a function without a name, as browsers show it.
const ANONYMOUS: &str = "(anonymous)";

/// A function that a runtime generated code for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeName<'n> {
    /// The name.
    pub function: Cow<'n, str>,
    /// The file of its source.
    pub file: Option<&'n str>,
    /// Its first line in the file, counted from 1.
    pub line: Option<u32>,
}

impl<'n> RuntimeName<'n> {
    /// Splits the text that a runtime wrote.
    pub fn parse(text: &'n str) -> Self {
        python(text)
            .or_else(|| v8(text))
            .or_else(|| agent(text))
            .unwrap_or_else(|| Self::plain(hotspot(text).unwrap_or(text)))
    }

    fn plain(function: impl Into<Cow<'n, str>>) -> Self {
        Self {
            function: function.into(),
            file: None,
            line: None,
        }
    }
}

/// `py::NAME:FILE`.
fn python(text: &str) -> Option<RuntimeName<'_>> {
    let rest = text.strip_prefix("py::")?;
    let (function, file) = rest.split_once(':').unwrap_or((rest, ""));
    (!function.is_empty()).then(|| RuntimeName {
        file: Some(file).filter(|file| !file.is_empty()),
        ..RuntimeName::plain(function)
    })
}

/// `JS:*NAME LOCATION:LINE:COLUMN`.
fn v8(text: &str) -> Option<RuntimeName<'_>> {
    let rest = V8_KINDS.iter().find_map(|kind| text.strip_prefix(kind))?;
    let rest = rest.strip_prefix(V8_TIERS).unwrap_or(rest);
    let Some((rest, line)) = position(rest) else {
        return (!rest.is_empty()).then(|| RuntimeName::plain(rest));
    };
    let spaces = || rest.match_indices(' ').map(|(at, _)| at);
    let is_location = |at: &usize| {
        let location = rest.get(at + 1..).unwrap_or_default();
        LOCATIONS.iter().any(|start| location.starts_with(start))
    };
    let at = spaces().find(is_location).or_else(|| spaces().next_back());
    let (name, file) = match at {
        Some(at) => (rest.get(..at)?, rest.get(at + 1..)?),
        None => (rest, ""),
    };
    let file = file.strip_prefix("file://").unwrap_or(file);
    let name = name.trim();
    Some(RuntimeName {
        file: Some(file).filter(|file| !file.is_empty()),
        line: Some(line).filter(|line| *line > 0),
        ..RuntimeName::plain(if name.is_empty() { ANONYMOUS } else { name })
    })
}

/// Removes `:LINE:COLUMN` from the end of a text; returns the rest and the line.
fn position(text: &str) -> Option<(&str, u32)> {
    let (rest, column) = text.rsplit_once(':')?;
    let (rest, line) = rest.rsplit_once(':')?;
    number(column)?;
    Some((rest, number(line)?))
}

fn number(digits: &str) -> Option<u32> {
    let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// `LPACKAGE/CLASS;::METHOD`, as agents write for Java.
fn agent(text: &str) -> Option<RuntimeName<'_>> {
    let (class, method) = text.strip_prefix('L')?.split_once(";::")?;
    let is_class = !class.is_empty() && !class.contains(' ') && !method.is_empty();
    is_class.then(|| RuntimeName::plain(format!("{}.{method}", class.replace('/', "."))))
}

/// `RESULT CLASS.METHOD(ARGUMENTS)` without the result.
fn hotspot(text: &str) -> Option<&str> {
    let text = text.strip_suffix(')').and(Some(text))?;
    let (head, _) = text.split_once('(')?;
    let (result, method) = head.split_once(' ')?;
    let is_method = method.contains('.') && !method.contains([' ', ':']);
    text.get(result.len() + 1..)
        .filter(|_| is_method && !result.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(text: &str) -> (String, Option<&str>, Option<u32>) {
        let RuntimeName {
            function,
            file,
            line,
        } = RuntimeName::parse(text);
        (function.into_owned(), file, line)
    }

    #[test]
    fn functions_of_python_have_their_files() {
        let name = |name: &str| name.to_owned();
        assert_eq!(
            split("py::Shop.sell:/srv/a b.py"),
            (name("Shop.sell"), Some("/srv/a b.py"), None)
        );
        assert_eq!(
            split("py::<module>:<frozen runpy>"),
            (name("<module>"), Some("<frozen runpy>"), None)
        );
        assert_eq!(split("py::f"), (name("f"), None, None));
        assert_eq!(split("py::f:"), (name("f"), None, None));
        assert_eq!(split("py::"), (name("py::"), None, None));
        assert_eq!(split("py:::/a.py"), (name("py:::/a.py"), None, None));
    }

    #[test]
    fn functions_of_javascript_have_their_files_and_lines() {
        for (text, function, file, line) in [
            ("JS:*hot /a.js:1:13", "hot", "/a.js", 1),
            ("JS:~hot /a dir/b.js:20:3", "hot", "/a dir/b.js", 20),
            ("JS:^get size file:///a.mjs:7:1", "get size", "/a.mjs", 7),
            ("JS:+ /a.js:1:1", "(anonymous)", "/a.js", 1),
            (
                "LazyCompile:*emit node:events:465:44",
                "emit",
                "node:events",
                465,
            ),
            (
                "Script:~ evalmachine.<anonymous>:1:1",
                "(anonymous)",
                "evalmachine.<anonymous>",
                1,
            ),
            ("Function:f repl:3:4", "f", "repl", 3),
            (
                "JS:*f https://a.example/b.js?c=d e:9:8",
                "f",
                "https://a.example/b.js?c=d e",
                9,
            ),
        ] {
            assert_eq!(
                split(text),
                (function.to_owned(), Some(file), Some(line)),
                "{text}"
            );
        }
        assert_eq!(split("JS:*f"), ("f".to_owned(), None, None));
        assert_eq!(split("JS:*f:1:2"), ("f".to_owned(), None, Some(1)));
        assert_eq!(split("JS:*f /a.js:1"), ("f /a.js:1".to_owned(), None, None));
        assert_eq!(
            split("JS:f /a.js:0:+1"),
            ("f /a.js:0:+1".to_owned(), None, None)
        );
        assert_eq!(split("JS:*"), ("JS:*".to_owned(), None, None));
        let too_large = "JS:*f /a.js:4294967296:1";
        assert_eq!(
            split(too_large),
            ("f /a.js:4294967296:1".to_owned(), None, None)
        );
    }

    #[test]
    fn methods_of_java_have_no_type_of_their_result() {
        for (text, shown) in [
            (
                "void shop.Till.sell(int, long[])",
                "shop.Till.sell(int, long[])",
            ),
            ("int Hot.hot(int)", "Hot.hot(int)"),
            ("java.lang.String shop.Till.<init>()", "shop.Till.<init>()"),
            (
                "int A$$Lambda$14/0x800c.apply()",
                "A$$Lambda$14/0x800c.apply()",
            ),
            ("Lshop/Till;::sell", "shop.Till.sell"),
            ("Interpreter", "Interpreter"),
            ("StubRoutines (1)", "StubRoutines (1)"),
            ("Ladder", "Ladder"),
        ] {
            assert_eq!(split(text), (shown.to_owned(), None, None), "{text}");
        }
    }

    #[test]
    fn other_names_stay_as_they_are() {
        for text in [
            "Builtin:ArrayForEach",
            "RegExp:a b (c)",
            "wasm[0]::function[7]",
            "TRACE_1::loop.lua:12",
            "void foo::bar(int)",
            "",
        ] {
            assert_eq!(split(text), (text.to_owned(), None, None));
        }
    }

    proptest! {
        #[test]
        fn any_text_has_a_name(text in "(py::|JS:|L)?[\\PC]{0,40}(;::|:1:2|\\))?[\\PC]{0,10}") {
            let name = RuntimeName::parse(&text);
            prop_assert_eq!(name.function.is_empty(), text.is_empty());
            prop_assert!(name.file != Some("") && name.line != Some(0));
        }
    }
}
