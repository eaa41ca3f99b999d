//! Log events: failures that the library reports through `tracing`, because no result can carry them.

use std::fmt::{self, Write as _};
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry;

#[derive(Debug, Clone, Default)]
pub(crate) struct LogEvent {
    pub(crate) message: String,
    /// The error that is reported.
    pub(crate) error: String,
    /// The driver object.
    pub(crate) resource: String,
}

static LOGGED: Mutex<Vec<LogEvent>> = Mutex::new(Vec::new());

struct Listener;

/// Captures events from here on.
pub(crate) fn capture() {
    tracing::subscriber::set_global_default(registry().with(Listener)).expect("no other subscriber");
}

/// Events since the last call.
pub(crate) fn take() -> Vec<LogEvent> {
    std::mem::take(&mut LOGGED.lock().unwrap_or_else(PoisonError::into_inner))
}

impl<S: Subscriber> Layer<S> for Listener {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // A timeline that the driver rejects works with a bridge: no warning.
        if *event.metadata().level() > Level::INFO {
            return;
        }
        let mut logged = LogEvent::default();
        event.record(&mut logged);
        // Of the reasons for a bridge only a failed import is one of the driver.
        if logged.message.starts_with("the driver does not import the timeline") {
            if !logged.resource.contains("ImportExternalSemaphore: ") {
                return;
            }
            let reason = std::mem::take(&mut logged.resource);
            reason.trim_matches('"').clone_into(&mut logged.error);
        }
        LOGGED.lock().unwrap_or_else(PoisonError::into_inner).push(logged);
    }
}

impl Visit for LogEvent {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let target = match field.name() {
            "message" => &mut self.message,
            "error" => &mut self.error,
            _ => &mut self.resource,
        };
        let _ = write!(target, "{value:?}");
    }
}

impl fmt::Display for LogEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reported: {}; {} {}", self.message, self.error, self.resource)
    }
}
