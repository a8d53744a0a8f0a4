//! Reads the modules of a crate and collects the paths that begin at its root.
//!
//! It begins with `src/lib.rs` and follows `mod name;`, whatever a module's `cfg` says. It does not
//! follow or read what is only there for tests. Tokens are read, not syntax, so that paths in macros
//! count as well: `crate::name`, `$crate::name`, and as many `super::` as lead to the root.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};

/// A path from a room to a name at the root of its crate.
#[derive(Debug)]
pub(crate) struct Import {
    /// Relative to the workspace.
    pub(crate) file: String,
    pub(crate) line: usize,
    /// The room that contains the path.
    pub(crate) room: String,
    /// The first name of the path after `crate`.
    pub(crate) name: String,
    is_macro: bool,
}

/// What is known of a crate.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// The top-level modules.
    pub(crate) rooms: BTreeSet<String>,
    pub(crate) imports: Vec<Import>,
    /// Names that `lib.rs` imports or exports, with the first name of their paths.
    root_names: BTreeMap<String, String>,
    /// Exported macros and the rooms that define them.
    macros: BTreeMap<String, String>,
}

/// A module that is being read.
#[derive(Clone)]
struct Module<'a> {
    workspace: &'a Path,
    file: PathBuf,
    /// Where the files of its submodules are.
    directory: PathBuf,
    /// Its path from the root of the crate.
    path: Vec<String>,
}

impl Sources {
    /// Reads the library of the crate in the directory `name`.
    pub(crate) fn read(workspace: &Path, name: &str) -> Self {
        let directory = workspace.join(name).join("src");
        let root = Module { workspace, file: directory.join("lib.rs"), directory, path: Vec::new() };
        let mut sources = Self::default();
        sources.read_file(&root);
        sources
    }

    /// The room that an import leads to: `Some(None)` if it leads out of the crate, `None` if the
    /// name is not known.
    pub(crate) fn room_of(&self, import: &Import) -> Option<Option<&str>> {
        let name = import.name.as_str();
        if import.is_macro {
            return Some(self.macros.get(name).map(String::as_str));
        }
        if let Some(room) = self.rooms.get(name) {
            return Some(Some(room));
        }
        let first = self.root_names.get(name)?;
        Some(self.rooms.get(first).map(String::as_str))
    }

    fn read_file(&mut self, module: &Module<'_>) {
        let text = fs::read_to_string(&module.file);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", module.file.display()));
        let tokens: TokenStream =
            text.parse().unwrap_or_else(|error| panic!("{}: {error}", module.file.display()));
        self.scan(tokens, module);
    }

    fn scan(&mut self, tokens: TokenStream, module: &Module<'_>) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut rest = tokens.as_slice();
        let (mut path, mut is_exported) = (None, false);
        while let [first, after @ ..] = rest {
            rest = match (first, after) {
                (TokenTree::Punct(sign), [TokenTree::Group(attribute), item @ ..])
                    if sign.as_char() == '#' =>
                {
                    let words = words(attribute.stream());
                    is_exported |= words.first().is_some_and(|word| word == "macro_export");
                    if let [name, .., value] = words.as_slice()
                        && name == "path"
                    {
                        path = Some(value.trim_matches('"').to_owned());
                    }
                    if is_for_tests(attribute.stream()) {
                        (path, is_exported) = (None, false);
                        after_item(item)
                    } else {
                        after
                    }
                }
                (TokenTree::Ident(word), [TokenTree::Ident(name), body, item @ ..]) if word == "mod" => {
                    self.enter(module, &name.to_string(), body, path.take());
                    item
                }
                (TokenTree::Ident(word), [_, TokenTree::Ident(name), ..]) if word == "macro_rules" => {
                    if std::mem::take(&mut is_exported) && !module.path.is_empty() {
                        self.macros.insert(name.to_string(), module.path[0].clone());
                    }
                    after
                }
                (TokenTree::Ident(word), _) if word == "use" && module.path.is_empty() => {
                    let end = after.iter().position(|token| is_sign(token, ';')).unwrap_or(after.len());
                    self.learn_root_names(&after[..end]);
                    &after[end..]
                }
                (TokenTree::Ident(word), _) => self.take_path(word, after, module),
                (TokenTree::Group(group), _) => {
                    self.scan(group.stream(), module);
                    after
                }
                _ => after,
            };
        }
    }

    /// Reads a submodule: `body` is its content or a semicolon.
    fn enter(&mut self, module: &Module<'_>, name: &str, body: &TokenTree, path: Option<String>) {
        if module.path.is_empty() {
            self.rooms.insert(name.to_owned());
        }
        let mut inner = module.clone();
        inner.path.push(name.to_owned());
        inner.directory = module.directory.join(name);
        if let TokenTree::Group(body) = body {
            return self.scan(body.stream(), &inner);
        }
        inner.file = match path {
            Some(path) => module.file.with_file_name(path),
            None => Some(module.directory.join(format!("{name}.rs")))
                .filter(|file| file.exists())
                .unwrap_or_else(|| inner.directory.join("mod.rs")),
        };
        self.read_file(&inner);
    }

    /// Takes in the path that begins with `word`, if it leads to the root or is a macro's name.
    fn take_path<'a>(
        &mut self,
        word: &Ident,
        after: &'a [TokenTree],
        module: &Module<'_>,
    ) -> &'a [TokenTree] {
        let (mut rest, mut ups) = (after, 1);
        let is_root = match word.to_string().as_str() {
            "crate" => true,
            "super" => {
                while let Some([TokenTree::Ident(next), further @ ..]) = after_colons(rest)
                    && next == "super"
                {
                    (rest, ups) = (further, ups + 1);
                }
                ups == module.path.len()
            }
            _ => {
                if is_call_of_macro(after) {
                    self.add(word, after, module);
                }
                return after;
            }
        };
        match after_colons(rest).filter(|_| is_root) {
            Some([TokenTree::Ident(name), further @ ..]) => {
                self.add(name, further, module);
                further
            }
            Some([TokenTree::Group(names), further @ ..]) => {
                let names: Vec<TokenTree> = names.stream().into_iter().collect();
                for part in names.split(|token| is_sign(token, ',')) {
                    if let [TokenTree::Ident(name), further @ ..] = part {
                        self.add(name, further, module);
                    }
                }
                further
            }
            _ => rest,
        }
    }
}

impl Sources {
    fn add(&mut self, name: &Ident, after: &[TokenTree], module: &Module<'_>) {
        let Some(room) = module.path.first() else { return };
        let file = module.file.strip_prefix(module.workspace).unwrap_or(&module.file);
        self.imports.push(Import {
            file: file.display().to_string(),
            line: name.span().start().line,
            room: room.clone(),
            name: name.to_string(),
            is_macro: is_call_of_macro(after),
        });
    }

    /// Takes in a `use` of `lib.rs`, without the word and the semicolon.
    fn learn_root_names(&mut self, tokens: &[TokenTree]) {
        let is_prefix = |word: &String| word == "crate" || word == "self";
        let Some(first) = words(tokens.iter().cloned().collect()).into_iter().find(|word| !is_prefix(word))
        else {
            return;
        };
        for name in leaves(tokens) {
            self.root_names.insert(name, first.clone());
        }
    }
}

/// The names under which a `use` makes things known.
fn leaves(tokens: &[TokenTree]) -> Vec<String> {
    let part = |part: &[TokenTree]| match part.last() {
        Some(TokenTree::Group(group)) => leaves(&group.stream().into_iter().collect::<Vec<_>>()),
        Some(last) => vec![last.to_string()],
        None => Vec::new(),
    };
    tokens.split(|token| is_sign(token, ',')).flat_map(part).collect()
}

/// All words and literals, also those in groups.
fn words(tokens: TokenStream) -> Vec<String> {
    let word = |token| match token {
        TokenTree::Group(group) => words(group.stream()),
        TokenTree::Punct(_) => Vec::new(),
        word => vec![word.to_string()],
    };
    tokens.into_iter().flat_map(word).collect()
}

/// Whether an attribute is `cfg(test)` or `cfg(all(…, test, …))`.
fn is_for_tests(attribute: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = attribute.into_iter().collect();
    match tokens.as_slice() {
        [TokenTree::Ident(word), TokenTree::Group(predicate)] if word == "cfg" => {
            needs_test(predicate.stream())
        }
        _ => false,
    }
}

fn needs_test(predicate: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = predicate.into_iter().collect();
    tokens.split(|token| is_sign(token, ',')).any(|part| match part {
        [TokenTree::Ident(word)] => word == "test",
        [TokenTree::Ident(word), TokenTree::Group(all)] if word == "all" => needs_test(all.stream()),
        _ => false,
    })
}

/// What follows the item, statement or field that begins here.
fn after_item(tokens: &[TokenTree]) -> &[TokenTree] {
    let is_word = |token: &TokenTree, words: &[&str]| words.iter().any(|word| token.to_string() == *word);
    let first = tokens.iter().position(|token| {
        !is_sign(token, '#') && !matches!(token, TokenTree::Group(_)) && !is_word(token, &["pub"])
    });
    let begins_with = |words: &[&str]| first.is_some_and(|first| is_word(&tokens[first], words));
    let is_function =
        first.is_some_and(|first| tokens[first..].iter().take(3).any(|token| is_word(token, &["fn"])));
    let ends = |token: &TokenTree| {
        let has_body = is_function || !begins_with(&["use", "static", "const", "type", "let"]);
        let is_body = matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        let is_item =
            begins_with(&["fn", "struct", "enum", "union", "impl", "trait", "mod", "unsafe", "extern"]);
        let is_field = has_body && !is_item && !is_function && is_sign(token, ',');
        is_sign(token, ';') || has_body && is_body || is_field
    };
    let end = tokens.iter().position(ends).map_or(tokens.len(), |end| end + 1);
    &tokens[end..]
}

/// What follows a path separator.
fn after_colons(tokens: &[TokenTree]) -> Option<&[TokenTree]> {
    match tokens {
        [first, second, rest @ ..] if is_sign(first, ':') && is_sign(second, ':') => Some(rest),
        _ => None,
    }
}

fn is_call_of_macro(after: &[TokenTree]) -> bool {
    matches!(after, [sign, TokenTree::Group(_), ..] if is_sign(sign, '!'))
}

fn is_sign(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}
