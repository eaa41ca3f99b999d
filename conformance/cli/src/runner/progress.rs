//! Progress of a run: a bar on a terminal, lines in a pipe.

use std::io::IsTerminal;

use gpu_interop_conformance::Outcome;
use indicatif::{ProgressBar, ProgressStyle};

use super::case::Run;
use crate::output::{print, visible};
use crate::report::{CaseReport, text};

/// Shows finished scenarios.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    quiet: bool,
    verbose: bool,
    /// Begins each line.
    prefix: String,
}

impl Progress {
    /// Progress of `count` scenarios. `quiet` shows failures only; `verbose` adds observations.
    /// With a device's number, lines begin with it, and there is no bar.
    pub(crate) fn new(count: usize, quiet: bool, verbose: bool, device: Option<usize>) -> Self {
        let prefix = device.map(|number| format!("device {number}: ")).unwrap_or_default();
        let bar = (!quiet && device.is_none() && std::io::stderr().is_terminal() && std::io::stdout().is_terminal())
            .then(|| ProgressBar::new(count as u64).with_style(style()));
        Self { bar, quiet, verbose, prefix }
    }

    /// Counts a case whose result is known from an earlier process.
    pub(super) fn known(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// Shows a failed case that runs again.
    pub(super) fn failed(&self, name: &str, run: &Run) {
        let Run { ended, took } = run;
        let reason = ended.reason.as_deref().unwrap_or_default();
        let line =
            format!("{:<16} {name:<42} {:>9}  {reason} [runs again at the end]", ended.outcome, format!("{took:.1?}"));
        match &self.bar {
            Some(bar) => bar.println(visible(&line)),
            None => print(format_args!("{}{line}\n", self.prefix)),
        }
    }

    /// Counts and shows a finished case.
    pub(crate) fn finished(&self, case: &CaseReport) {
        let observed = if self.verbose { text::observations(case) } else { String::new() };
        match &self.bar {
            Some(bar) => {
                bar.set_message(case.name());
                bar.inc(1);
                if case.outcome != Outcome::Passed || !observed.is_empty() {
                    bar.println(visible(format!("{}\n{}", text::line(case), observed.trim_end()).trim_end()));
                }
            }
            None if self.quiet && !case.outcome.is_failure() && case.outcome != Outcome::Flaky => {}
            None => print(format_args!("{}{}\n{observed}", self.prefix, text::line(case))),
        }
    }

    /// Removes the bar.
    pub(crate) fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Done, all, the time left, and the newest case. A wrong template falls back to the default.
fn style() -> ProgressStyle {
    ProgressStyle::with_template("{bar:30} {pos}/{len}  {eta} left  {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use indicatif::{ProgressDrawTarget, TermLike};

    use super::*;

    /// A terminal that keeps what is written.
    #[derive(Debug, Clone, Default)]
    struct Screen(Arc<Mutex<String>>);

    impl Screen {
        fn text(&self) -> String {
            self.0.lock().expect("no panic").clone()
        }
    }

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            120
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().expect("no panic").push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_bar_has_counts_and_no_rate() {
        let screen = Screen::default();
        let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
        let bar = ProgressBar::with_draw_target(Some(7), target).with_style(style());
        bar.set_message("memory.fill@vulkan");
        bar.inc(2);
        bar.tick();
        let text = screen.text();
        assert!(text.contains(" 2/7 ") && text.contains(" left  memory.fill@vulkan"), "{text}");
        assert!(!text.contains("/s"), "{text}");
    }
}
