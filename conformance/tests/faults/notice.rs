//! What the library reports through `tracing`, because no result can.

use std::fmt::{self, Write as _};
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry;

/// One report.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notice {
    pub(crate) message: String,
    /// The error that is reported.
    pub(crate) error: String,
    /// The driver object that it is about.
    pub(crate) resource: String,
}

static NOTICES: Mutex<Vec<Notice>> = Mutex::new(Vec::new());

struct Listener;

/// Listens from here on.
pub(crate) fn listen() {
    tracing::subscriber::set_global_default(registry().with(Listener)).expect("nobody listens yet");
}

/// What was reported since the last look.
pub(crate) fn take() -> Vec<Notice> {
    std::mem::take(&mut NOTICES.lock().unwrap_or_else(PoisonError::into_inner))
}

impl<S: Subscriber> Layer<S> for Listener {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // What is told of a timeline that the driver refuses is no warning: it works all the same.
        if *event.metadata().level() > Level::INFO {
            return;
        }
        let mut notice = Notice::default();
        event.record(&mut notice);
        NOTICES.lock().unwrap_or_else(PoisonError::into_inner).push(notice);
    }
}

impl Visit for Notice {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let target = match field.name() {
            "message" => &mut self.message,
            "error" => &mut self.error,
            _ => &mut self.resource,
        };
        let _ = write!(target, "{value:?}");
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reported: {}; {} {}", self.message, self.error, self.resource)
    }
}
