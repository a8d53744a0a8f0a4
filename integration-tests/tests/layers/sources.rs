//! Reads the modules of a crate and collects the paths that begin at its root. Used by `layers`.
//!
//! It begins with the root file, `src/lib.rs` or `src/main.rs`, and follows each `mod name;` under
//! any `cfg`, except code that exists only for tests. It reads tokens instead of syntax, so that
//! paths in macros count, too: `crate::name`, `$crate::name`, and as many `super::` as lead to the
//! root.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Ident, TokenStream, TokenTree};

use super::tokens::{
    after_colons, after_item, is_call_of_macro, is_for_tests, is_sign, leaves, words,
};

/// A path from a top-level module to a name at the root of its crate.
#[derive(Debug)]
pub(crate) struct Import {
    /// The path of the file, relative to the workspace.
    pub(crate) file: String,
    pub(crate) line: usize,
    /// The top-level module that contains the path.
    pub(crate) module: String,
    /// The first name of the path after `crate`.
    pub(crate) name: String,
    is_macro: bool,
}

/// Where an import leads.
#[derive(Debug)]
pub(crate) enum Target<'a> {
    Module(&'a str),
    /// A name of another crate.
    Outside,
    /// The root file neither declares a module of this name nor imports the name.
    Unknown,
}

/// The top-level modules of a crate and their imports.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub(crate) modules: BTreeSet<String>,
    pub(crate) imports: Vec<Import>,
    /// The names that the root file imports or exports, with the first name of each path.
    root_names: BTreeMap<String, String>,
    /// Exported macros and the top-level modules that define them.
    macros: BTreeMap<String, String>,
}

/// The module that is read at the moment.
#[derive(Clone)]
struct CurrentModule<'a> {
    workspace: &'a Path,
    file: PathBuf,
    /// The directory of its submodules.
    directory: PathBuf,
    /// Its path from the root of the crate.
    path: Vec<String>,
}

/// The attributes before an item.
#[derive(Default)]
struct Attributes {
    /// The value of `#[path]`: the file of a module.
    path: Option<String>,
    /// Whether a macro is exported at the root of the crate.
    is_exported: bool,
}

impl Attributes {
    /// Adds an attribute. Returns false, and clears the attributes, if the item exists only for
    /// tests.
    fn add(&mut self, attribute: TokenStream) -> bool {
        let is_for_tests = is_for_tests(attribute.clone());
        match words(attribute).as_slice() {
            _ if is_for_tests => *self = Self::default(),
            [name] if name == "macro_export" => self.is_exported = true,
            [name, value] if name == "path" => self.path = Some(value.trim_matches('"').to_owned()),
            _ => {}
        }
        !is_for_tests
    }

    fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}

impl Sources {
    /// Reads the crate in the directory `name`: its library or, without one, its program. `None` if
    /// it has neither.
    pub(crate) fn read(workspace: &Path, name: &str) -> Option<Self> {
        let directory = workspace.join(name).join("src");
        let mut files = ["lib.rs", "main.rs"]
            .map(|file| directory.join(file))
            .into_iter();
        let file = files.find(|file| file.exists())?;
        let root = CurrentModule {
            workspace,
            file,
            directory,
            path: Vec::new(),
        };
        let mut sources = Self::default();
        sources.read_file(&root);
        Some(sources)
    }

    /// Where an import leads.
    pub(crate) fn target(&self, import: &Import) -> Target<'_> {
        let name = &import.name;
        if import.is_macro {
            return self
                .macros
                .get(name)
                .map_or(Target::Outside, |module| Target::Module(module));
        }
        if let Some(module) = self.modules.get(name) {
            return Target::Module(module);
        }
        match self.root_names.get(name) {
            Some(first) => self
                .modules
                .get(first)
                .map_or(Target::Outside, |module| Target::Module(module)),
            None => Target::Unknown,
        }
    }

    fn read_file(&mut self, module: &CurrentModule<'_>) {
        let text = fs::read_to_string(&module.file);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", module.file.display()));
        let tokens: TokenStream = text
            .parse()
            .unwrap_or_else(|error| panic!("{}: {error}", module.file.display()));
        self.scan(tokens, module);
    }

    fn scan(&mut self, tokens: TokenStream, module: &CurrentModule<'_>) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut rest = tokens.as_slice();
        let mut attributes = Attributes::default();
        while let [first, after @ ..] = rest {
            rest = match (first, after) {
                (TokenTree::Punct(sign), [TokenTree::Group(attribute), item @ ..])
                    if sign.as_char() == '#' =>
                {
                    if attributes.add(attribute.stream()) {
                        after
                    } else {
                        after_item(item)
                    }
                }
                (TokenTree::Ident(word), [TokenTree::Ident(name), body, item @ ..])
                    if word == "mod" =>
                {
                    self.enter(module, &name.to_string(), body, attributes.take().path);
                    item
                }
                (TokenTree::Ident(word), [_, TokenTree::Ident(name), ..])
                    if word == "macro_rules" =>
                {
                    let top_level = module
                        .path
                        .first()
                        .filter(|_| attributes.take().is_exported);
                    self.macros
                        .extend(top_level.map(|top_level| (name.to_string(), top_level.clone())));
                    after
                }
                (TokenTree::Ident(word), _) if word == "use" && module.path.is_empty() => {
                    let end = after
                        .iter()
                        .position(|token| is_sign(token, ';'))
                        .unwrap_or(after.len());
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
    fn enter(
        &mut self,
        module: &CurrentModule<'_>,
        name: &str,
        body: &TokenTree,
        path: Option<String>,
    ) {
        if module.path.is_empty() {
            self.modules.insert(name.to_owned());
        }
        let mut inner = module.clone();
        inner.path.push(name.to_owned());
        inner.directory = module.directory.join(name);
        if let TokenTree::Group(body) = body {
            return self.scan(body.stream(), &inner);
        }
        if let Some(path) = path {
            inner.file = module.file.with_file_name(path);
            inner.directory = inner.file.with_file_name("");
        } else {
            let file = module.directory.join(format!("{name}.rs"));
            inner.file = if file.exists() {
                file
            } else {
                inner.directory.join("mod.rs")
            };
        }
        self.read_file(&inner);
    }

    /// Adds the path that begins with `word` if it leads to the root or names a macro. Returns the
    /// tokens that follow.
    fn take_path<'a>(
        &mut self,
        word: &Ident,
        after: &'a [TokenTree],
        module: &CurrentModule<'_>,
    ) -> &'a [TokenTree] {
        let mut rest = after;
        let mut ups = 1;
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
                    self.add(&TokenTree::Ident(word.clone()), after, module);
                }
                return after;
            }
        };
        match after_colons(rest).filter(|_| is_root) {
            Some([TokenTree::Group(names), further @ ..]) => {
                let names: Vec<TokenTree> = names.stream().into_iter().collect();
                for part in names.split(|token| is_sign(token, ',')) {
                    if let [name, further @ ..] = part {
                        self.add(name, further, module);
                    }
                }
                further
            }
            Some([name, further @ ..]) => {
                self.add(name, further, module);
                further
            }
            _ => rest,
        }
    }
}

impl Sources {
    /// Adds an import of `name`. `after` are the tokens that follow.
    fn add(&mut self, name: &TokenTree, after: &[TokenTree], module: &CurrentModule<'_>) {
        let Some(top_level) = module.path.first() else {
            return;
        };
        let file = module
            .file
            .strip_prefix(module.workspace)
            .unwrap_or(&module.file);
        self.imports.push(Import {
            file: file.display().to_string(),
            line: name.span().start().line,
            module: top_level.clone(),
            name: name.to_string(),
            is_macro: is_call_of_macro(after),
        });
    }

    /// Adds the names of a `use` in the root file, given without the keyword and the semicolon.
    fn learn_root_names(&mut self, tokens: &[TokenTree]) {
        let is_prefix = |word: &String| word == "crate" || word == "self";
        let Some(first) = words(tokens.iter().cloned().collect())
            .into_iter()
            .find(|word| !is_prefix(word))
        else {
            return;
        };
        for name in leaves(tokens) {
            self.root_names.insert(name, first.clone());
        }
    }
}
