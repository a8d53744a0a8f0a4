//! `#[label::function]` opens a label for a whole function. Use it through `profiler-core`.
//!
//! The function is not parsed: its name follows the first `fn` outside all brackets, and its body
//! is the last group in braces. This needs no dependency, so an application that embeds the
//! profiler does not build a parser of Rust. Invariant: the output is the input with one more
//! statement at the start of the body.

use proc_macro::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};

/// Opens a label for a whole function. See `profiler_core::label`.
#[proc_macro_attribute]
pub fn function(arguments: TokenStream, item: TokenStream) -> TokenStream {
    label(arguments, item, "::profiler_core")
}

/// The same for a crate that depends on `profiler-child`.
#[proc_macro_attribute]
pub fn function_of_child(arguments: TokenStream, item: TokenStream) -> TokenStream {
    label(arguments, item, "::profiler_child::core")
}

/// The same for a crate that depends on `profiler-parent`.
#[proc_macro_attribute]
pub fn function_of_parent(arguments: TokenStream, item: TokenStream) -> TokenStream {
    label(arguments, item, "::profiler_parent::core")
}

/// `core` is the path of `profiler-core`, unless the arguments name another one.
fn label(arguments: TokenStream, item: TokenStream, core: &str) -> TokenStream {
    match expand(arguments, item.clone(), core) {
        Ok(expanded) => expanded,
        // The item stays as it is, so that its users cause no further errors.
        Err(error) => error.into_iter().chain(item).collect(),
    }
}

fn expand(
    arguments: TokenStream,
    item: TokenStream,
    core: &str,
) -> Result<TokenStream, TokenStream> {
    let (core, category) = read_arguments(arguments, core);
    let mut item: Vec<TokenTree> = item.into_iter().collect();
    let name = function_name(&item)?.clone();
    let span = name.span();
    let body = match item.pop() {
        Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => body,
        _ => return Err(error(span, "a label needs a function with a body")),
    };
    let text = name.to_string();
    let text = text.strip_prefix("r#").unwrap_or(&text);
    let label = format!("::core::concat!(::core::module_path!(), \"::{text}\")");
    let opened = format!("let __profiler_label = {core}::label!({label} {category});");
    let mut inside: TokenStream = opened.parse().map_err(|_| {
        error(
            Span::call_site(),
            "not a category: expected `&SOME_CATEGORY`",
        )
    })?;
    inside.extend(body.stream());
    let mut block = Group::new(Delimiter::Brace, inside);
    block.set_span(body.span());
    item.push(TokenTree::Group(block));
    Ok(item.into_iter().collect())
}

/// Returns the path of `profiler-core`, and the category with a comma before it.
fn read_arguments(arguments: TokenStream, core: &str) -> (String, String) {
    let mut tokens = arguments.into_iter().peekable();
    let mut core = core.to_owned();
    if tokens.next_if(|token| is_word(token, "crate")).is_some() {
        let equals = tokens
            .next_if(|token| matches!(token, TokenTree::Punct(sign) if sign.as_char() == '='));
        let is_comma =
            |token: &TokenTree| matches!(token, TokenTree::Punct(sign) if sign.as_char() == ',');
        let path: TokenStream =
            std::iter::from_fn(|| tokens.next_if(|token| !is_comma(token))).collect();
        tokens.next();
        // `crate` without `=` begins a path in the crate that uses the attribute.
        core = if equals.is_some() {
            path.to_string()
        } else {
            format!("crate{path}")
        };
    }
    let category = tokens.collect::<TokenStream>();
    let comma = if category.is_empty() {
        String::new()
    } else {
        format!(", {category}")
    };
    (core, comma)
}

fn function_name(item: &[TokenTree]) -> Result<&Ident, TokenStream> {
    let start = item.first().map_or_else(Span::call_site, TokenTree::span);
    let at = item.iter().position(|token| is_word(token, "fn"));
    let at = at.ok_or_else(|| error(start, "a label is for a function"))?;
    let qualifiers = item.get(..at).unwrap_or_default();
    if let Some(word) = qualifiers.iter().find(|token| is_word(token, "async")) {
        let why = "a label stays on its thread, and an async function does not: use `label!` between two awaits";
        return Err(error(word.span(), why));
    }
    if let Some(word) = qualifiers.iter().find(|token| is_word(token, "const")) {
        return Err(error(
            word.span(),
            "a label cannot be opened when the program is compiled",
        ));
    }
    match item.get(at + 1) {
        Some(TokenTree::Ident(name)) => Ok(name),
        _ => Err(error(start, "a label is for a function")),
    }
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident.to_string() == word)
}

/// A compiler error at this place.
fn error(at: Span, text: &str) -> TokenStream {
    let tokens: TokenStream = format!("::core::compile_error!({text:?});")
        .parse()
        .unwrap_or_default();
    tokens
        .into_iter()
        .map(|mut token| {
            token.set_span(at);
            token
        })
        .collect()
}
