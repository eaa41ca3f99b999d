//! Status codes.

use std::ffi::c_char;

use gpu_interop::ErrorKind;

/// Result of a function: `GPI_SUCCESS` or a `GPI_ERROR_*`. Later versions may add codes.
pub type gpi_status = i32;

/// The function did what it says.
pub const GPI_SUCCESS: gpi_status = 0;
/// No driver library could be loaded; the message lists every path tried with the reason of its failure.
pub const GPI_ERROR_DRIVER_NOT_FOUND: gpi_status = 1;
/// The driver is older than the operation requires.
pub const GPI_ERROR_DRIVER_TOO_OLD: gpi_status = 2;
/// The driver library lacks a function that the operation requires.
pub const GPI_ERROR_SYMBOL_MISSING: gpi_status = 3;
/// The driver has no usable device.
pub const GPI_ERROR_NO_DEVICE: gpi_status = 4;
/// The handle was exported by another device than the importing one; the message has both.
pub const GPI_ERROR_DEVICE_MISMATCH: gpi_status = 5;
/// The operating system, backend or device lacks this feature. Permanent: retrying does not help.
pub const GPI_ERROR_UNSUPPORTED: gpi_status = 6;
/// The request violates a documented rule: a null pointer, a null or freed handle, a range past the end. Detected before
/// the driver is called.
pub const GPI_ERROR_INVALID_ARGUMENT: gpi_status = 7;
/// The request is valid, but the driver rejected the handle.
pub const GPI_ERROR_IMPORT_REJECTED: gpi_status = 8;
/// The requirements of several users of one object conflict; the message lists them.
pub const GPI_ERROR_RECONCILIATION_FAILED: gpi_status = 9;
/// Host or device memory ran out.
pub const GPI_ERROR_OUT_OF_MEMORY: gpi_status = 10;
/// A bounded wait timed out. The wait may be repeated.
pub const GPI_ERROR_TIMEOUT: gpi_status = 11;
/// The work was abandoned because its device was closed, or a timeline failed: abandoned, or its watched process ended.
pub const GPI_ERROR_CANCELLED: gpi_status = 12;
/// A timeline had passed the value before the stream signalled it, so waits for the value ended too early. Use one
/// timeline for each direction.
pub const GPI_ERROR_OVERTAKEN: gpi_status = 13;
/// A host function enqueued on a stream panicked.
pub const GPI_ERROR_HOST_FUNCTION_PANICKED: gpi_status = 14;
/// A call of the operating system failed (descriptor limit, mapping limit, ...).
pub const GPI_ERROR_SYSTEM: gpi_status = 15;
/// The driver reports that no work runs on the device any more. Every later operation fails; most drivers require a new
/// process.
pub const GPI_ERROR_DEVICE_LOST: gpi_status = 16;
/// A driver failure without a more specific code; see `gpi_last_error_driver_code`.
pub const GPI_ERROR_DRIVER: gpi_status = 17;
/// A defect of this library: a panic inside it. Report it with the message.
pub const GPI_ERROR_INTERNAL: gpi_status = 1000;

/// Status codes with their kinds and names.
const KINDS: [(gpi_status, ErrorKind, &std::ffi::CStr); 17] = [
    (GPI_ERROR_DRIVER_NOT_FOUND, ErrorKind::DriverNotFound, c"driver not found"),
    (GPI_ERROR_DRIVER_TOO_OLD, ErrorKind::DriverTooOld, c"driver too old"),
    (GPI_ERROR_SYMBOL_MISSING, ErrorKind::SymbolMissing, c"symbol missing"),
    (GPI_ERROR_NO_DEVICE, ErrorKind::NoDevice, c"no device"),
    (GPI_ERROR_DEVICE_MISMATCH, ErrorKind::DeviceMismatch, c"device mismatch"),
    (GPI_ERROR_UNSUPPORTED, ErrorKind::Unsupported, c"unsupported"),
    (GPI_ERROR_INVALID_ARGUMENT, ErrorKind::InvalidArgument, c"invalid argument"),
    (GPI_ERROR_IMPORT_REJECTED, ErrorKind::ImportRejected, c"import rejected"),
    (GPI_ERROR_RECONCILIATION_FAILED, ErrorKind::ReconciliationFailed, c"reconciliation failed"),
    (GPI_ERROR_OUT_OF_MEMORY, ErrorKind::OutOfMemory, c"out of memory"),
    (GPI_ERROR_TIMEOUT, ErrorKind::Timeout, c"timeout"),
    (GPI_ERROR_CANCELLED, ErrorKind::Cancelled, c"cancelled"),
    (GPI_ERROR_OVERTAKEN, ErrorKind::Overtaken, c"overtaken"),
    (GPI_ERROR_HOST_FUNCTION_PANICKED, ErrorKind::HostFunctionPanicked, c"host function panicked"),
    (GPI_ERROR_SYSTEM, ErrorKind::System, c"system error"),
    (GPI_ERROR_DEVICE_LOST, ErrorKind::DeviceLost, c"device lost"),
    (GPI_ERROR_DRIVER, ErrorKind::Driver, c"driver error"),
];

/// The code of a kind.
pub(crate) fn of_kind(kind: ErrorKind) -> gpi_status {
    KINDS.iter().find(|(_, of, _)| *of == kind).map_or(GPI_ERROR_DRIVER, |(code, ..)| *code)
}

/// The kind of a code, for callbacks of the application; `Driver` for `GPI_ERROR_INTERNAL` and unknown codes.
pub(crate) fn to_kind(status: gpi_status) -> ErrorKind {
    KINDS.iter().find(|(code, ..)| *code == status).map_or(ErrorKind::Driver, |(_, kind, _)| *kind)
}

/// Returns the name of a status code in English, such as "device mismatch"; "unknown status" for other numbers. The text
/// is static: it is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_status_name(status: gpi_status) -> *const c_char {
    let name = match status {
        GPI_SUCCESS => c"success",
        GPI_ERROR_INTERNAL => c"internal error",
        _ => KINDS.iter().find(|(code, ..)| *code == status).map_or(c"unknown status", |(_, _, name)| *name),
    };
    name.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_kinds_are_one_to_one() {
        for (index, (code, kind, name)) in KINDS.iter().enumerate() {
            assert_eq!(usize::try_from(*code).expect("small"), index + 1, "{kind}");
            assert_eq!((of_kind(*kind), to_kind(*code)), (*code, *kind));
            assert_eq!(name.to_string_lossy(), kind.to_string());
        }
        assert_eq!(to_kind(GPI_ERROR_INTERNAL), ErrorKind::Driver);
    }
}
