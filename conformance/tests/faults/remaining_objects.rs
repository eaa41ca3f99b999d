//! Objects that remain in the driver after a failed call that frees them. Only these are not leaks.

use crate::log_events::LogEvent;
use crate::simulator::{Live, Sort};

/// The objects that remain when a function of CUDA or HIP fails. They must not be used again: a driver that reports a
/// failure may have freed them.
const FREEING: &[(&str, &str, &[Sort])] = &[
    ("cuDestroyExternalMemory", "hipDestroyExternalMemory", &[Sort::Imports]),
    // Also HIP's signal memory.
    ("cuMemFree_v2", "hipFree", &[Sort::Mappings, Sort::Allocations]),
    ("cuMemHostUnregister", "hipHostUnregister", &[Sort::Allocations]),
    ("cuMipmappedArrayDestroy", "hipMipmappedArrayDestroy", &[Sort::Arrays]),
    ("cuSurfObjectDestroy", "hipDestroySurfaceObject", &[Sort::Surfaces]),
    ("cuTexObjectDestroy", "hipTexObjectDestroy", &[Sort::Textures]),
    ("cuDestroyExternalSemaphore", "hipDestroyExternalSemaphore", &[Sort::Semaphores]),
    ("cuStreamDestroy_v2", "hipStreamDestroy", &[Sort::Streams]),
    ("cuEventDestroy_v2", "hipEventDestroy", &[Sort::Events]),
    ("cuModuleUnload", "hipModuleUnload", &[Sort::Modules]),
    ("cuMemRelease", "hipMemRelease", &[Sort::Descriptors]),
    // The addresses of a mapping that the driver may keep are not freed.
    ("cuMemUnmap", "hipMemUnmap", &[Sort::Reservations]),
    ("cuMemAddressFree", "hipMemAddressFree", &[Sort::Reservations]),
    ("cuGraphExecDestroy", "hipGraphExecDestroy", &[Sort::Graphs]),
    ("cuGraphDestroy", "hipGraphDestroy", &[Sort::Graphs]),
    ("cuDevicePrimaryCtxRelease_v2", "", &[Sort::Contexts]),
];

/// Functions that make a device current, or query whether HIP 6 still uses addresses. If one fails, the call that it
/// prepares is omitted, and an object to be freed remains.
const ENTERING: &[&str] =
    &["cuCtxPushCurrent_v2", "hipGetDevice", "hipSetDevice", "hipStreamCreateWithFlags", "hipLaunchHostFunc"];

/// The functions that restore the current context or device; none can replace them.
const LEAVING: &[&str] = &["cuCtxPopCurrent_v2", "hipSetDevice"];

/// The kinds of which each failed call of this function leaves one object; empty if it frees nothing.
pub(crate) fn by(function: &str) -> &'static [Sort] {
    FREEING.iter().find(|(cuda, hip, _)| [cuda, hip].contains(&&function)).map_or(&[], |(.., sorts)| *sorts)
}

/// `true` if a failed call of this function may prevent another call of freeing.
pub(crate) fn enters(function: &str) -> bool {
    ENTERING.contains(&function)
}

/// The remaining object of exportable memory, by the documented name of the failed function. The address range and the
/// memory are freed one by one. A device that cannot be made current retries when it is closed.
pub(crate) fn of_allocation(operation: &str) -> Option<Sort> {
    [Sort::Descriptors, Sort::Reservations].into_iter().find(|sort| by(operation) == [*sort])
}

/// `true` if this reports a lost device that was closed while a timeline bridge waited for it, or while words were in use:
/// the words remain, because streams might still write them.
pub(crate) fn is_pending(event: &LogEvent) -> bool {
    event.message == "streams may still write to signal memory of a closed device; it is leaked"
        || event.message == "work is still pending on a closed device; its objects are leaked" && event.resource == "0"
}

/// `true` if a failed call of this function may leave the current context or device changed.
pub(crate) fn leaves(function: &str) -> bool {
    LEAVING.contains(&function)
}

/// The objects that log events report as not freed.
pub(crate) fn reported(logged: &[LogEvent]) -> Live {
    let mut live = Live::default();
    for event in logged {
        let Some(sort) = of(event) else { continue };
        live.add(sort);
        // The executable graph and its template; freeing neither was tried.
        if sort == Sort::Graphs && !by(operation(event)).contains(&sort) {
            live.add(sort);
        }
    }
    live
}

fn of(event: &LogEvent) -> Option<Sort> {
    match event.message.as_str() {
        "freeing a driver object failed; it is leaked" => resource(event),
        "freeing a mapping failed; it is leaked" => Some(Sort::Mappings),
        "freeing device memory failed; it is leaked" => of_allocation(operation(event)),
        "destroying the captured graph of an executable graph failed" => Some(Sort::Graphs),
        "ending a discarded capture failed" => by(operation(event)).contains(&Sort::Graphs).then_some(Sort::Graphs),
        "reserved addresses of a closed device are leaked" => Some(Sort::Reservations),
        "destroying a discarded graph failed" => Some(Sort::Graphs),
        "destroying an event failed" => Some(Sort::Events),
        "destroying a stream failed; it is leaked" => Some(Sort::Streams),
        "freeing the source buffer of fills failed; it is leaked" => Some(Sort::Allocations),
        "releasing the primary context failed" => Some(Sort::Contexts),
        "freeing the sentinel failed; it is leaked" => Some(Sort::Allocations),
        _ => None,
    }
}

/// The failed function.
pub(crate) fn operation(event: &LogEvent) -> &str {
    event.error.split(':').next().unwrap_or_default()
}

/// The kind of a driver object, from its printed form.
fn resource(event: &LogEvent) -> Option<Sort> {
    let text = event.resource.strip_prefix("Some(").unwrap_or(&event.resource);
    let name: String = text.chars().take_while(char::is_ascii_alphanumeric).collect();
    Some(match name.as_str() {
        "Memory" => Sort::Imports,
        "Buffer" => Sort::Mappings,
        "MipmappedArray" => Sort::Arrays,
        "Surface" => Sort::Surfaces,
        "Texture" => Sort::Textures,
        "Semaphore" => Sort::Semaphores,
        "Module" => Sort::Modules,
        "Event" => Sort::Events,
        "Stream" | "Recorder" => Sort::Streams,
        "Graph" => Sort::Graphs,
        "SignalMemory" => Sort::Allocations,
        "Allocation" => return of_allocation(operation(event)),
        _ => panic!("an object of an unknown sort: {event}"),
    })
}
