//! Reads the modules, imports and paths of a Rust file from its tokens. Macros are not expanded.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;

use proc_macro2::token_stream::IntoIter;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A path: its names.
pub(crate) type Names = Vec<String>;

/// The modules, imports and paths of a file.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// Modules in files of their own, with the file that `#[path]` names.
    pub(crate) modules: Vec<(String, Option<String>)>,
    /// Imported names with their paths, and whether other files may import them from here.
    pub(crate) imports: BTreeMap<String, (Names, bool)>,
    /// Paths of `use PATH::*`.
    pub(crate) globs: Vec<Names>,
    /// Paths of at least two names outside of `use`.
    pub(crate) paths: Vec<Names>,
    /// Names outside of `use`.
    pub(crate) words: BTreeSet<String>,
}

type Tokens = Peekable<IntoIter>;

impl Source {
    /// Reads `text`, without items for tests.
    ///
    /// # Errors
    /// If the text is not valid Rust tokens.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut source = Self::default();
        let tokens: TokenStream = text.parse().map_err(|error| format!("{error}"))?;
        source.items(tokens);
        Ok(source)
    }

    fn items(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        let (mut exported, mut file) = (false, None);
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Group(group) => self.items(group.stream()),
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    tokens.next_if(|token| is(token, '!'));
                    let attribute = tokens.next().map(|token| token.to_string().replace(' ', "")).unwrap_or_default();
                    if attribute.starts_with("[cfg(test") || attribute.starts_with("[cfg(all(test") {
                        skip_item(&mut tokens);
                    } else if let Some(path) = attribute.strip_prefix("[path=\"") {
                        file = path.strip_suffix("\"]").map(str::to_owned);
                    }
                }
                // `$crate::` refers to the crate that uses the macro.
                TokenTree::Punct(punct) if punct.as_char() == '$' => {
                    tokens.next_if(|token| matches!(token, TokenTree::Ident(_)));
                    path(&mut tokens);
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
                TokenTree::Ident(word) => match word.to_string().as_str() {
                    "pub" => {
                        exported = true;
                        tokens.next_if(|token| matches!(token, TokenTree::Group(_)));
                        continue;
                    }
                    "mod" => {
                        let name = tokens.next().map(|name| name.to_string()).unwrap_or_default();
                        if tokens.peek().is_some_and(|token| is(token, ';')) {
                            self.modules.push((name, file.take()));
                        }
                    }
                    "use" => self.imports(&mut tokens, &[], exported),
                    _ => {
                        let names: Names = std::iter::once(word.to_string()).chain(path(&mut tokens)).collect();
                        self.words.insert(word.to_string());
                        if names.len() > 1 {
                            self.paths.push(names);
                        }
                    }
                },
            }
            exported = false;
        }
    }

    /// Trees of `use` with commas between them, all within the path `outer`.
    fn imports(&mut self, tokens: &mut Tokens, outer: &[String], exported: bool) {
        let (mut path, mut name) = (outer.to_vec(), None);
        loop {
            match tokens.next() {
                Some(TokenTree::Ident(word)) if word == "as" => name = tokens.next().map(|name| name.to_string()),
                // `{self}` names the module itself.
                Some(TokenTree::Ident(word)) if word == "self" && !path.is_empty() => {}
                Some(TokenTree::Ident(word)) => path.push(word.to_string()),
                Some(TokenTree::Group(group)) => {
                    self.imports(&mut group.stream().into_iter().peekable(), &path, exported);
                    path.clear();
                }
                Some(token) if is(&token, '*') => self.globs.push(std::mem::take(&mut path)),
                Some(token) if is(&token, ':') => {}
                end => {
                    if let Some(last) = name.take().or_else(|| path.last().cloned()) {
                        self.imports.insert(last, (path, exported));
                    }
                    path = outer.to_vec();
                    if end.is_none_or(|token| is(&token, ';')) {
                        return;
                    }
                }
            }
        }
    }
}

fn is(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == character)
}

/// The names after `::`, to the end of the path.
fn path(tokens: &mut Tokens) -> Names {
    let mut names = Vec::new();
    while tokens.next_if(|token| is(token, ':')).is_some() && tokens.next_if(|token| is(token, ':')).is_some() {
        let Some(TokenTree::Ident(name)) = tokens.next_if(|token| matches!(token, TokenTree::Ident(_))) else { break };
        names.push(name.to_string());
    }
    names
}

/// Skips the item that begins here: to its semicolon or the end of its body.
fn skip_item(tokens: &mut Tokens) {
    let ends = |token: &TokenTree| {
        is(token, ';') || matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
    };
    while tokens.next().is_some_and(|token| !ends(&token)) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_modules_and_paths_are_found_outside_of_tests_comments_and_strings() {
        let source = Source::read(
            r##"
            //! use crate::comment;
            pub(crate) mod a; #[path = "other.rs"] mod b; mod inline { use self::inner; }
            use crate::{one, two::{self, Three as Four}, five::*};
            pub use x::Y;
            #[cfg(test)] mod tests { use crate::hidden; }
            macro_rules! m { () => { $crate::mine::n!() } }
            fn f<'a>(c: char) -> &'a str { let _ = ('"', '\'', r#"crate::text "#); crate::used::call::<u8>() }
            "##,
        )
        .unwrap();
        let names = |path: &[&str]| path.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(source.modules, [("a".into(), None), ("b".into(), Some("other.rs".into()))]);
        assert_eq!(source.imports["two"], (names(&["crate", "two"]), false));
        assert_eq!(source.imports["Four"], (names(&["crate", "two", "Three"]), false));
        assert_eq!(source.imports["Y"], (names(&["x", "Y"]), true));
        assert!(source.imports.contains_key("inner") && !source.imports.contains_key("hidden"));
        assert_eq!(source.globs, [names(&["crate", "five"])]);
        assert_eq!(source.paths, [names(&["crate", "used", "call"])]);
    }
}
