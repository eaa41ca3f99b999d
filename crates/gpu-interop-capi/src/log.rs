//! The library's log, passed to a function of the application.

use std::cell::Cell;
use std::ffi::{CString, c_char, c_void};
use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{OnceLock, RwLock};

use gpu_interop::sync::unpoisoned;
use gpu_interop::{Error, ErrorKind};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

use crate::call::call;
use crate::status::gpi_status;

/// Log level: nothing.
pub const GPI_LOG_OFF: i32 = 0;
/// Log level: failures that no function returns.
pub const GPI_LOG_ERROR: i32 = 1;
/// Log level: also failures that the library works around, and driver objects that it leaks.
pub const GPI_LOG_WARN: i32 = 2;
/// Log level: also the use of the host bridge where the driver cannot import a timeline.
pub const GPI_LOG_INFO: i32 = 3;
/// Log level: also the selection of backends, and ignored failures.
pub const GPI_LOG_DEBUG: i32 = 4;
/// Log level: also every driver call with arguments, result and duration (target "gpu_interop::driver_call").
pub const GPI_LOG_TRACE: i32 = 5;

/// Called for each message, on any thread, including threads of the driver. `target` is the Rust module, or
/// "gpu_interop::driver_call"; `message` is the text, followed by its values as " name=value". Both are UTF-8 and valid during
/// the call only. The function must not call this library.
pub type gpi_log_function =
    Option<unsafe extern "C" fn(level: i32, target: *const c_char, message: *const c_char, data: *mut c_void)>;

#[derive(Clone, Copy)]
struct Listener {
    function: unsafe extern "C" fn(i32, *const c_char, *const c_char, *mut c_void),
    data: *mut c_void,
    level: i32,
}

// SAFETY: by the contract of `gpi_set_log`, calling `function` with `data` is valid on any thread.
unsafe impl Send for Listener {}
// SAFETY: as above.
unsafe impl Sync for Listener {}

/// The level of the listener. An event that began before a change is compared with the listener itself.
static LEVEL: AtomicI32 = AtomicI32::new(GPI_LOG_OFF);
static LISTENER: RwLock<Option<Listener>> = RwLock::new(None);

thread_local! {
    /// Set while the application's function runs on this thread.
    static LISTENING: Cell<bool> = const { Cell::new(false) };
}

/// Sets the function that receives the library's messages up to `level`, a `GPI_LOG_*`. A null function, or `GPI_LOG_OFF`,
/// disables the log. Waits for running calls of the previous function, which is not called after this returns.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for an unknown level, or inside the application's function; `GPI_ERROR_SYSTEM` if
/// the program, written in Rust, has a subscriber of its own.
///
/// # Safety
/// Calling `function` with `data` is valid on any thread until a later call of `gpi_set_log` returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_set_log(level: i32, function: gpi_log_function, data: *mut c_void) -> gpi_status {
    call("gpi_set_log", |operation| {
        if !(GPI_LOG_OFF..=GPI_LOG_TRACE).contains(&level) {
            let error = Error::invalid(operation, "unknown level; pass GPI_LOG_OFF to GPI_LOG_TRACE");
            return Err(error.with_context("level", level));
        }
        if LISTENING.get() {
            let message = "gpi_set_log was called inside the log function; call it after that function has returned";
            return Err(Error::invalid(operation, message));
        }
        let listener = function.filter(|_| level != GPI_LOG_OFF).map(|function| Listener { function, data, level });
        if listener.is_some() {
            static INSTALLED: OnceLock<bool> = OnceLock::new();
            let install = || tracing::subscriber::set_global_default(Log).is_ok();
            if !INSTALLED.get_or_init(install) {
                let message = "the program has a subscriber of `tracing` already; use that";
                return Err(Error::new(ErrorKind::System, operation, message));
            }
        }
        let on = listener.is_some();
        {
            // Waits for the calls of the previous function.
            let mut current = unpoisoned(LISTENER.write());
            *current = listener;
            LEVEL.store(if on { level } else { GPI_LOG_OFF }, Ordering::Relaxed);
        }
        tracing::callsite::rebuild_interest_cache();
        Ok(())
    })
}

fn number(level: Level) -> i32 {
    match level {
        Level::ERROR => GPI_LOG_ERROR,
        Level::WARN => GPI_LOG_WARN,
        Level::INFO => GPI_LOG_INFO,
        Level::DEBUG => GPI_LOG_DEBUG,
        Level::TRACE => GPI_LOG_TRACE,
    }
}

/// Message and values of an event.
#[derive(Default)]
struct Text {
    message: String,
    values: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.values, " {name}={value:?}"),
        };
    }
}

/// Subscriber that passes events on.
struct Log;

impl Subscriber for Log {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && number(*metadata.level()) <= LEVEL.load(Ordering::Relaxed)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(match LEVEL.load(Ordering::Relaxed) {
            GPI_LOG_ERROR => LevelFilter::ERROR,
            GPI_LOG_WARN => LevelFilter::WARN,
            GPI_LOG_INFO => LevelFilter::INFO,
            GPI_LOG_DEBUG => LevelFilter::DEBUG,
            GPI_LOG_TRACE => LevelFilter::TRACE,
            _ => LevelFilter::OFF,
        })
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        // Not from inside the application's function, which would wait for itself.
        if LISTENING.try_with(|listening| listening.replace(true)) != Ok(false) {
            return;
        }
        let listener = unpoisoned(LISTENER.read());
        let level = number(*event.metadata().level());
        // An event of a level that was enabled before may arrive here after a change.
        if let Some(Listener { function, data, .. }) = listener.filter(|listener| level <= listener.level) {
            let mut text = Text::default();
            event.record(&mut text);
            let message = format!("{}{}", text.message, text.values).replace('\0', "\u{fffd}");
            let message = CString::new(message).unwrap_or_default();
            let target = CString::new(event.metadata().target()).unwrap_or_default();
            // SAFETY: the promise of the caller of `gpi_set_log`, which waits for the lock before it returns.
            unsafe { function(level, target.as_ptr(), message.as_ptr(), data) };
        }
        drop(listener);
        LISTENING.set(false);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::GPI_SUCCESS;

    /// Counts the messages of this test.
    unsafe extern "C" fn count(_: i32, target: *const c_char, _: *const c_char, data: *mut c_void) {
        // SAFETY: the target is NUL-terminated, and the data is the test's counter.
        unsafe {
            if std::ffi::CStr::from_ptr(target) == c"log::tests" {
                (*data.cast::<AtomicI32>()).fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// As between the change of the listener and the end of `gpi_set_log`: events of the earlier level still arrive.
    #[test]
    fn an_event_above_the_level_of_a_new_function_is_not_passed_on() {
        static COUNTED: AtomicI32 = AtomicI32::new(0);
        let data = (&raw const COUNTED).cast_mut().cast();
        let say = || tracing::trace!(target: "log::tests", "a message");
        // SAFETY: the counter lives as long as the process, and the function may be called on any thread.
        assert_eq!(unsafe { gpi_set_log(GPI_LOG_TRACE, Some(count), data) }, GPI_SUCCESS);
        say();
        assert_eq!(COUNTED.load(Ordering::Relaxed), 1);
        *LISTENER.write().expect("no panic") = Some(Listener { function: count, data, level: GPI_LOG_ERROR });
        say();
        assert_eq!(COUNTED.load(Ordering::Relaxed), 1, "a message of TRACE to a function of level ERROR");
        // SAFETY: without a function.
        assert_eq!(unsafe { gpi_set_log(GPI_LOG_OFF, None, std::ptr::null_mut()) }, GPI_SUCCESS);
    }
}
