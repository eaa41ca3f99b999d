//! Boundary between C and Rust: no panic leaves a function, and its error is stored for the thread.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use gpu_interop::Result;

use crate::last_error;
use crate::status::{GPI_SUCCESS, gpi_status};

/// Runs the body of the exported function `operation`.
pub(crate) fn call(operation: &'static str, body: impl FnOnce(&'static str) -> Result<()>) -> gpi_status {
    // Unwind safe: the body's objects are shared with other threads anyway, and their locks ignore poisoning.
    match catch_unwind(AssertUnwindSafe(|| body(operation))) {
        Ok(Ok(())) => GPI_SUCCESS,
        Ok(Err(error)) => last_error::store(operation, &error),
        Err(payload) => {
            let status = last_error::store_panic(operation, panic_message(&*payload));
            // Dropping the payload could panic.
            std::mem::forget(payload);
            status
        }
    }
}

fn panic_message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;
    use crate::{GPI_ERROR_INTERNAL, GPI_ERROR_TIMEOUT, gpi_last_error_message, gpi_last_error_status};

    fn message() -> String {
        // SAFETY: a text of this thread, valid until the next failure.
        unsafe { CStr::from_ptr(gpi_last_error_message()) }.to_string_lossy().into_owned()
    }

    #[test]
    fn a_panic_is_an_internal_error() {
        let status = call("gpi_test", |_| panic!("number {}", 7));
        assert_eq!((status, gpi_last_error_status()), (GPI_ERROR_INTERNAL, GPI_ERROR_INTERNAL));
        assert!(message().contains("gpi_test") && message().contains("number 7"), "{}", message());
    }

    #[test]
    fn a_message_has_the_names_of_c() {
        let of = |operation| gpu_interop::Error::invalid(operation, "load ModuleImage::Builtin").with_context("a", 1);
        call("gpi_test", |_| Err(of("HostBackend::load_module")));
        assert_eq!(message(), "gpi_test: invalid argument: load GPI_MODULE_BUILTIN [a: 1]");
        call("gpi_test", |_| Err(of("cuModuleLoadDataEx")));
        assert_eq!(message(), "cuModuleLoadDataEx: invalid argument: load GPI_MODULE_BUILTIN [a: 1]");
    }

    #[test]
    fn an_error_is_stored_for_its_thread_only() {
        let fail = || Err(gpu_interop::Error::new(gpu_interop::ErrorKind::Timeout, "gpi_test", "a\0b"));
        assert_eq!(call("gpi_test", |_| fail()), GPI_ERROR_TIMEOUT);
        assert!(message().contains("a\u{fffd}b"), "{}", message());
        // A success leaves it.
        assert_eq!(call("gpi_test", |_| Ok(())), GPI_SUCCESS);
        assert_eq!(gpi_last_error_status(), GPI_ERROR_TIMEOUT);
        let other = std::thread::spawn(|| (gpi_last_error_status(), message())).join().expect("no panic");
        assert_eq!(other, (GPI_SUCCESS, String::new()));
    }
}
