//! The frame of every page.

use maud::{DOCTYPE, Markup, html};

use crate::output::visible;
use crate::report::Tool;
use crate::report::html::head;

const SITE_STYLE: &str = include_str!("site.css");

/// A page without network resources.
pub(super) fn page(title: &str, content: &Markup) -> String {
    let tool = Tool::this();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, &[SITE_STYLE]))
            body {
                nav { a href="index.html" { "Machines" } " " a href="scenarios.html" { "Scenarios" } }
                header { h1 { (title) } }
                main { (content) }
                footer { p { "Made by " (tool.name) " " (tool.version) "." } }
            }
        }
    };
    visible(&page.into_string()).into_owned()
}
