//! Errors of the library as Python exceptions.

use gpu_interop::{Error, ErrorKind, Result};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::names;

/// Conversion of the library's results into Python's.
pub(crate) trait Raise<T> {
    /// Returns the value, or the exception of the error's kind.
    fn raised(self) -> PyResult<T>;
}

impl<T> Raise<T> for Result<T> {
    fn raised(self) -> PyResult<T> {
        self.map_err(|error| exception(&error))
    }
}

/// The exception of the error's kind, with the library's message.
pub(crate) fn exception(error: &Error) -> PyErr {
    Python::attach(|py| build(py, error).unwrap_or_else(|failure| failure))
}

fn build(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("gpu_interop._errors").map(Bound::unbind))?.bind(py);
    let operation = names::operation(error.operation());
    // `Debug` is the message with the sources below.
    let message = format!("{error:?}");
    let rest = message.strip_prefix(error.operation()).unwrap_or(&message);
    let message = format!("{operation}{}", names::in_python(rest));
    let value = module.getattr(class_name(error.kind()))?.call1((message,))?;
    value.setattr("operation", operation)?;
    value.setattr("code", error.code().map(|code| code.value))?;
    value.setattr("code_name", error.code().and_then(|code| code.name.clone()))?;
    value.setattr("backend", error.backend())?;
    value.setattr("device", error.device())?;
    Ok(PyErr::from_value(value))
}

fn class_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::DriverNotFound => "DriverNotFound",
        ErrorKind::DriverTooOld => "DriverTooOld",
        ErrorKind::SymbolMissing => "SymbolMissing",
        ErrorKind::NoDevice => "NoDevice",
        ErrorKind::DeviceMismatch => "DeviceMismatch",
        ErrorKind::Unsupported => "Unsupported",
        ErrorKind::InvalidArgument => "InvalidArgument",
        ErrorKind::ImportRejected => "ImportRejected",
        ErrorKind::ReconciliationFailed => "ReconciliationFailed",
        ErrorKind::OutOfMemory => "OutOfMemory",
        ErrorKind::Timeout => "Timeout",
        ErrorKind::Cancelled => "Cancelled",
        ErrorKind::Overtaken => "Overtaken",
        ErrorKind::HostFunctionPanicked => "HostFunctionPanicked",
        ErrorKind::System => "System",
        ErrorKind::DeviceLost => "DeviceLost",
        ErrorKind::Driver => "Driver",
        // Kinds of later versions.
        _ => "Error",
    }
}

/// The error of a call on a closed object.
pub(crate) fn closed(operation: &'static str, what: &str) -> Error {
    Error::invalid(operation, format!("the {what} is closed; use it before `close` or inside its `with` block"))
}
