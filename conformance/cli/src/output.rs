//! Writing to standard output.

use std::ffi::OsStr;
use std::fmt::Arguments;
use std::io::{IsTerminal, Write};

/// Prints to standard output. Errors are ignored: a closed pipe (`conformance list | head`) does not fail the run.
pub(crate) fn print(text: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_fmt(text).and_then(|()| out.flush());
}

/// `true` if standard error may have colours: it is a terminal, and `NO_COLOR` is unset or empty.
pub(crate) fn error_has_colours() -> bool {
    std::io::stderr().is_terminal() && !asks_for_none(std::env::var_os("NO_COLOR").as_deref())
}

/// `true` if `NO_COLOR` disables colours. An empty value does not.
fn asks_for_none(no_color: Option<&OsStr>) -> bool {
    no_color.is_some_and(|value| !value.is_empty())
}

/// `println!` that ignores a closed pipe.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::print(format_args!("{}\n", format_args!($($text)*))) };
}
pub(crate) use say;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_value_but_an_empty_one_asks_for_no_colours() {
        for (value, none) in [(None, false), (Some(""), false), (Some("1"), true), (Some("0"), true)] {
            assert_eq!(asks_for_none(value.map(OsStr::new)), none, "{value:?}");
        }
    }
}
