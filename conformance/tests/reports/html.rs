//! Strictly parses a page into a tree: everything that a browser would have to correct is an error.

use std::cell::RefCell;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};

use super::Tested;

/// Void elements.
const VOID: [&str; 2] = ["meta", "br"];

/// An element, or text, which has an empty name.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) name: String,
    attributes: Vec<(String, String)>,
    children: Vec<Node>,
    own_text: String,
}

impl Node {
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn attributes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(crate) fn has_class(&self, class: &str) -> bool {
        self.attribute("class").is_some_and(|all| all.split_whitespace().any(|each| each == class))
    }

    /// All text in it, unchanged.
    pub(crate) fn text(&self) -> String {
        self.children.iter().fold(self.own_text.clone(), |text, child| text + &child.text())
    }

    /// This element and all descendants, in document order.
    pub(crate) fn all(&self) -> Vec<&Node> {
        let mut found = vec![self];
        for child in &self.children {
            found.extend(child.all());
        }
        found
    }

    pub(crate) fn with_class(&self, class: &str) -> Vec<&Node> {
        self.all().into_iter().filter(|node| node.has_class(class)).collect()
    }

    pub(crate) fn named(&self, name: &str) -> Vec<&Node> {
        self.all().into_iter().filter(|node| node.name == name).collect()
    }

    pub(crate) fn children(&self) -> impl Iterator<Item = &Node> {
        self.children.iter().filter(|child| !child.name.is_empty())
    }
}

#[derive(Default)]
struct Sink {
    tokens: RefCell<Vec<Token>>,
}

impl TokenSink for Sink {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let next = match &token {
            Token::TagToken(Tag { kind: TagKind::StartTag, name, .. }) => match &**name {
                "style" => TokenSinkResult::RawData(RawKind::Rawtext),
                "script" => TokenSinkResult::RawData(RawKind::ScriptData),
                "title" => TokenSinkResult::RawData(RawKind::Rcdata),
                _ => TokenSinkResult::Continue,
            },
            _ => TokenSinkResult::Continue,
        };
        self.tokens.borrow_mut().push(token);
        next
    }
}

/// Parses a page. Fails if a tag is not closed or closed by another one, or the tokenizer reports an error.
pub(crate) fn parse(page: &str) -> Tested<Node> {
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(page));
    let tokenizer = Tokenizer::new(Sink::default(), TokenizerOpts { exact_errors: true, ..Default::default() });
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    let mut open = vec![Node::default()];
    for token in tokenizer.sink.tokens.take() {
        match token {
            Token::TagToken(tag) if tag.kind == TagKind::StartTag => {
                if tag.had_duplicate_attributes {
                    return Err(format!("<{}> has an attribute twice", tag.name).into());
                }
                let attributes =
                    tag.attrs.iter().map(|each| (each.name.local.to_string(), each.value.to_string())).collect();
                let node = Node { name: tag.name.to_string(), attributes, ..Node::default() };
                if VOID.contains(&&*tag.name) {
                    open.last_mut().ok_or("no parent")?.children.push(node);
                } else {
                    open.push(node);
                }
            }
            Token::TagToken(tag) => {
                let node = open.pop().ok_or("nothing is open")?;
                if node.name != *tag.name {
                    return Err(format!("</{}> closes <{}>", tag.name, node.name).into());
                }
                open.last_mut().ok_or("nothing is around it")?.children.push(node);
            }
            Token::CharacterTokens(text) => {
                let node = Node { own_text: text.to_string(), ..Node::default() };
                open.last_mut().ok_or("text outside")?.children.push(node);
            }
            Token::DoctypeToken(doctype) if doctype.name.as_deref() == Some("html") => {}
            Token::EOFToken => {}
            other => return Err(format!("{other:?}").into()),
        }
    }
    let root = open.pop().ok_or("the end of the page closed too much")?;
    if open.is_empty() { Ok(root) } else { Err(format!("<{}> is not closed", root.name).into()) }
}

#[test]
fn what_a_browser_would_mend_is_an_error() -> Tested {
    assert_eq!(parse("<!DOCTYPE html><p class=\"x\">a &lt;b&gt; <i>c</i></p>")?.text(), "a <b> c");
    for bad in [
        "<p>",
        "<p><i></p></i>",
        "</p>",
        "<p a=\"1\" a=\"2\"></p>",
        "<p title=\"x",
        "<p>&nosuch;</p>",
        "<!-- comment --><p></p>",
        "<p>\0</p>",
    ] {
        assert!(parse(bad).is_err(), "{bad}");
    }
    Ok(())
}
