//! The exceptions: functions whose failure is not an error, and functions that are never called. Each with its reason;
//! everything that is not listed must be an error.

use gpu_interop::ErrorKind;

use crate::code;
use crate::driver::Vendor;
use crate::fault::{Answer, Fault, Uses};

/// How a fault is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// As an error, or as a report where nothing can be returned, with the function and the code.
    Failure,
    /// As other facts about the backend or device, and refusals that follow from them.
    Facts,
    /// As an error where one device is asked for, and in a fact, with the code, where all are listed.
    FactsOrFailure,
    /// As facts if the answer was not the same anyway.
    FactsOrNothing,
    /// Not at all.
    Nothing,
}

use Told::{Facts, FactsOrFailure, FactsOrNothing, Nothing};

/// Whatever the code.
const CODES: &[(&str, Told, &str)] = &[
    ("cuCtxGetCurrent", Nothing, "asked only to spare a push, which follows"),
    ("cuDeviceGetAttribute", FactsOrNothing, "the device has not what the attribute would say, as if it said 0"),
    ("hipDeviceGetAttribute", FactsOrNothing, "as with CUDA"),
    ("hipExtMallocWithFlags", Nothing, "pinned memory takes the place of signal memory"),
    ("cuDeviceGet", FactsOrFailure, "a device that does not answer hides no other"),
    ("hipDeviceGet", FactsOrFailure, "as with CUDA"),
    ("cuDeviceGetName", FactsOrFailure, "as above"),
    ("hipDeviceGetName", FactsOrFailure, "as with CUDA"),
    ("cuDeviceGetUuid_v2", Facts, "a device without a UUID"),
    ("hipDeviceGetPCIBusId", Facts, "a device without a PCI address"),
    ("hipGetDevicePropertiesR0600", Facts, "a device that does not say its architecture"),
    ("hipGetDeviceProperties", Facts, "as above"),
    ("cuThreadExchangeStreamCaptureMode", Nothing, "the mode stays, which matters beside a recording only"),
    ("hipThreadExchangeStreamCaptureMode", Nothing, "as with CUDA"),
    ("cuGetErrorName", Facts, "a code without a name"),
    ("cuGetErrorString", Facts, "a code without a text"),
    ("hipGetErrorName", Facts, "a code without a name"),
    ("hipGetErrorString", Facts, "a code without a text"),
];

/// One code only.
const ONE_CODE: &[(&str, u32, Told, &str)] = &[
    (
        "cuStreamBatchMemOp_v2",
        code::NOT_SUPPORTED,
        Nothing,
        "as where stream memory operations are switched off: cuLaunchHostFunc takes its place",
    ),
    ("cuStreamQuery", code::CAPTURE_UNSUPPORTED, Nothing, EVENT),
    ("cuStreamSynchronize", code::CAPTURE_UNSUPPORTED, Nothing, EVENT),
    ("hipStreamQuery", code::CAPTURE_UNSUPPORTED, Nothing, EVENT),
    ("hipStreamSynchronize", code::CAPTURE_UNSUPPORTED, Nothing, EVENT),
];

/// Where success with a null result is not an error either, or means something.
const NULLS: &[(&str, Told, &str)] = &[
    ("cuDriverGetVersion", Facts, "version 0.0; what the driver can do is seen by its functions"),
    ("hipRuntimeGetVersion", Facts, "as with CUDA"),
    ("cuDeviceGetCount", Facts, "no device"),
    ("hipGetDeviceCount", Facts, "no device"),
    ("cuDeviceGet", Nothing, "0 is a device"),
    ("hipDeviceGet", Nothing, "0 is a device"),
    ("hipGetDevice", Nothing, "0 is a device"),
    ("cuCtxPopCurrent_v2", Nothing, "the driver says that it has restored what was current"),
];

/// Functions that are looked up and that no test on Linux can call, with the reason.
const NEVER_CALLED: &[(&str, &str)] = &[
    ("cuDeviceGetLuid", "only Windows has LUIDs"),
    ("hipDeviceGetLuid", "only Windows has LUIDs"),
    ("cuDeviceGetNvSciSyncAttributes", "only embedded systems have NvSci; `--test sims nvsci` lets it fail"),
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

const EVENT: &str = "an event is queried instead, as beside a recording of another thread";
const SEMAPHORES: &str = "HIP has external semaphores on Windows only; refused before the runtime is called";
const IMAGES: &str = "the runtime maps no images on Linux; refused before it is called";

/// Functions whose place another takes when they are missing, so that nothing is seen of it.
const REPLACED: &[(&str, &str)] = &[
    ("cuDeviceGetUuid_v2", "cuDeviceGetUuid, which older drivers have"),
    ("hipGetDevicePropertiesR0600", "hipGetDeviceProperties, which older runtimes have"),
    ("hipGetDeviceProperties", "hipGetDevicePropertiesR0600, which is asked first"),
    ("cuStreamBatchMemOp_v2", "cuLaunchHostFunc, behind which a signal waits as well"),
    ("hipExtMallocWithFlags", "hipHostMalloc, as pinned memory does for signal memory"),
    ("cuThreadExchangeStreamCaptureMode", "none: older drivers have no recordings that mind other threads"),
    ("hipThreadExchangeStreamCaptureMode", "none, as with CUDA"),
    ("cuMemImportFromShareableHandle", "cuImportExternalMemory, for native memory"),
    ("hipMalloc", "none, from HIP 5.7 on: fills are copies before"),
    ("hipExtStreamCreateWithCUMask", "hipStreamCreateWithFlags, whose streams share hardware queues"),
];

/// How a fault must be told.
pub(crate) fn told(vendor: Vendor, fault: &Fault) -> Told {
    let function = fault.function.as_str();
    let find =
        |table: &[(&str, Told, &str)]| table.iter().find(|(name, ..)| *name == function).map(|(_, told, _)| *told);
    let told = match fault.answer {
        // No answer of the runtime's: an error, as everywhere.
        Answer::Null if function == "hipExtMallocWithFlags" => None,
        // What the runtime answers that has no such memory; else there is, and it cannot be had.
        Answer::Code(code) if function == "hipExtMallocWithFlags" && ![code::INVALID_VALUE, 801].contains(&code) => {
            None
        }
        Answer::Code(code) => {
            let no_device = code::kind(vendor, function, code) == ErrorKind::NoDevice;
            // A driver without a device is no error of counting them.
            let one = ONE_CODE.iter().find(|(name, only, ..)| *name == function && *only == code);
            one.map(|(.., told, _)| *told)
                .or(find(CODES))
                .or((code::counts_devices(function) && no_device).then_some(Facts))
        }
        Answer::Null => find(NULLS).or(find(CODES)),
    };
    match told {
        // The same is asked again, of which only the first answer must show.
        Some(Facts) if matches!(fault.uses, Uses::Nth(2..)) => FactsOrNothing,
        told => told.unwrap_or(Told::Failure),
    }
}

/// Why a function is never called, if it is not.
pub(crate) fn never_called(function: &str) -> Option<&'static str> {
    NEVER_CALLED.iter().find(|(name, _)| *name == function).map(|(_, reason)| *reason)
}

/// Whether another function takes this one's place.
pub(crate) fn is_replaced(function: &str) -> bool {
    REPLACED.iter().any(|(name, _)| *name == function)
}
