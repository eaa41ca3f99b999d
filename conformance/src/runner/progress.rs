//! Telling how far a run is: a bar on a terminal, lines in a pipe.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use crate::outcome::Outcome;
use crate::output::say;
use crate::report::{CaseReport, text};

/// Shows finished scenarios.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    quiet: bool,
}

impl Progress {
    /// For `count` scenarios. Quiet shows nothing but failures.
    pub(crate) fn new(count: usize, quiet: bool) -> Self {
        let bar = (!quiet && std::io::stderr().is_terminal() && std::io::stdout().is_terminal()).then(|| {
            let bar = ProgressBar::new(count as u64);
            // The template is a constant; should it ever be wrong, the default is as good.
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len}  {per_sec}, {eta} left  {msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self { bar, quiet }
    }

    /// One more.
    pub(crate) fn finished(&self, case: &CaseReport) {
        match &self.bar {
            Some(bar) => {
                bar.set_message(case.name());
                bar.inc(1);
                if case.outcome != Outcome::Passed {
                    bar.println(text::line(case));
                }
            }
            None if self.quiet && !case.outcome.is_failure() => {}
            None => say!("{}", text::line(case)),
        }
    }

    /// The end.
    pub(crate) fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
