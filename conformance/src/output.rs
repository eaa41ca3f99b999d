//! Writing to standard output.

use std::fmt::Arguments;
use std::io::Write;

/// Prints. A reader that went away (`conformance list | head`) is no failure of the run, so errors are dropped.
pub(crate) fn print(text: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_fmt(text).and_then(|()| out.flush());
}

/// `println!` for a reader that may go away.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::print(format_args!("{}\n", format_args!($($text)*))) };
}
pub(crate) use say;
