//! Writing to standard output and standard error.
//!
//! Names and reasons come from drivers and from reports of others. All output, pages, tables and JUnit XML included,
//! is [`visible`] text first.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::{Arguments, Write as _};
use std::io::{IsTerminal, Write};

/// Prints to standard output, as [`visible`] text. Errors are ignored: a closed pipe (`conformance list | head`) does not
/// fail the run.
pub(crate) fn print(text: Arguments<'_>) {
    let text = text.to_string();
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(visible(&text).as_bytes()).and_then(|()| out.flush());
}

/// Prints to standard error after the command's name, as [`visible`] text.
pub(crate) fn complain(text: &str) {
    eprintln!("conformance: {}", visible(text));
}

/// The text with escapes, as in JSON, for characters that control a terminal or change the order of others: neither a
/// name nor a reason moves the cursor, sets a title or hides a line. Newlines and tabs stay.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, |c| !matches!(c, '\n' | '\t'))
}

/// As [`visible`], on one line.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| true)
}

fn escaped(text: &str, among: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_hidden = |c: char| {
        let reorders =
            matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        reorders || (matches!(c, '\u{2028}' | '\u{2029}') || c.is_control()) && among(c)
    };
    if !text.contains(is_hidden) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            // Writing to a `String` cannot fail.
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown.into()
}

/// A count with its noun: `1 machine`, `2 machines`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// `true` if standard error may have colours: it is a terminal, and `NO_COLOR` is unset or empty.
pub(crate) fn error_has_colours() -> bool {
    std::io::stderr().is_terminal() && !asks_for_none(std::env::var_os("NO_COLOR").as_deref())
}

/// `true` if `NO_COLOR` disables colours. An empty value does not.
fn asks_for_none(no_color: Option<&OsStr>) -> bool {
    no_color.is_some_and(|value| !value.is_empty())
}

/// `println!` of one line, that ignores a closed pipe.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::print(format_args!("{}\n", $crate::output::one_line(&format!($($text)*)))) };
}
pub(crate) use say;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_controls_no_terminal() {
        let hostile = "a\u{1b}[2J\u{1b}]0;x\u{7}\r\u{9b}1A\u{7f}\u{202e}b\tc\nd";
        let shown = r"a\u001b[2J\u001b]0;x\u0007\u000d\u009b1A\u007f\u202eb";
        assert_eq!(visible(hostile), format!("{shown}\tc\nd"));
        assert_eq!(one_line(hostile), format!("{shown}\\u0009c\\u000ad"));
        for plain in ["", "µs – \"x\" <b>\\", "日本語"] {
            assert!(matches!(visible(plain), Cow::Borrowed(same) if same == plain));
            assert!(matches!(one_line(plain), Cow::Borrowed(same) if same == plain));
        }
        // In JSON on standard output an escape is the same character.
        let json = serde_json::to_string("\u{9b}\u{202e}").expect("text");
        assert_eq!(serde_json::from_str::<String>(&visible(&json)).expect("valid"), "\u{9b}\u{202e}");
    }

    #[test]
    fn any_value_but_an_empty_one_asks_for_no_colours() {
        for (value, none) in [(None, false), (Some(""), false), (Some("1"), true), (Some("0"), true)] {
            assert_eq!(asks_for_none(value.map(OsStr::new)), none, "{value:?}");
        }
    }
}
