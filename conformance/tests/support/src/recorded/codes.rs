//! Errors for the status codes of a driver's functions. Used by the backends' tests.

use std::ffi::c_void;

use gpu_interop_core::backend::{
    DevicePtr, RawArray, RawEvent, RawGraph, RawGraphNode, RawKernel, RawMemory, RawMipmappedArray, RawModule,
    RawSemaphore, RawSignal, RawSurface, RawTexture, RawWait, TextureSource,
};
use gpu_interop_core::{
    BackendDevice, ErrorKind, KernelArg, LaunchConfig, MemoryHandle, MemoryImport, SemaphoreHandle, SemaphoreImport,
    SignalParams, TextureDesc, WaitCondition, WaitParams,
};

use crate::call;
use crate::recorded::calls::{SIZE, STREAM_OF_TEST, file};
use crate::recorded::{
    CODES, EVENT, EXEC, KERNEL, LEVEL, MEMORY, MIPMAPPED, MODULE, NODE, Recorder, SEMAPHORE, STREAM, SURFACE, TEXTURE,
};

/// Makes each function of both vendors fail with each code.
pub fn codes(device: &dyn BackendDevice, recorder: &mut Recorder) {
    let (stream, address) = (STREAM_OF_TEST, DevicePtr::new(0x7000));
    let (event, graph, node) = (RawEvent::new(EVENT), RawGraph::new(EXEC), RawGraphNode::new(NODE));
    let (level, array) = (RawArray::new(LEVEL), RawMipmappedArray::new(MIPMAPPED));
    let semaphore = RawSemaphore::new(SEMAPHORE);
    let signal = [RawSignal { semaphore, params: SignalParams::Value(1) }];
    let wait = [RawWait { semaphore, params: WaitParams::Value(1) }];
    let equal = WaitCondition::Equal;
    // SAFETY: the mock imports nothing.
    let memory = unsafe { MemoryImport::new(MemoryHandle::OpaqueFd(file(SIZE)), SIZE) };
    // SAFETY: as above.
    let of_semaphore = unsafe { SemaphoreImport::new(SemaphoreHandle::OpaqueFd(file(SIZE))) };
    let config = LaunchConfig::linear(1);
    let args = [KernelArg::Ptr(address), KernelArg::U32(1), KernelArg::U64(2), KernelArg::F32(3.0)];
    extern "C" fn nothing(_data: *mut c_void) {}
    // SAFETY: the mock uses none of the arguments.
    unsafe {
        // CUDA_ERROR_NOT_READY, hipErrorNotReady are not failures of a query.
        recorder.control(&format!("fail {} 600\n", recorder.pick("cuStreamQuery", "hipStreamQuery")));
        assert!(!device.query_stream(stream).expect("a query"), "a stream with work is not idle");
        recorder.control(&format!("fail {} 600\n", recorder.pick("cuEventQuery", "hipEventQuery")));
        assert!(!device.query_event(event).expect("a query"), "an event that has not passed");
        captures(device, recorder);
        let (host, kernel) = (std::ptr::without_provenance_mut::<u8>(0x8000), RawKernel::new(KERNEL));
        let open = || std::fs::read_dir("/proc/self/fd").expect("a list").count();
        let before = open();
        recorder.every_code(["cuImportExternalMemory", "hipImportExternalMemory"], || device.import_memory(&memory));
        assert_eq!(open(), before, "failed imports leak no file descriptors");
        // Signals and waits.
        let blocks = [0; 18];
        macro_rules! every_code {
            ($($cuda:ident, $hip:ident: $call:expr;)*) => {
                $( recorder.every_code([stringify!($cuda), stringify!($hip)], || $call); )*
            };
        }
        every_code! {
            cuDestroyExternalMemory, hipDestroyExternalMemory: device.destroy_memory(RawMemory::new(MEMORY));
            cuImportExternalSemaphore, hipImportExternalSemaphore: device.import_semaphore(&of_semaphore);
            cuDestroyExternalSemaphore, hipDestroyExternalSemaphore: device.destroy_semaphore(semaphore);
            cuSignalExternalSemaphoresAsync, hipSignalExternalSemaphoresAsync: device.signal_semaphores(stream, &signal);
            cuWaitExternalSemaphoresAsync, hipWaitExternalSemaphoresAsync: device.wait_semaphores(stream, &wait);
            cuSignalExternalSemaphoresAsync, hipSignalExternalSemaphoresAsync:
                device.signal_blocks(stream, &[semaphore], &blocks);
            cuWaitExternalSemaphoresAsync, hipWaitExternalSemaphoresAsync:
                device.wait_blocks(stream, &[semaphore], &blocks);
            cuStreamCreate, hipStreamCreateWithFlags: device.create_stream();
            cuStreamDestroy_v2, hipStreamDestroy: device.destroy_stream(stream);
            cuStreamSynchronize, hipStreamSynchronize: device.synchronize_stream(stream);
            cuStreamQuery, hipStreamQuery: device.query_stream(stream);
            cuEventCreate, hipEventCreateWithFlags: device.create_event();
            cuEventRecord, hipEventRecord: device.record_event(event, stream);
            cuEventQuery, hipEventQuery: device.query_event(event);
            cuStreamWaitEvent, hipStreamWaitEvent: device.wait_event(stream, event);
            cuEventDestroy_v2, hipEventDestroy: device.destroy_event(event);
            cuMemcpyDtoDAsync_v2, hipMemcpyDtoDAsync: device.copy(stream, address, address, 1);
            cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync: device.copy_to_host(stream, host, address, 1);
            cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync: device.copy_from_host(stream, address, host, 1);
            cuMemsetD8Async, hipMemsetD8Async: device.fill_u8(stream, address, 1, 1 << 20);
            cuMemsetD32Async, hipMemsetD32Async: device.fill_u32(stream, address, 1, 1 << 20);
            cuStreamWaitValue32_v2, hipStreamWaitValue32: device.wait_value_u32(stream, address, 1, equal);
            cuStreamWaitValue64_v2, hipStreamWaitValue64: device.wait_value_u64(stream, address, 1, equal);
            cuStreamWriteValue32_v2, hipStreamWriteValue32: device.write_value_u32(stream, address, 1);
            cuStreamWriteValue64_v2, hipStreamWriteValue64: device.write_value_u64(stream, address, 1);
            cuLaunchHostFunc, hipLaunchHostFunc: device.launch_host_function(stream, nothing, std::ptr::null_mut());
            cuMipmappedArrayGetLevel, hipMipmappedArrayGetLevel: device.mipmapped_array_level(array, 0);
            cuMipmappedArrayDestroy, hipMipmappedArrayDestroy: device.free_mipmapped_array(array);
            cuSurfObjectCreate, hipCreateSurfaceObject: device.create_surface(level);
            cuSurfObjectDestroy, hipDestroySurfaceObject: device.destroy_surface(RawSurface::new(SURFACE));
            cuTexObjectCreate, hipTexObjectCreate: device.create_texture(TextureSource::Array(level), &TextureDesc::new());
            cuTexObjectDestroy, hipTexObjectDestroy: device.destroy_texture(RawTexture::new(TEXTURE));
            cuModuleGetFunction, hipModuleGetFunction: device.module_kernel(RawModule::new(MODULE), c"kernel");
            cuModuleUnload, hipModuleUnload: device.unload_module(RawModule::new(MODULE));
            cuLaunchKernel, hipModuleLaunchKernel: device.launch_kernel(stream, kernel, &config, &args);
            cuStreamBeginCapture_v2, hipStreamBeginCapture: device.begin_capture(stream);
            cuStreamEndCapture, hipStreamEndCapture: device.end_capture(stream);
            cuStreamGetCaptureInfo_v2, hipStreamGetCaptureInfo_v2: device.last_captured(stream);
            cuGraphInstantiateWithFlags, hipGraphInstantiateWithFlags: device.end_capture(stream);
            cuGraphLaunch, hipGraphLaunch: device.launch_graph(stream, graph);
            cuGraphExecDestroy, hipGraphExecDestroy: device.destroy_graph(graph);
            cuGraphExecExternalSemaphoresSignalNodeSetParams, hipGraphExecExternalSemaphoresSignalNodeSetParams:
                device.set_captured_signals(graph, node, &signal);
            cuGraphExecExternalSemaphoresWaitNodeSetParams, hipGraphExecExternalSemaphoresWaitNodeSetParams:
                device.set_captured_waits(graph, node, &wait);
            cuMemGetAllocationGranularity, hipMemGetAllocationGranularity: device.create_exportable(1);
        }
        let allocation = device.create_exportable(1).expect("allocates");
        let names = ["cuMemExportToShareableHandle", "hipMemExportToShareableHandle"];
        recorder.every_code(names, || device.export_allocation(&allocation));
        device.destroy_exportable(&allocation).expect("frees");
        let frees = [
            ["cuMemUnmap", "hipMemUnmap"],
            ["cuMemAddressFree", "hipMemAddressFree"],
            ["cuMemRelease", "hipMemRelease"],
        ];
        for names in frees {
            // The other steps still run, but addresses of a mapping that the driver keeps are not freed.
            recorder.take();
            recorder.every_code(names, || {
                device.create_exportable(1).and_then(|allocation| device.destroy_exportable(&allocation))
            });
            let found = recorder.take();
            for [cuda, hip] in frees {
                let symbol = recorder.pick(cuda, hip);
                let count = found.iter().filter(|line| line.split(' ').next() == Some(symbol)).count();
                let is_kept = names[0] == "cuMemUnmap" && cuda == "cuMemAddressFree";
                assert_eq!(count, if is_kept { 0 } else { CODES.len() }, "{symbol}, where {names:?} fails");
            }
        }
    }
}

/// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`, `hipErrorStreamCaptureUnsupported` (900): another thread captures. An event
/// is queried instead, unless the stream itself is capturing.
fn captures(device: &dyn BackendDevice, recorder: &mut Recorder) {
    let stream = STREAM_OF_TEST;
    for (cuda, hip) in [("cuStreamQuery", "hipStreamQuery"), ("cuStreamSynchronize", "hipStreamSynchronize")] {
        let query = || {
            // SAFETY: the mock's stream.
            unsafe {
                if cuda == "cuStreamQuery" {
                    device.query_stream(stream)
                } else {
                    device.synchronize_stream(stream).map(|()| true)
                }
            }
        };
        let fails = format!("fail {} 900\n", recorder.pick(cuda, hip));
        recorder.control(&fails);
        let error = query().expect_err("the stream itself is capturing");
        assert_eq!(error.code().map(|code| code.value), Some(900), "{error}");
        recorder.control(&format!("{fails}attribute records 0\n"));
        recorder.take();
        assert!(query().expect("a query of an event"));
        let rejected = [
            call!("cuStreamQuery", "hipStreamQuery", "{STREAM:#x}"),
            call!("cuStreamSynchronize", "hipStreamSynchronize", "{STREAM:#x}"),
        ];
        let first = rejected[usize::from(cuda == "cuStreamSynchronize")].clone();
        let expected = [
            first,
            call!("cuStreamGetCaptureInfo_v2", "hipStreamGetCaptureInfo_v2", "{STREAM:#x}"),
            call!("cuEventCreate", "hipEventCreateWithFlags", "2"),
            call!("cuEventRecord", "hipEventRecord", "{EVENT:#x} {STREAM:#x}"),
            call!("cuEventQuery", "hipEventQuery", "{EVENT:#x}"),
            call!("cuEventDestroy_v2", "hipEventDestroy", "{EVENT:#x}"),
        ];
        recorder.entered("the progress of a stream", &expected);
        if cuda == "cuStreamQuery" {
            let event = recorder.pick("cuEventQuery", "hipEventQuery");
            recorder.control(&format!("{fails}attribute records 0\nfail {event} 600\n"));
            assert!(!query().expect("a query of an event"), "the event has not passed");
        }
    }
    recorder.control("");
    recorder.take();
}

/// Checks the error kind of each code for an ordinary call and for an import, with the vendor's table.
pub fn kinds(
    device: &dyn BackendDevice,
    recorder: &mut Recorder,
    of_call: &[(u32, ErrorKind)],
    of_import: &[(u32, ErrorKind)],
) {
    // SAFETY: the mock imports nothing.
    let memory = unsafe { MemoryImport::new(MemoryHandle::OpaqueFd(file(SIZE)), SIZE) };
    for (code, kind) in of_call {
        recorder.control(&format!("fail {} {code}\n", recorder.pick("cuEventCreate", "hipEventCreateWithFlags")));
        let error = device.create_event().expect_err("a failure");
        assert_eq!(error.kind(), *kind, "code {code} of a call: {error}");
    }
    for (code, kind) in of_import {
        recorder
            .control(&format!("fail {} {code}\n", recorder.pick("cuImportExternalMemory", "hipImportExternalMemory")));
        // SAFETY: the mock imports nothing.
        let error = unsafe { device.import_memory(&memory) }.expect_err("a failure");
        assert_eq!(error.kind(), *kind, "code {code} of an import: {error}");
        let fd = memory.handle().as_fd().expect("a descriptor");
        assert!(rustix::fs::fstat(fd).is_ok_and(|stat| stat.st_size == 4096), "the request keeps its file descriptor");
    }
    recorder.control("");
}
