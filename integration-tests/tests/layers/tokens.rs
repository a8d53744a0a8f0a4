//! Functions on Rust tokens. Used by `sources`.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The names that a `use` introduces.
pub(crate) fn leaves(tokens: &[TokenTree]) -> Vec<String> {
    let part = |part: &[TokenTree]| match part.last() {
        Some(TokenTree::Group(group)) => leaves(&group.stream().into_iter().collect::<Vec<_>>()),
        Some(last) => vec![last.to_string()],
        None => Vec::new(),
    };
    tokens
        .split(|token| is_sign(token, ','))
        .flat_map(part)
        .collect()
}

/// All words and literals, including those in groups.
pub(crate) fn words(tokens: TokenStream) -> Vec<String> {
    let word = |token| match token {
        TokenTree::Group(group) => words(group.stream()),
        TokenTree::Punct(_) => Vec::new(),
        word => vec![word.to_string()],
    };
    tokens.into_iter().flat_map(word).collect()
}

/// Whether an attribute is `cfg(test)`, `cfg(doctest)` or `cfg(all(…, test, …))`.
pub(crate) fn is_for_tests(attribute: TokenStream) -> bool {
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
    tokens
        .split(|token| is_sign(token, ','))
        .any(|part| match part {
            [TokenTree::Ident(word)] => word == "test" || word == "doctest",
            [TokenTree::Ident(word), TokenTree::Group(all)] if word == "all" => {
                needs_test(all.stream())
            }
            _ => false,
        })
}

/// The tokens after the item, statement or field that begins here.
pub(crate) fn after_item(tokens: &[TokenTree]) -> &[TokenTree] {
    let is_word =
        |token: &TokenTree, words: &[&str]| words.iter().any(|word| token.to_string() == *word);
    let first = tokens.iter().position(|token| {
        !is_sign(token, '#') && !matches!(token, TokenTree::Group(_)) && !is_word(token, &["pub"])
    });
    let begins_with = |words: &[&str]| first.is_some_and(|first| is_word(&tokens[first], words));
    let is_function = first.is_some_and(|first| {
        tokens[first..]
            .iter()
            .take(3)
            .any(|token| is_word(token, &["fn"]))
    });
    let ends = |token: &TokenTree| {
        let has_body = is_function || !begins_with(&["use", "static", "const", "type", "let"]);
        let is_body =
            matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        let is_item = begins_with(&[
            "fn", "struct", "enum", "union", "impl", "trait", "mod", "unsafe", "extern",
        ]);
        let is_field = has_body && !is_item && !is_function && is_sign(token, ',');
        is_sign(token, ';') || has_body && is_body || is_field
    };
    let end = tokens
        .iter()
        .position(ends)
        .map_or(tokens.len(), |end| end + 1);
    &tokens[end..]
}

/// The tokens after a path separator.
pub(crate) fn after_colons(tokens: &[TokenTree]) -> Option<&[TokenTree]> {
    match tokens {
        [first, second, rest @ ..] if is_sign(first, ':') && is_sign(second, ':') => Some(rest),
        _ => None,
    }
}

/// Whether the tokens after a name show that it is called as a macro.
pub(crate) fn is_call_of_macro(after: &[TokenTree]) -> bool {
    matches!(after, [sign, TokenTree::Group(_), ..] if is_sign(sign, '!'))
}

pub(crate) fn is_sign(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}
