//! What stays alive in the driver after a call of freeing has failed: each of them, and nothing else, is no leak.

use crate::control::{Live, Sort};
use crate::notice::Notice;

/// What a driver keeps when this function of CUDA or HIP was told to fail: the object that it was called for, which
/// nobody may touch again, as a driver that fails to free it may have freed it all the same.
const FREEING: &[(&str, &str, &[Sort])] = &[
    ("cuDestroyExternalMemory", "hipDestroyExternalMemory", &[Sort::Imports]),
    // Of HIP signal memory too.
    ("cuMemFree_v2", "hipFree", &[Sort::Mappings, Sort::Allocations]),
    ("cuMemFreeHost", "hipHostFree", &[Sort::Allocations]),
    ("cuMipmappedArrayDestroy", "hipMipmappedArrayDestroy", &[Sort::Arrays]),
    ("cuSurfObjectDestroy", "hipDestroySurfaceObject", &[Sort::Surfaces]),
    ("cuTexObjectDestroy", "hipTexObjectDestroy", &[Sort::Textures]),
    ("cuDestroyExternalSemaphore", "hipDestroyExternalSemaphore", &[Sort::Semaphores]),
    ("cuStreamDestroy_v2", "hipStreamDestroy", &[Sort::Streams]),
    ("cuEventDestroy_v2", "hipEventDestroy", &[Sort::Events]),
    ("cuModuleUnload", "hipModuleUnload", &[Sort::Modules]),
    ("cuMemRelease", "hipMemRelease", &[Sort::Descriptors]),
    ("cuMemAddressFree", "hipMemAddressFree", &[Sort::Reservations]),
    ("cuGraphExecDestroy", "hipGraphExecDestroy", &[Sort::Graphs]),
    ("cuGraphDestroy", "hipGraphDestroy", &[Sort::Graphs]),
    ("cuDevicePrimaryCtxRelease_v2", "", &[Sort::Contexts]),
];

/// The functions that make a device current, and those that find out whether HIP 6 still uses addresses. If one fails, the function that it was called for is not called; if that
/// was to free something, it stays.
const ENTERING: &[&str] =
    &["cuCtxPushCurrent_v2", "hipGetDevice", "hipSetDevice", "hipStreamCreateWithFlags", "hipLaunchHostFunc"];

/// The functions that make current again what was, with no way around them.
const LEAVING: &[&str] = &["cuCtxPopCurrent_v2", "hipSetDevice"];

/// Of what each failed call of this function keeps one; nothing if it frees nothing.
pub(crate) fn by(function: &str) -> &'static [Sort] {
    FREEING.iter().find(|(cuda, hip, _)| [cuda, hip].contains(&&function)).map_or(&[], |(.., sorts)| *sorts)
}

/// Whether a failed call of this function may keep something else from being freed.
pub(crate) fn enters(function: &str) -> bool {
    ENTERING.contains(&function)
}

/// What stays of exportable memory, by the function that failed (its documented name). The range of addresses and the
/// memory are freed one by one. A device that cannot be made current tries once more when it is closed.
pub(crate) fn of_allocation(operation: &str) -> Option<Sort> {
    [Sort::Descriptors, Sort::Reservations].into_iter().find(|sort| by(operation) == [*sort])
}

/// Whether this reports that a lost device was closed while a bridge of timelines waited for it: its words stay, which
/// streams might still write.
pub(crate) fn is_pending(notice: &Notice) -> bool {
    notice.message == "work is still pending on a closed device; its objects are leaked" && notice.resource == "0"
}

/// Whether a failed call of this function may leave another context or device current than was.
pub(crate) fn leaves(function: &str) -> bool {
    LEAVING.contains(&function)
}

/// What was reported through `tracing` as not freed.
pub(crate) fn reported(notices: &[Notice]) -> Live {
    let mut live = Live::default();
    for notice in notices {
        let Some(sort) = of(notice) else { continue };
        live.add(sort);
        // What is launched and what it was made of, neither of which was tried.
        if sort == Sort::Graphs && !by(operation(notice)).contains(&sort) {
            live.add(sort);
        }
    }
    live
}

fn of(notice: &Notice) -> Option<Sort> {
    match notice.message.as_str() {
        "freeing a driver object failed; it is leaked" => resource(notice),
        "freeing a mapping failed; it is leaked" => Some(Sort::Mappings),
        "freeing device memory failed; it is leaked" => of_allocation(operation(notice)),
        "destroying the captured graph of an executable graph failed" => Some(Sort::Graphs),
        "ending a recording that was given up failed" => {
            by(operation(notice)).contains(&Sort::Graphs).then_some(Sort::Graphs)
        }
        "reserved addresses of a closed device are leaked" => Some(Sort::Reservations),
        "freeing a graph that was given up failed" => Some(Sort::Graphs),
        "destroying an event failed" => Some(Sort::Events),
        "destroying a stream failed; it is leaked" => Some(Sort::Streams),
        "freeing the source buffer of fills failed; it is leaked" => Some(Sort::Allocations),
        "releasing the primary context failed" => Some(Sort::Contexts),
        "freeing signal memory failed; it is leaked" | "freeing pinned memory failed" => Some(Sort::Allocations),
        _ => None,
    }
}

/// The function that failed.
pub(crate) fn operation(notice: &Notice) -> &str {
    notice.error.split(':').next().unwrap_or_default()
}

/// The sort of a driver object, from how it is printed.
fn resource(notice: &Notice) -> Option<Sort> {
    let text = notice.resource.strip_prefix("Some(").unwrap_or(&notice.resource);
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
        "Allocation" => return of_allocation(operation(notice)),
        _ => panic!("an object of an unknown sort: {notice}"),
    })
}
