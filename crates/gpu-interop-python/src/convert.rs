//! Small conversions between Python and Rust.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Drops a value without the GIL: freeing device memory may wait for work of the device.
pub(crate) fn detached_drop<T: Send>(value: T) {
    let mut value = Some(value);
    // Without an interpreter, such as during its exit, there is no GIL to release.
    let _dropped = Python::try_attach(|py| py.detach(|| drop(value.take())));
    drop(value);
}

/// The bytes of any object with the buffer protocol, in C order.
pub(crate) fn bytes_of<'py>(py: Python<'py>, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    if let Ok(bytes) = data.cast::<PyBytes>() {
        return Ok(bytes.clone());
    }
    let view = py.import("builtins")?.getattr("memoryview")?.call1((data,))?;
    Ok(view.call_method0("tobytes")?.cast_into::<PyBytes>()?)
}
