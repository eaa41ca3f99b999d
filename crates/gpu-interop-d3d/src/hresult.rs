//! Conversion of `HRESULT`s to [`Error`]s.

use gpu_interop_core::{Error, ErrorKind};

/// Table of `NAME = number => kind, message`.
macro_rules! codes {
    ($($ident:ident = $value:literal => $kind:ident, $message:literal;)*) => {
        /// Number, name, kind and message of the known codes.
        const TABLE: &[(u32, &str, ErrorKind, &str)] =
            &[$(($value, stringify!($ident), ErrorKind::$kind, $message)),*];
    };
}

codes! {
    E_NOTIMPL = 0x8000_4001 => Unsupported, "this implementation of Direct3D lacks the function";
    E_NOINTERFACE = 0x8000_4002 => Unsupported, "the object lacks an interface; it needs a newer version of \
        Windows, or was not created to be shared this way";
    E_OUTOFMEMORY = 0x8007_000e => OutOfMemory, "memory ran out";
    E_INVALIDARG = 0x8007_0057 => Driver, "an argument is invalid; Direct3D's debug layer reports which";
    E_ACCESSDENIED = 0x8007_0005 => System, "access was denied; the object may belong to another user";
    ERROR_FILE_NOT_FOUND = 0x8007_0002 => InvalidArgument, "no object has this name, or its last handle was closed";
    ERROR_PATH_NOT_FOUND = 0x8007_0003 => InvalidArgument, "the namespace of the name does not exist";
    ERROR_INVALID_HANDLE = 0x8007_0006 => InvalidArgument, "the handle is not open, or refers to another kind of object";
    ERROR_TOO_MANY_OPEN_FILES = 0x8007_0004 => System, "the process is out of handles";
    ERROR_ALREADY_EXISTS = 0x8007_00b7 => InvalidArgument, "the name is taken; choose another";
    DXGI_ERROR_INVALID_CALL = 0x887a_0001 => Driver, "the call is invalid; Direct3D's debug layer reports why";
    DXGI_ERROR_NOT_FOUND = 0x887a_0002 => Driver, "no such object exists";
    DXGI_ERROR_UNSUPPORTED = 0x887a_0004 => Unsupported, "the device does not support this";
    DXGI_ERROR_DEVICE_REMOVED = 0x887a_0005 => DeviceLost, "the device is lost: it was removed, or its driver was replaced";
    DXGI_ERROR_DEVICE_HUNG = 0x887a_0006 => DeviceLost, "the device is lost: an earlier command hung";
    DXGI_ERROR_DEVICE_RESET = 0x887a_0007 => DeviceLost, "the device is lost: it was reset after a bad command";
    DXGI_ERROR_DRIVER_INTERNAL_ERROR = 0x887a_0020 => DeviceLost, "the device is lost: its driver failed";
    DXGI_ERROR_ACCESS_DENIED = 0x887a_002b => System, "access was denied; the object may belong to another user";
    DXGI_ERROR_NAME_ALREADY_EXISTS = 0x887a_002c => InvalidArgument, "the name is taken; choose another";
    DXGI_ERROR_SDK_COMPONENT_MISSING = 0x887a_002d => Unsupported, "a component of Windows is missing: the debug layer \
        needs the optional feature Graphics Tools";
    D3D12_ERROR_DRIVER_VERSION_MISMATCH = 0x887e_0002 => DriverTooOld, "the driver has another version than Direct3D \
        expects; update it";
}

/// `WAIT_TIMEOUT` and `WAIT_ABANDONED`: success codes that wait functions return without the object.
pub(crate) const WAIT_TIMEOUT: u32 = 0x102;
pub(crate) const WAIT_ABANDONED: u32 = 0x80;

/// Converts the code of a failed Direct3D or DXGI call.
pub(crate) fn driver(operation: &'static str, code: i32) -> Error {
    let number = code.cast_unsigned();
    let row = TABLE.iter().find(|row| row.0 == number);
    let (kind, message) =
        row.map_or((ErrorKind::Driver, "Direct3D reported a failure"), |(_, _, kind, message)| (*kind, *message));
    let name = row.map_or_else(|| format!("{number:#010x}"), |(_, name, ..)| (*name).to_owned());
    Error::new(kind, operation, message).with_code(code.into(), Some(name))
}

/// Message of a timeout.
pub(crate) const TIMED_OUT: &str =
    "the wait timed out; wait again, or check that the other side signals the fence or releases the mutex";

/// Converts the code of a wait function; anything but 0 is an error.
pub(crate) fn waited(operation: &'static str, code: i32) -> Result<(), Error> {
    match code.cast_unsigned() {
        0 => Ok(()),
        WAIT_TIMEOUT => {
            Err(Error::new(ErrorKind::Timeout, operation, TIMED_OUT)
                .with_code(code.into(), Some("WAIT_TIMEOUT".into())))
        }
        WAIT_ABANDONED => Err(Error::new(
            ErrorKind::Driver,
            operation,
            "the mutex was abandoned by a device that had acquired it; the texture may be partly written; create \
             both again",
        )
        .with_code(code.into(), Some("WAIT_ABANDONED".into()))),
        _ => Err(driver(operation, code)),
    }
}

/// Creates the error for a fence of a lost device, which reports the greatest value.
pub(crate) fn lost(operation: &'static str, reason: i32) -> Error {
    if reason >= 0 {
        return Error::new(
            ErrorKind::DeviceLost,
            operation,
            "the fence has the greatest value, so the device is lost; the device reports no reason",
        );
    }
    let known = driver(operation, reason);
    if known.message().starts_with("the device is lost") {
        return known;
    }
    let code = known.code().cloned();
    Error::new(ErrorKind::DeviceLost, operation, "the device is lost")
        .with_code(reason.into(), code.and_then(|code| code.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn code(number: u32) -> i32 {
        number.cast_signed()
    }

    #[test]
    fn codes_map_to_error_kinds() {
        let kind = |number| driver("ID3D12Device::CreateHeap", code(number)).kind();
        assert_eq!(kind(0x8007_000e), ErrorKind::OutOfMemory);
        assert_eq!(kind(0x8000_4001), ErrorKind::Unsupported);
        assert_eq!(kind(0x887a_002c), ErrorKind::InvalidArgument);
        assert_eq!(kind(0x887a_0005), ErrorKind::DeviceLost);
        assert_eq!(kind(0xdead_beef), ErrorKind::Driver);
        // Codes are unique.
        let mut numbers: Vec<_> = TABLE.iter().map(|row| row.0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), TABLE.len());
        assert!(TABLE.iter().all(|row| code(row.0) < 0), "all codes are failures");
    }

    #[test]
    fn errors_keep_number_and_name_of_the_code() {
        let error = driver("op", code(0x887a_0005));
        let found = error.code().expect("a code");
        assert_eq!((found.value, found.name.as_deref()), (-2_005_270_523, Some("DXGI_ERROR_DEVICE_REMOVED")));
        let error = driver("op", code(0xdead_beef));
        assert_eq!(error.code().and_then(|code| code.name.clone()).as_deref(), Some("0xdeadbeef"));
    }

    #[test]
    fn unsuccessful_waits_are_errors() {
        waited("op", 0).expect("acquired");
        let timeout = waited("op", 0x102).expect_err("timed out");
        assert_eq!(timeout.kind(), ErrorKind::Timeout);
        let abandoned = waited("op", 0x80).expect_err("abandoned");
        assert_eq!(abandoned.kind(), ErrorKind::Driver);
        assert!(abandoned.message().contains("abandoned") && abandoned.to_string().contains("WAIT_ABANDONED"));
        assert_eq!(waited("op", code(0x887a_0005)).expect_err("lost").kind(), ErrorKind::DeviceLost);
    }

    #[test]
    fn every_removal_reason_is_a_lost_device() {
        for reason in [0, 0x887a_0005, 0x887a_0006, 0x887a_0007, 0x887a_0020, 0x8000_4005, 0x8007_000e] {
            let error = lost("ID3D12Fence::GetCompletedValue", code(reason));
            assert_eq!(error.kind(), ErrorKind::DeviceLost, "{reason:#x}");
            assert!(error.message().contains("device is lost"), "{error}");
            assert_eq!(error.code().is_some(), reason != 0, "{reason:#x}");
        }
    }
}
