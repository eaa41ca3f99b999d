//! Faults, the plan of faults for a function, the injected status codes, and the kind of error that each must become.
//! The codes and kinds are written from the vendors' headers and this project's documentation, independently of the
//! backends.

use std::fmt;
use std::ops::Range;

use gpu_interop::ErrorKind;

use crate::simulator::{Driver, Vendor};

/// The calls of a function that a fault affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Uses {
    /// This call, counted from 1.
    Nth(u64),
    /// This and every later call.
    From(u64),
    /// Every call.
    Every,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A status code.
    Code(u32),
    /// Success and a null result.
    Null,
}

/// A fault, displayed as a rule of `GPU_INTEROP_SIM_FAIL`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// `*` stands for every function: the device is lost.
    pub(crate) function: String,
    pub(crate) uses: Uses,
    pub(crate) answer: Answer,
}

/// Stands for every function.
pub(crate) const EVERY_FUNCTION: &str = "*";

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.function)?;
        match self.uses {
            Uses::Nth(nth) => write!(f, "{nth}:"),
            Uses::From(nth) => write!(f, "{nth}+:"),
            Uses::Every => write!(f, "*:"),
        }?;
        match self.answer {
            Answer::Code(code) => write!(f, "{code}"),
            Answer::Null => write!(f, "null"),
        }
    }
}

impl Fault {
    /// `true` if the function was called often enough for the fault to occur.
    pub(crate) fn is_met_by(&self, calls: u64) -> bool {
        match self.uses {
            Uses::Nth(nth) | Uses::From(nth) => calls >= nth,
            Uses::Every => calls > 0,
        }
    }
}

/// One of this many codes in addition to those of [`FEW`], for the first call of a function.
const PART: usize = 4;
/// Number of calls between the first and the last that get a fault.
const USES: usize = 10;
/// With a null result.
const NULL_USES: usize = 4;
/// Calls at which the device is lost.
const LOSSES: usize = 80;
const FEW_LOSSES: usize = 20;

/// The faults of a function that an exercise without faults calls `calls` times, and that `gives` a result or not. With
/// `every_use` no call is omitted.
pub(crate) fn plan(driver: &Driver, function: &str, calls: u64, gives: bool, every_use: bool) -> Vec<Fault> {
    let fault = |uses, answer| Fault { function: function.to_owned(), uses, answer };
    let some = |uses: Range<u64>, most: usize| thin(uses, if every_use { usize::MAX } else { most });
    if function == EVERY_FUNCTION {
        let most = if driver.whole { LOSSES } else { FEW_LOSSES };
        // Earlier leaks affect the reuse of streams, so the number of calls varies at the end.
        let end = calls - calls / 50;
        return some(1..end + 1, most).map(|nth| fault(Uses::From(nth), Answer::Code(LOST))).collect();
    }
    let tried = |codes: &'static [u32]| {
        let is_failure = |code: &&u32| !(is_query(function) && **code == NOT_READY);
        codes.iter().filter(is_failure).copied()
    };
    let all = match (driver.whole, driver.vendor) {
        (false, _) => FEW,
        (true, Vendor::Cuda) => CUDA,
        (true, Vendor::Hip) => HIP,
    };
    // One table has the kinds of all codes: a function gets a part of them, and another function another part.
    let of_first =
        |(place, code): &(usize, u32)| every_use || FEW.contains(code) || (place + function.len()).is_multiple_of(PART);
    let first = tried(all).enumerate().filter(of_first);
    let mut faults: Vec<_> = first.map(|(_, code)| fault(Uses::Nth(1), Answer::Code(code))).collect();
    if calls > 1 {
        let codes = if every_use { all } else { FEW };
        faults.extend(tried(codes).map(|code| fault(Uses::Nth(calls), Answer::Code(code))));
    }
    // Each call in between gets one code.
    let between = some(2..calls, if driver.whole { USES } else { NULL_USES });
    faults.extend(between.zip(tried(all).cycle()).map(|(nth, code)| fault(Uses::Nth(nth), Answer::Code(code))));
    faults.extend(tried(FEWEST).map(|code| fault(Uses::Every, Answer::Code(code))));
    if gives || gives_descriptor(function) {
        faults.push(fault(Uses::Every, Answer::Null));
        let mut uses: Vec<_> = [1, calls].into_iter().chain(some(2..calls, NULL_USES)).collect();
        uses.dedup();
        faults.extend(uses.into_iter().map(|nth| fault(Uses::Nth(nth), Answer::Null)));
    }
    faults
}

/// At most this many elements of a range, evenly spaced.
fn thin(uses: Range<u64>, most: usize) -> impl Iterator<Item = u64> {
    let count = usize::try_from(uses.end.saturating_sub(uses.start)).unwrap_or(usize::MAX);
    uses.step_by(count.div_ceil(most).max(1))
}

/// `CUDA_SUCCESS` is 0; the others are in the order of the header. The last three are undefined; one of them is the
/// greatest possible code.
pub(crate) const CUDA: &[u32] = &[
    1,   // CUDA_ERROR_INVALID_VALUE
    2,   // CUDA_ERROR_OUT_OF_MEMORY
    3,   // CUDA_ERROR_NOT_INITIALIZED
    4,   // CUDA_ERROR_DEINITIALIZED
    34,  // CUDA_ERROR_STUB_LIBRARY
    46,  // CUDA_ERROR_DEVICE_UNAVAILABLE
    100, // CUDA_ERROR_NO_DEVICE
    101, // CUDA_ERROR_INVALID_DEVICE
    200, // CUDA_ERROR_INVALID_IMAGE
    201, // CUDA_ERROR_INVALID_CONTEXT
    205, // CUDA_ERROR_MAP_FAILED
    218, // CUDA_ERROR_INVALID_PTX
    304, // CUDA_ERROR_OPERATING_SYSTEM
    400, // CUDA_ERROR_INVALID_HANDLE
    500, // CUDA_ERROR_NOT_FOUND
    600, // CUDA_ERROR_NOT_READY
    700, // CUDA_ERROR_ILLEGAL_ADDRESS
    709, // CUDA_ERROR_CONTEXT_IS_DESTROYED
    719, // CUDA_ERROR_LAUNCH_FAILED
    800, // CUDA_ERROR_NOT_PERMITTED
    801, // CUDA_ERROR_NOT_SUPPORTED
    803, // CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
    804, // CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE
    900, // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
    999, // CUDA_ERROR_UNKNOWN
    123_456,
    0x8000_0000,
    0xffff_ffff,
];

/// As [`CUDA`].
pub(crate) const HIP: &[u32] = &[
    1,    // hipErrorInvalidValue
    2,    // hipErrorOutOfMemory
    3,    // hipErrorNotInitialized
    4,    // hipErrorDeinitialized
    35,   // hipErrorInsufficientDriver
    100,  // hipErrorNoDevice
    101,  // hipErrorInvalidDevice
    200,  // hipErrorInvalidImage
    201,  // hipErrorInvalidContext
    205,  // hipErrorMapFailed
    209,  // hipErrorNoBinaryForGpu
    304,  // hipErrorOperatingSystem
    400,  // hipErrorInvalidHandle
    500,  // hipErrorNotFound
    600,  // hipErrorNotReady
    700,  // hipErrorIllegalAddress
    709,  // hipErrorContextIsDestroyed
    719,  // hipErrorLaunchFailure
    801,  // hipErrorNotSupported
    900,  // hipErrorStreamCaptureUnsupported
    999,  // hipErrorUnknown
    1052, // hipErrorRuntimeMemory
    1053, // hipErrorRuntimeOther
    123_456,
    0x8000_0000,
    0xffff_ffff,
];

/// Codes for functions for which not every code is injected.
pub(crate) const FEW: &[u32] = &[1, 2, 100, 400, 719, 801, 999, 123_456, 0xffff_ffff];

/// Codes for every use of a function.
pub(crate) const FEWEST: &[u32] = &[2, 719, 123_456];

/// The code of a lost device: `CUDA_ERROR_LAUNCH_FAILED`, `hipErrorLaunchFailure`.
pub(crate) const LOST: u32 = 719;

/// Codes that mean a lost device.
const SAYS_LOST: &[u32] = &[4, 700, 719];

/// The code of an unknown attribute.
pub(crate) const INVALID_VALUE: u32 = 1;
/// `CUDA_ERROR_NOT_SUPPORTED`, `hipErrorNotSupported`.
pub(crate) const NOT_SUPPORTED: u32 = 801;

/// The code of calls forbidden during a recording: `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`,
/// `hipErrorStreamCaptureUnsupported`.
pub(crate) const CAPTURE_UNSUPPORTED: u32 = 900;

/// The result of a query while work is pending. Not a failure.
pub(crate) const NOT_READY: u32 = 600;

/// `true` if a function queries the completion of work.
pub(crate) fn is_query(function: &str) -> bool {
    function.ends_with("StreamQuery") || function.ends_with("EventQuery")
}

/// `true` if a function returns a descriptor: a null result is not a failure then.
pub(crate) fn gives_descriptor(function: &str) -> bool {
    function.ends_with("MemExportToShareableHandle")
}

/// The name of a function in the vendor's documentation, which has no versions of symbols.
pub(crate) fn documented(function: &str) -> &str {
    function.strip_suffix("_v2").unwrap_or(function)
}

/// The kind of error that a code of a function must become.
pub(crate) fn kind(vendor: Vendor, function: &str, code: u32) -> ErrorKind {
    let importing = function.contains("ImportExternal") || function.contains("MemImportFrom");
    let finding = function.ends_with("ModuleGetFunction");
    match vendor {
        _ if SAYS_LOST.contains(&code) => ErrorKind::DeviceLost,
        // The kernel does not exist.
        _ if finding && code == 500 => ErrorKind::InvalidArgument,
        // A process that was forked after the driver was used.
        _ if code == 3
            && (is_initialisation(function)
                || ["cuInit", "cuDriverGetVersion", "cuDevicePrimaryCtxRetain"].contains(&function)) =>
        {
            ErrorKind::System
        }
        // HIP's code for an unknown stream.
        Vendor::Cuda if code == 709 => ErrorKind::DeviceLost,
        Vendor::Cuda => match code {
            2 => ErrorKind::OutOfMemory,
            34 => ErrorKind::DriverNotFound,
            100 => ErrorKind::NoDevice,
            801 => ErrorKind::Unsupported,
            803 | 804 => ErrorKind::DriverTooOld,
            _ if importing => ErrorKind::ImportRejected,
            _ => ErrorKind::Driver,
        },
        Vendor::Hip => match code {
            100 => ErrorKind::NoDevice,
            // HIP 5's code without a device.
            101 if is_initialisation(function) => ErrorKind::NoDevice,
            801 => ErrorKind::Unsupported,
            // The runtime rejects handles with "out of memory".
            _ if importing => ErrorKind::ImportRejected,
            2 => ErrorKind::OutOfMemory,
            35 => ErrorKind::DriverTooOld,
            209 => ErrorKind::InvalidArgument,
            _ => ErrorKind::Driver,
        },
    }
}

/// `true` if a function starts the driver or counts its devices.
pub(crate) fn is_initialisation(function: &str) -> bool {
    ["hipInit", "hipRuntimeGetVersion"].contains(&function) || counts_devices(function)
}

/// `true` if a function counts the devices: a driver without devices has an empty list.
pub(crate) fn counts_devices(function: &str) -> bool {
    ["cuDeviceGetCount", "hipGetDeviceCount"].contains(&function)
}
