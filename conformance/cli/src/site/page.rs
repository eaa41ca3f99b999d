//! The frame of every page.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::report::Tool;
use crate::report::html::STYLE;

const SITE_STYLE: &str = include_str!("site.css");

/// A page without network resources.
pub(super) fn page(title: &str, content: &Markup) -> String {
    let tool = Tool::this();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(SITE_STYLE)) }
            }
            body {
                nav { a href="index.html" { "Machines" } " " a href="scenarios.html" { "Scenarios" } }
                header { h1 { (title) } }
                main { (content) }
                footer { p { "Made by " (tool.name) " " (tool.version) "." } }
            }
        }
    };
    page.into_string()
}
