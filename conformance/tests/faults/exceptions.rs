//! Exceptions: functions whose failure is no error, and functions that are never called, with the reason. Every other
//! failure must be an error.

use Reported::{Facts, FactsOrFailure, FactsOrNothing, Nothing};
use gpu_interop::ErrorKind;

use crate::fault;
use crate::fault::{Answer, Fault, Uses};
use crate::simulator::Vendor;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reported {
    /// As an error, or as a log event where none can be returned, with the function and the code.
    Failure,
    /// As changed facts about the backend or device, and rejections that follow from them.
    Facts,
    /// As an error if one device is opened, and as a fact with the code if all are listed.
    FactsOrFailure,
    /// As facts, unless the result was the same without the fault.
    FactsOrNothing,
    /// Not at all.
    Nothing,
}

/// Exceptions for every code.
const CODES: &[(&str, Reported, &str)] = &[
    ("cuCtxGetCurrent", Nothing, "asked only to spare a push, which follows"),
    (
        "cuDeviceGetAttribute",
        FactsOrNothing,
        "the device counts as lacking the attribute's feature, as if the value were 0",
    ),
    ("hipDeviceGetAttribute", FactsOrNothing, "as with CUDA"),
    ("hipExtMallocWithFlags", Nothing, "pinned memory replaces signal memory"),
    ("cuDeviceGet", FactsOrFailure, "a device that cannot be queried hides no other"),
    ("hipDeviceGet", FactsOrFailure, "as with CUDA"),
    ("cuDeviceGetName", FactsOrFailure, "as above"),
    ("hipDeviceGetName", FactsOrFailure, "as with CUDA"),
    ("cuDeviceGetUuid_v2", Facts, "a device without a UUID"),
    ("hipDeviceGetPCIBusId", Facts, "a device without a PCI address"),
    ("hipGetDevicePropertiesR0600", Facts, "a device that does not say its architecture"),
    ("hipGetDeviceProperties", Facts, "as above"),
    ("cuThreadExchangeStreamCaptureMode", Nothing, "the mode stays, which only matters during a capture"),
    ("hipThreadExchangeStreamCaptureMode", Nothing, "as with CUDA"),
    ("cuGetErrorName", Facts, "a code without a name"),
    ("cuGetErrorString", Facts, "a code without a text"),
    ("hipGetErrorName", Facts, "a code without a name"),
    ("hipGetErrorString", Facts, "a code without a text"),
];

/// Exceptions for one code.
const ONE_CODE: &[(&str, u32, Reported, &str)] = &[
    (
        "cuStreamBatchMemOp_v2",
        fault::NOT_SUPPORTED,
        Nothing,
        "as with stream memory operations disabled: cuLaunchHostFunc replaces it",
    ),
    (
        "cuStreamGetCtx",
        fault::NOT_SUPPORTED,
        Nothing,
        "the stream is of a part of the device, which is no other context",
    ),
    ("cuStreamQuery", fault::CAPTURE_UNSUPPORTED, Nothing, EVENT),
    ("cuStreamSynchronize", fault::CAPTURE_UNSUPPORTED, Nothing, EVENT),
    ("hipStreamQuery", fault::CAPTURE_UNSUPPORTED, Nothing, EVENT),
    ("hipStreamSynchronize", fault::CAPTURE_UNSUPPORTED, Nothing, EVENT),
];

/// Functions for which a null result is no error, or has a meaning.
const NULLS: &[(&str, Reported, &str)] = &[
    ("cuDriverGetVersion", Facts, "version 0.0; the driver's features are determined by its functions"),
    ("hipRuntimeGetVersion", Facts, "as with CUDA"),
    ("cuDeviceGetCount", Facts, "no device"),
    ("hipGetDeviceCount", Facts, "no device"),
    ("cuDeviceGet", Nothing, "0 is a device"),
    ("hipDeviceGet", Nothing, "0 is a device"),
    ("hipGetDevice", Nothing, "0 is a device"),
    ("cuCtxPopCurrent_v2", Nothing, "the driver reports that it has restored the current context"),
];

/// Functions that are looked up, but that no test on Linux can call.
const NEVER_CALLED: &[(&str, &str)] = &[
    ("cuDeviceGetLuid", "only Windows has LUIDs"),
    ("hipDeviceGetLuid", "only Windows has LUIDs"),
    ("cuDeviceGetNvSciSyncAttributes", "only embedded systems have NvSci; `--test sims nvsci` injects its failures"),
    ("hipMemImportFromShareableHandle", "HIP imports its own memory as any other"),
    ("hipImportExternalSemaphore", SEMAPHORES),
    ("hipSignalExternalSemaphoresAsync", SEMAPHORES),
    ("hipWaitExternalSemaphoresAsync", SEMAPHORES),
    ("hipDestroyExternalSemaphore", SEMAPHORES),
    ("hipStreamGetCaptureInfo_v2", SEMAPHORES),
    ("hipGraphExecExternalSemaphoresSignalNodeSetParams", SEMAPHORES),
    ("hipGraphExecExternalSemaphoresWaitNodeSetParams", SEMAPHORES),
    ("hipExternalMemoryGetMappedMipmappedArray", IMAGES),
    ("hipMipmappedArrayGetLevel", IMAGES),
    ("hipMipmappedArrayDestroy", IMAGES),
    ("hipArrayDestroy", IMAGES),
    ("hipDrvMemcpy3DAsync", IMAGES),
    ("hipCreateSurfaceObject", IMAGES),
    ("hipDestroySurfaceObject", IMAGES),
    ("hipTexObjectCreate", IMAGES),
    ("hipTexObjectDestroy", IMAGES),
];

const EVENT: &str = "an event is queried instead, as during a capture on another thread";
const SEMAPHORES: &str = "HIP has external semaphores on Windows only; refused before the runtime is called";
const IMAGES: &str = "the runtime maps no images on Linux; refused before it is called";

/// Functions that are called again with the primary context current after some codes, because each campaign with CUDA
/// has a foreign one current.
const REPEATED: [&str; 2] = ["cuSignalExternalSemaphoresAsync", "cuWaitExternalSemaphoresAsync"];
/// These codes.
const OF_A_CONTEXT: [u32; 3] = [fault::INVALID_VALUE, 201, 400];

/// Functions with a fallback whose use is not visible.
const REPLACED: &[(&str, &str)] = &[
    ("cuCtxGetId", "cuDevicePrimaryCtxGetState, which older drivers have"),
    ("cuDevicePrimaryCtxGetState", "cuCtxGetId, which is called instead"),
    ("cuStreamGetCtx", "none: older drivers do not tell a stream's context"),
    ("cuDeviceGetUuid_v2", "cuDeviceGetUuid, which older drivers have"),
    ("hipGetDevicePropertiesR0600", "hipGetDeviceProperties, which older runtimes have"),
    ("hipGetDeviceProperties", "hipGetDevicePropertiesR0600, which is called first"),
    ("cuStreamBatchMemOp_v2", "cuLaunchHostFunc, which also orders a signal"),
    ("hipExtMallocWithFlags", "hipHostRegister, as pinned memory does for signal memory"),
    ("cuThreadExchangeStreamCaptureMode", "none: older drivers have no recordings that mind other threads"),
    ("hipThreadExchangeStreamCaptureMode", "none, as with CUDA"),
    ("cuMemImportFromShareableHandle", "cuImportExternalMemory, for native memory"),
    ("hipMalloc", "none, from HIP 5.7 on: fills are copies before; a reset of the device is not noticed"),
    ("hipPointerGetAttribute", "none: a reset of the device is not noticed"),
    ("hipExtStreamCreateWithCUMask", "hipStreamCreateWithFlags, whose streams share hardware queues"),
];

/// The expected report of a fault.
pub(crate) fn reported_as(vendor: Vendor, fault: &Fault) -> Reported {
    let function = fault.function.as_str();
    let find = |table: &[(&str, Reported, &str)]| {
        table.iter().find(|(name, ..)| *name == function).map(|(_, reported, _)| *reported)
    };
    let reported = match fault.answer {
        // The runtime never returns this: an error, as elsewhere.
        Answer::Null if function == "hipExtMallocWithFlags" => None,
        // These codes mean that the runtime does not support such memory; others mean that the allocation failed.
        Answer::Code(code) if function == "hipExtMallocWithFlags" && ![fault::INVALID_VALUE, 801].contains(&code) => {
            None
        }
        Answer::Code(code) if REPEATED.contains(&function) && OF_A_CONTEXT.contains(&code) => {
            (fault.uses != Uses::Every).then_some(Nothing)
        }
        Answer::Code(code) => {
            let no_device = fault::kind(vendor, function, code) == ErrorKind::NoDevice;
            // A count of 0 is not an error.
            let one = ONE_CODE.iter().find(|(name, only, ..)| *name == function && *only == code);
            one.map(|(.., reported, _)| *reported)
                .or(find(CODES))
                .or((fault::counts_devices(function) && no_device).then_some(Facts))
        }
        Answer::Null => find(NULLS).or(find(CODES)),
    };
    match reported {
        // The query is repeated, and only the first result must be visible.
        Some(Facts) if matches!(fault.uses, Uses::Nth(2..)) => FactsOrNothing,
        reported => reported.unwrap_or(Reported::Failure),
    }
}

/// The reason why a function is never called, if any.
pub(crate) fn never_called(function: &str) -> Option<&'static str> {
    NEVER_CALLED.iter().find(|(name, _)| *name == function).map(|(_, reason)| *reason)
}

pub(crate) fn is_replaced(function: &str) -> bool {
    REPLACED.iter().any(|(name, _)| *name == function)
}
