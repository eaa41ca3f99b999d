//! Expected calls of a device: common functions, imports, array copies and mapped images; and errors for the status codes of
//! a driver's functions. Used by the backends' tests.

use std::ffi::c_void;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use gpu_interop_core::backend::{
    ArrayCopy, ArrayCopySide, BlockLayout, DevicePtr, RawArray, RawEvent, RawGraph, RawGraphNode, RawKernel, RawMemory,
    RawMipmappedArray, RawModule, RawSemaphore, RawSignal, RawStream, RawSurface, RawTexture, RawWait, TextureSource,
};
use gpu_interop_core::handle::{KmtHandle, NvSciBufObject, NvSciFence, NvSciSyncObject, ObjectName, Win32Object};
use gpu_interop_core::{
    AddressMode, ArrayShape, BackendDevice, ErrorKind, FilterMode, KernelArg, LaunchConfig, MemoryHandle, MemoryImport,
    MipmappedArrayDesc, ReadMode, SemaphoreHandle, SemaphoreImport, SignalParams, TextureDesc, WaitCondition,
    WaitParams,
};

use crate::call;
use crate::recorded::{
    CODES, DEVICE, EVENT, EXEC, Expected, GRANULARITY, KERNEL, LEVEL, MEMORY, MIPMAPPED, MODULE, NODE, Names, RESERVED,
    Recorder, SEMAPHORE, STREAM, SURFACE, TEXTURE,
};
pub use crate::recorded::{SIZE, pointer};
pub use crate::request::anonymous_memory as file;

pub const STREAM_OF_TEST: RawStream = RawStream::new(STREAM);
/// Checks every call that is the same for both vendors' drivers.
pub fn common(device: &dyn BackendDevice, recorder: &mut Recorder) {
    memory_imports(device, recorder);
    semaphore_imports(device, recorder);
    batches(device, recorder);
    prepared(device, recorder);
    streams_and_events(device, recorder);
    copies_and_fills(device, recorder);
    words(device, recorder);
    surfaces_and_textures(device, recorder);
    modules(device, recorder);
    graphs(device, recorder);
    exportable(device, recorder);
}

/// Parameters with their expected text in the record.
type Shown<T> = Vec<(T, String)>;

fn parameters() -> (Shown<SignalParams>, Shown<WaitParams>) {
    // SAFETY: the mock reads nothing behind the address.
    let fence = unsafe { NvSciFence::from_raw(pointer(0xfe1)) };
    let signal = |value: u64, fence: &str, key: u64, flags: u32| {
        format!("value {value}, fence {fence}, key {key}, flags {flags}, reserved 0 0")
    };
    let wait = |value: u64, fence: &str, key: u64, timeout: u32, flags: u32| {
        format!("value {value}, fence {fence}, key {key}, timeout {timeout}, flags {flags}, reserved 0 0")
    };
    let skipped = |skip_memsync| SignalParams::NvSciSync { fence, skip_memsync };
    let signals = vec![
        (SignalParams::Binary, signal(0, "0", 0, 0)),
        (SignalParams::Value(1 << 40), signal(1 << 40, "0", 0, 0)),
        (SignalParams::Key(8), signal(0, "0", 8, 0)),
        (skipped(false), signal(0, "0xfe1", 0, 0)),
        // CUDA_EXTERNAL_SEMAPHORE_SIGNAL_SKIP_NVSCIBUF_MEMSYNC, and below ..._WAIT_...
        (skipped(true), signal(0, "0xfe1", 0, 1)),
    ];
    let skipped = |skip_memsync| WaitParams::NvSciSync { fence, skip_memsync };
    let keyed = |timeout| WaitParams::Key { key: 9, timeout };
    let waits = vec![
        (WaitParams::Binary, wait(0, "0", 0, 0, 0)),
        (WaitParams::Value(1 << 41), wait(1 << 41, "0", 0, 0, 0)),
        (keyed(None), wait(0, "0", 9, u32::MAX, 0)),
        (keyed(Some(Duration::from_millis(250))), wait(0, "0", 9, 250, 0)),
        (skipped(false), wait(0, "0xfe1", 0, 0, 0)),
        (skipped(true), wait(0, "0xfe1", 0, 0, 2)),
    ];
    (signals, waits)
}

fn batches(device: &dyn BackendDevice, recorder: &mut Recorder) {
    let (signals, waits) = parameters();
    let (graph, node) = (RawGraph::new(EXEC), RawGraphNode::new(NODE));
    each_batch(
        signals,
        |semaphore, params| RawSignal { semaphore, params },
        |raw, shown| {
            // SAFETY: the mock signals nothing.
            unsafe { device.signal_semaphores(STREAM_OF_TEST, raw) }.expect("signals");
            let arguments = format!("{shown} {} {STREAM:#x}", raw.len());
            let signal = call!("cuSignalExternalSemaphoresAsync", "hipSignalExternalSemaphoresAsync", "{arguments}");
            recorder.ordered("signals", &[], signal);
            // SAFETY: as above.
            unsafe { device.set_captured_signals(graph, node, raw) }.expect("replaces");
            let set = call!(
                "cuGraphExecExternalSemaphoresSignalNodeSetParams",
                "hipGraphExecExternalSemaphoresSignalNodeSetParams",
                "{EXEC:#x} {NODE:#x} {shown} {}",
                raw.len()
            );
            recorder.entered("recorded signals", &[set]);
        },
    );
    each_batch(
        waits,
        |semaphore, params| RawWait { semaphore, params },
        |raw, shown| {
            // SAFETY: the mock waits for nothing.
            unsafe { device.wait_semaphores(STREAM_OF_TEST, raw) }.expect("waits");
            let arguments = format!("{shown} {} {STREAM:#x}", raw.len());
            let wait = call!("cuWaitExternalSemaphoresAsync", "hipWaitExternalSemaphoresAsync", "{arguments}");
            recorder.ordered("waits", &[], wait);
            // SAFETY: as above.
            unsafe { device.set_captured_waits(graph, node, raw) }.expect("replaces");
            let set = call!(
                "cuGraphExecExternalSemaphoresWaitNodeSetParams",
                "hipGraphExecExternalSemaphoresWaitNodeSetParams",
                "{EXEC:#x} {NODE:#x} {shown} {}",
                raw.len()
            );
            recorder.entered("recorded waits", &[set]);
        },
    );
}

/// Prepared blocks reach the driver as the parameters of a batch do, which [`batches`] checks.
fn prepared(device: &dyn BackendDevice, recorder: &mut Recorder) {
    let layouts = device.semaphore_blocks().expect("the driver has blocks");
    for (index, values) in [&[0, 7, 1 << 41][..], &[5], &[u64::MAX - 1, 0]].into_iter().enumerate() {
        let semaphores: Vec<_> = (0..values.len()).map(|number| RawSemaphore::new(0x100 + number)).collect();
        let blocks = |layout: BlockLayout| {
            let mut blocks = vec![0; values.len() * layout.words];
            values.iter().enumerate().for_each(|(number, value)| blocks[number * layout.words + layout.value] = *value);
            blocks
        };
        let elements = || semaphores.iter().copied().zip(values.iter().copied());
        let signals: Vec<_> = elements()
            .map(|(semaphore, value)| RawSignal {
                semaphore,
                params: if value == 0 { SignalParams::Binary } else { SignalParams::Value(value) },
            })
            .collect();
        let waits: Vec<_> = elements()
            .map(|(semaphore, value)| RawWait {
                semaphore,
                params: if value == 0 { WaitParams::Binary } else { WaitParams::Value(value) },
            })
            .collect();
        recorder.take();
        let mut both = |plain: &dyn Fn(), prepared: &dyn Fn()| {
            plain();
            let expected = recorder.take();
            prepared();
            assert!(expected.iter().any(|line| line.contains("ExternalSemaphores")), "{expected:?}");
            assert_eq!(recorder.take(), expected, "batch {index}");
        };
        let (signal_blocks, wait_blocks) = (blocks(layouts.signal), blocks(layouts.wait));
        let stream = STREAM_OF_TEST;
        // SAFETY: the mock signals nothing and waits for nothing; the blocks have the device's layouts.
        unsafe {
            both(&|| device.signal_semaphores(stream, &signals).expect("signals"), &|| {
                device.signal_blocks(stream, &semaphores, &signal_blocks).expect("signals")
            });
            both(&|| device.wait_semaphores(stream, &waits).expect("waits"), &|| {
                device.wait_blocks(stream, &semaphores, &wait_blocks).expect("waits")
            });
        }
    }
}

/// Single elements and whole batches, which use different code. Each twice, because blocks are reused. `check` gets the
/// elements and how the record shows them.
fn each_batch<P: Copy, R>(
    params: Shown<P>,
    element: impl Fn(RawSemaphore, P) -> R,
    mut check: impl FnMut(&[R], String),
) {
    let all: Vec<_> =
        params.into_iter().enumerate().map(|(index, shown)| (RawSemaphore::new(0x100 + index), shown)).collect();
    for batch in all.chunks(1).chain([&all[..], &all[..2]]) {
        let raw: Vec<_> = batch.iter().map(|(semaphore, (params, _))| element(*semaphore, *params)).collect();
        let shown =
            batch.iter().map(|(semaphore, (_, shown))| format!("{{{:#x}, {shown}}}", semaphore.get())).collect();
        check(&raw, shown);
    }
}

fn streams_and_events(device: &dyn BackendDevice, recorder: &mut Recorder) {
    let stream = device.create_stream().expect("a stream");
    assert_eq!(stream, STREAM_OF_TEST);
    // CU_STREAM_NON_BLOCKING, hipStreamNonBlocking.
    recorder.entered("a stream", &[call!("cuStreamCreate", "hipStreamCreateWithFlags", "1")]);
    let event = device.create_event().expect("an event");
    assert_eq!(event, RawEvent::new(EVENT));
    // CU_EVENT_DISABLE_TIMING, hipEventDisableTiming.
    recorder.entered("an event", &[call!("cuEventCreate", "hipEventCreateWithFlags", "2")]);
    // SAFETY: stream and event belong to the mock.
    unsafe {
        device.record_event(event, stream).expect("records");
        recorder.enqueued("a record", &[call!("cuEventRecord", "hipEventRecord", "{EVENT:#x} {STREAM:#x}")]);
        device.wait_event(stream, event).expect("waits");
        recorder.enqueued("a wait", &[call!("cuStreamWaitEvent", "hipStreamWaitEvent", "{STREAM:#x} {EVENT:#x} 0")]);
        assert!(device.query_event(event).expect("a query"));
        recorder.entered("an event's query", &[call!("cuEventQuery", "hipEventQuery", "{EVENT:#x}")]);
        assert!(device.query_stream(stream).expect("a query"));
        recorder.entered("a stream's query", &[call!("cuStreamQuery", "hipStreamQuery", "{STREAM:#x}")]);
        device.synchronize_stream(stream).expect("waits");
        recorder.entered("synchronisation", &[call!("cuStreamSynchronize", "hipStreamSynchronize", "{STREAM:#x}")]);
        device.destroy_event(event).expect("destroys");
        recorder.entered("an event's end", &[call!("cuEventDestroy_v2", "hipEventDestroy", "{EVENT:#x}")]);
        device.destroy_stream(stream).expect("destroys");
        recorder.entered("a stream's end", &[call!("cuStreamDestroy_v2", "hipStreamDestroy", "{STREAM:#x}")]);
    }
}

fn copies_and_fills(device: &dyn BackendDevice, recorder: &mut Recorder) {
    let [first, second] = [0x1_0000_0000, 0x2_0000_0000].map(DevicePtr::new);
    let host = std::ptr::without_provenance_mut::<u8>(0x3_0000_0000);
    let stream = STREAM_OF_TEST;
    // SAFETY: the mock touches no memory.
    unsafe {
        device.copy(stream, first, second, 40).expect("copies");
        let arguments = format!("0x100000000 0x200000000 40 {STREAM:#x}");
        recorder.enqueued("a copy", &[call!("cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync", "{arguments}")]);
        device.copy_to_host(stream, host, second, 41).expect("copies");
        let arguments = format!("0x300000000 0x200000000 41 {STREAM:#x}");
        recorder.entered("a copy to the host", &[call!("cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync", "{arguments}")]);
        device.copy_from_host(stream, first, host, 42).expect("copies");
        let arguments = format!("0x100000000 0x300000000 42 {STREAM:#x}");
        recorder.entered("a copy from the host", &[call!("cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync", "{arguments}")]);
        // Large enough that CUDA's signals do not overtake them.
        device.fill_u8(stream, first, 0xa5, 1 << 20).expect("fills");
        let arguments = format!("0x100000000 165 1048576 {STREAM:#x}");
        recorder.enqueued("a fill", &[call!("cuMemsetD8Async", "hipMemsetD8Async", "{arguments}")]);
        // The length is in words, not bytes.
        device.fill_u32(stream, first, 0x1234_5678, 1 << 18).expect("fills");
        let arguments = format!("0x100000000 305419896 262144 {STREAM:#x}");
        recorder.enqueued("a fill of words", &[call!("cuMemsetD32Async", "hipMemsetD32Async", "{arguments}")]);
    }
}

fn words(device: &dyn BackendDevice, recorder: &mut Recorder) {
    let (stream, word) = (STREAM_OF_TEST, DevicePtr::new(0x4_0000_0008));
    let at = format!("{STREAM:#x} 0x400000008");
    // HIP's waits take a mask of the compared bits.
    let [mask_32, mask_64] = match recorder.names {
        Names::Cuda => ["", ""],
        Names::Hip => [" 0xffffffff", " 0xffffffffffffffff"],
    };
    let conditions = [
        (WaitCondition::GreaterOrEqual, 0),
        (WaitCondition::Equal, 1),
        (WaitCondition::And, 2),
        (WaitCondition::Nor, 3),
    ];
    // SAFETY: the mock reads and writes no words.
    unsafe {
        for (condition, number) in conditions {
            device.wait_value_u32(stream, word, 77, condition).expect("waits");
            let arguments = format!("{at} 77 {number}{mask_32}");
            recorder.enqueued("a wait", &[call!("cuStreamWaitValue32_v2", "hipStreamWaitValue32", "{arguments}")]);
            device.wait_value_u64(stream, word, 1 << 50, condition).expect("waits");
            let arguments = format!("{at} {} {number}{mask_64}", 1_u64 << 50);
            recorder.enqueued("a wait", &[call!("cuStreamWaitValue64_v2", "hipStreamWaitValue64", "{arguments}")]);
        }
        // CU_STREAM_WRITE_VALUE_DEFAULT: earlier writes are visible first.
        device.write_value_u32(stream, word, 78).expect("writes");
        recorder.enqueued("a write", &[call!("cuStreamWriteValue32_v2", "hipStreamWriteValue32", "{at} 78 0")]);
        device.write_value_u64(stream, word, 1 << 51).expect("writes");
        let arguments = format!("{at} {} 0", 1_u64 << 51);
        recorder.enqueued("a write", &[call!("cuStreamWriteValue64_v2", "hipStreamWriteValue64", "{arguments}")]);
    }
    static RAN: AtomicU32 = AtomicU32::new(0);
    extern "C" fn count(data: *mut c_void) {
        // Relaxed: the mock calls it at once.
        RAN.fetch_add(u32::try_from(data.addr()).unwrap_or(0), Ordering::Relaxed);
    }
    // SAFETY: the function takes any pointer.
    unsafe { device.launch_host_function(stream, count, std::ptr::without_provenance_mut(5)) }.expect("launches");
    recorder.entered("a function", &[call!("cuLaunchHostFunc", "hipLaunchHostFunc", "{STREAM:#x}")]);
    assert_eq!(RAN.load(Ordering::Relaxed), 5, "the function received its data");
}

fn surfaces_and_textures(device: &dyn BackendDevice, recorder: &mut Recorder) {
    let level = RawArray::new(LEVEL);
    // SAFETY: the mock has no arrays.
    unsafe {
        let array = gpu_interop_core::backend::RawMipmappedArray::new(MIPMAPPED);
        assert_eq!(device.mipmapped_array_level(array, 3).expect("a level"), level);
        let arguments = format!("{MIPMAPPED:#x} 3");
        recorder.entered("a level", &[call!("cuMipmappedArrayGetLevel", "hipMipmappedArrayGetLevel", "{arguments}")]);
        let surface = device.create_surface(level).expect("a surface");
        assert_eq!(surface, RawSurface::new(SURFACE));
        let resource = format!("{{type 0, array {LEVEL:#x}, rest 0, flags 0}}");
        recorder.entered("a surface", &[call!("cuSurfObjectCreate", "hipCreateSurfaceObject", "{resource}")]);
        device.destroy_surface(surface).expect("destroys");
        let destroy = call!("cuSurfObjectDestroy", "hipDestroySurfaceObject", "{SURFACE:#x}");
        recorder.entered("a surface's end", &[destroy]);
        let all = TextureSource::MipmappedArray { raw: array, levels: 5 };
        let of_all = format!("{{type 1, array {MIPMAPPED:#x}, rest 0, flags 0}}");
        let plain = TextureDesc::new();
        let mut between_levels = plain;
        between_levels.mip_filter = FilterMode::Linear;
        let shown = |address: u32, filter: u32, flags: &str, mip_filter: u32| {
            format!(
                "address {address} {address} {address}, filter {filter}, flags {flags}, anisotropy 0, mip filter {mip_filter}"
            )
        };
        // CU_TR_ADDRESS_MODE_WRAP to BORDER, CU_TR_FILTER_MODE_POINT and LINEAR, CU_TRSF_READ_AS_INTEGER 1,
        // CU_TRSF_NORMALIZED_COORDINATES 2, CU_TRSF_SRGB 0x10; HIP's are the same.
        let linear = plain.with_filter(FilterMode::Linear).with_read(ReadMode::NormalizedFloat);
        let srgb = plain.with_read(ReadMode::Srgb).with_normalized_coordinates(true);
        let cases = [
            (plain, shown(1, 0, "0x1", 0)),
            (plain.with_address(AddressMode::Wrap), shown(0, 0, "0x1", 0)),
            (plain.with_address(AddressMode::Mirror), shown(2, 0, "0x1", 0)),
            (plain.with_address(AddressMode::Border), shown(3, 0, "0x1", 0)),
            (linear, shown(1, 1, "0", 1)),
            (srgb, shown(1, 0, "0x12", 0)),
            (between_levels, shown(1, 0, "0x1", 1)),
        ];
        for (desc, shown) in cases {
            for (source, resource, last) in [(TextureSource::Array(level), &resource, 0), (all, &of_all, 4)] {
                let texture = device.create_texture(source, &desc).expect("a texture");
                assert_eq!(texture, RawTexture::new(TEXTURE));
                let arguments =
                    format!("{resource} {{{shown}, bias 0, levels 0 to {last}, border 0 0 0 0, reserved 0}} no view");
                recorder.entered("a texture", &[call!("cuTexObjectCreate", "hipTexObjectCreate", "{arguments}")]);
            }
        }
        device.destroy_texture(RawTexture::new(TEXTURE)).expect("destroys");
        recorder.entered("a texture's end", &[call!("cuTexObjectDestroy", "hipTexObjectDestroy", "{TEXTURE:#x}")]);
        device.free_mipmapped_array(array).expect("ends");
        let destroy = call!("cuMipmappedArrayDestroy", "hipMipmappedArrayDestroy", "{MIPMAPPED:#x}");
        // HIP's levels are separate objects.
        let level = (recorder.names == Names::Hip).then(|| call!("", "hipArrayDestroy", "{LEVEL:#x}"));
        let ends: Vec<Expected> = level.into_iter().chain([destroy]).collect();
        recorder.entered("an array's end", &ends);
    }
}

fn modules(device: &dyn BackendDevice, recorder: &mut Recorder) {
    let module = RawModule::new(MODULE);
    // SAFETY: the mock has no code.
    unsafe {
        assert_eq!(device.module_kernel(module, c"a_kernel").expect("a kernel"), RawKernel::new(KERNEL));
        let arguments = format!("{MODULE:#x} a_kernel");
        recorder.entered("a kernel", &[call!("cuModuleGetFunction", "hipModuleGetFunction", "{arguments}")]);
        let config = LaunchConfig::new([2, 3, 4], [5, 6, 7]).with_shared_mem_bytes(8);
        let args =
            [KernelArg::Ptr(DevicePtr::new(0xabc0)), KernelArg::U32(11), KernelArg::U64(1 << 33), KernelArg::F32(1.5)];
        device.launch_kernel(STREAM_OF_TEST, RawKernel::new(KERNEL), &config, &args).expect("launches");
        let arguments = format!("{KERNEL:#x} 2 3 4 5 6 7 8 {STREAM:#x} {{0xabc0 11 {} 1.5}} no extra", 1_u64 << 33);
        recorder.entered("a launch", &[call!("cuLaunchKernel", "hipModuleLaunchKernel", "{arguments}")]);
        device.unload_module(module).expect("unloads");
        recorder.entered("a module's end", &[call!("cuModuleUnload", "hipModuleUnload", "{MODULE:#x}")]);
    }
}

fn graphs(device: &dyn BackendDevice, recorder: &mut Recorder) {
    let stream = STREAM_OF_TEST;
    // SAFETY: the mock records nothing.
    unsafe {
        device.begin_capture(stream).expect("begins");
        // CU_STREAM_CAPTURE_MODE_RELAXED, hipStreamCaptureModeRelaxed.
        let begin = call!("cuStreamBeginCapture_v2", "hipStreamBeginCapture", "{STREAM:#x} 2");
        recorder.entered("a recording", &[begin]);
        assert_eq!(device.last_captured(stream).expect("a node"), RawGraphNode::new(NODE));
        let info = call!("cuStreamGetCaptureInfo_v2", "hipStreamGetCaptureInfo_v2", "{STREAM:#x}");
        recorder.entered("a node", &[info]);
        let graph = device.end_capture(stream).expect("a graph");
        assert_eq!(graph, RawGraph::new(EXEC));
        let end = [
            call!("cuStreamEndCapture", "hipStreamEndCapture", "{STREAM:#x}"),
            call!("cuGraphInstantiateWithFlags", "hipGraphInstantiateWithFlags", "0x901 0"),
        ];
        recorder.entered("a recording's end", &end);
        let launch = call!("cuGraphLaunch", "hipGraphLaunch", "{EXEC:#x} {STREAM:#x}");
        let event = call!("", "hipEventCreateWithFlags", "2");
        let record = call!("", "hipEventRecord", "{EVENT:#x} {STREAM:#x}");
        let ordered = recorder.names == Names::Hip;
        device.launch_graph(stream, graph).expect("launches");
        let first = if ordered { vec![event, launch.clone(), record.clone()] } else { vec![launch.clone()] };
        recorder.entered("a graph's launch", &first);
        // On another stream HIP's launch waits for the previous one.
        device.launch_graph(RawStream::new(0x512), graph).expect("launches");
        let launch = call!("cuGraphLaunch", "hipGraphLaunch", "{EXEC:#x} 0x512");
        let wait = call!("", "hipStreamWaitEvent", "0x512 {EVENT:#x} 0");
        let record = call!("", "hipEventRecord", "{EVENT:#x} 0x512");
        let second = if ordered { vec![wait, launch, record] } else { vec![launch] };
        recorder.entered("a second launch", &second);
        device.destroy_graph(graph).expect("destroys");
        let mut end = vec![call!("cuGraphExecDestroy", "hipGraphExecDestroy", "{EXEC:#x}")];
        end.extend(ordered.then(|| call!("", "hipEventDestroy", "{EVENT:#x}")));
        end.push(call!("cuGraphDestroy", "hipGraphDestroy", "0x901"));
        recorder.entered("a graph's end", &end);
    }
}

/// `CUmemAllocationProp`: pinned, exported as a file descriptor, on device [`DEVICE`].
pub fn allocation() -> String {
    format!("{{type 1, handle types 1, location 1 {DEVICE}, win32 null, flags 0}}")
}

/// Calls of an allocation of one granule.
pub fn allocates() -> Vec<Expected> {
    let (of, size) = (allocation(), GRANULARITY);
    vec![
        call!("cuMemGetAllocationGranularity", "hipMemGetAllocationGranularity", "{of} 0"),
        call!("cuMemCreate", "hipMemCreate", "{size} {of} 0"),
        call!("cuMemAddressReserve", "hipMemAddressReserve", "{size} 0 0 0"),
        call!("cuMemMap", "hipMemMap", "{RESERVED:#x} {size} 0 0x404 0"),
        call!("cuMemSetAccess", "hipMemSetAccess", "{RESERVED:#x} {size} {{location 1 {DEVICE}, flags 3}} 1"),
    ]
}

fn exportable(device: &dyn BackendDevice, recorder: &mut Recorder) {
    let allocation = device.create_exportable(GRANULARITY - 1).expect("allocates");
    assert_eq!((allocation.ptr.get(), allocation.size), (RESERVED, GRANULARITY));
    recorder.entered("an allocation", &allocates());
    for _ in 0..2 {
        // SAFETY: allocated above.
        let handle = unsafe { device.export_allocation(&allocation) }.expect("exports");
        // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.
        let export = call!("cuMemExportToShareableHandle", "hipMemExportToShareableHandle", "0x404 1 0");
        recorder.entered("an export", &[export]);
        let MemoryHandle::OpaqueFd(fd) = handle else { panic!("{handle:?}") };
        let flags = rustix::io::fcntl_getfd(fd.as_fd()).expect("an open descriptor");
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC), "an exported descriptor is inherited: {flags:?}");
        assert!(rustix::fs::fstat(&fd).is_ok_and(|stat| stat.st_size == 65536), "the exported memory");
    }
    // SAFETY: allocated above, and freed once.
    unsafe { device.destroy_exportable(&allocation) }.expect("frees");
    let size = GRANULARITY;
    let free = [
        call!("cuMemUnmap", "hipMemUnmap", "{RESERVED:#x} {size}"),
        call!("cuMemAddressFree", "hipMemAddressFree", "{RESERVED:#x} {size}"),
        call!("cuMemRelease", "hipMemRelease", "0x404"),
    ];
    recorder.entered("the end of an allocation", &free);
    // A failed step reverts exactly the steps before it, in reverse order.
    let steps = [
        ("cuMemCreate", "hipMemCreate", 0),
        ("cuMemAddressReserve", "hipMemAddressReserve", 1),
        ("cuMemMap", "hipMemMap", 2),
        ("cuMemSetAccess", "hipMemSetAccess", 3),
    ];
    for (cuda, hip, done) in steps {
        recorder.every_code([cuda, hip], || device.create_exportable(1));
        let found = recorder.take();
        let count = |cuda, hip| {
            let symbol = recorder.pick(cuda, hip);
            found.iter().filter(|line| line.starts_with(symbol)).count() / CODES.len()
        };
        let undone = [
            count("cuMemRelease ", "hipMemRelease "),
            count("cuMemAddressFree ", "hipMemAddressFree "),
            count("cuMemUnmap ", "hipMemUnmap "),
        ];
        assert_eq!(undone, [1, 2, 3].map(|step| usize::from(done >= step)), "{cuda} failed: {found:#?}");
    }
}

/// Memory type constants of a vendor's header.
#[derive(Debug, Clone, Copy)]
pub struct MemoryTypes {
    pub host: u32,
    pub device: u32,
    pub array: u32,
}

/// Returns copies between arrays, device memory and host memory, each with its own address, pitch and memory type, and
/// the expected arguments of the driver's function.
pub fn array_copies(types: MemoryTypes) -> Vec<(ArrayCopy, String)> {
    let shown = |offset: &str, kind: u32, [host, device, array]: [&str; 3], pitch: u64, height: u64| {
        format!(
            "{{origin {offset}, level 0, type {kind}, host {host}, device {device}, array {array}, pitch {pitch}, height \
             {height}}}"
        )
    };
    let array = ArrayCopySide::Array { raw: RawArray::new(LEVEL), offset: [8, 2, 3] };
    let shown_array = shown("8 2 3", types.array, ["0", "0", "0xa12"], 0, 0);
    let linear = ArrayCopySide::Linear { ptr: DevicePtr::new(0x1000), row_pitch: 64, rows: 5 };
    let shown_linear = shown("0 0 0", types.device, ["0", "0x1000", "0"], 64, 5);
    let host = ArrayCopySide::Host { ptr: std::ptr::without_provenance_mut(0x2000), row_pitch: 20, rows: 3 };
    let shown_host = shown("0 0 0", types.host, ["0x2000", "0", "0"], 20, 3);
    let rows = [
        (array, linear, &shown_array, &shown_linear),
        (linear, array, &shown_linear, &shown_array),
        (array, host, &shown_array, &shown_host),
        (host, array, &shown_host, &shown_array),
        (array, array, &shown_array, &shown_array),
    ];
    rows.map(|(dst, src, shown_target, shown_source)| {
        let arguments = format!("from {shown_source} to {shown_target} extent 20 3 2 {STREAM:#x}");
        (ArrayCopy { dst, src, extent: [20, 3, 2] }, arguments)
    })
    .to_vec()
}

/// Every shape with its extent in the headers' terms, and whether it is layered and a cube.
pub const SHAPES: [(ArrayShape, [u64; 3], bool, bool); 7] = [
    (ArrayShape::D1 { width: 64 }, [64, 0, 0], false, false),
    (ArrayShape::D1Layered { width: 64, layers: 5 }, [64, 0, 5], true, false),
    (ArrayShape::D2 { width: 64, height: 32 }, [64, 32, 0], false, false),
    (ArrayShape::D2Layered { width: 64, height: 32, layers: 5 }, [64, 32, 5], true, false),
    (ArrayShape::D3 { width: 64, height: 32, depth: 16 }, [64, 32, 16], false, false),
    (ArrayShape::Cube { width: 64 }, [64, 64, 6], false, true),
    (ArrayShape::CubeLayered { width: 64, cubes: 2 }, [64, 64, 12], true, true),
];

/// Maps an image, and checks its description in the record.
pub fn mapped(device: &dyn BackendDevice, recorder: &mut Recorder, desc: &MipmappedArrayDesc, shown: &str) {
    // SAFETY: the mock maps nothing.
    let array = unsafe { device.map_mipmapped_array(RawMemory::new(MEMORY), desc) }.expect("maps");
    assert_eq!(array.get(), MIPMAPPED);
    let (cuda, hip) = ("cuExternalMemoryGetMappedMipmappedArray", "hipExternalMemoryGetMappedMipmappedArray");
    let map = Expected { cuda, hip, arguments: format!("{MEMORY:#x} {shown}") };
    recorder.entered(&format!("{desc:?}"), &[map]);
}

fn name(text: &str) -> Win32Object {
    Win32Object::Name(ObjectName::new(text).expect("a name"))
}

fn kmt(value: usize) -> KmtHandle {
    KmtHandle::new(value).expect("a handle")
}

/// Each handle kind has its number and its member of the union; the other bytes of the union and the reserved fields
/// are 0.
pub fn memory_imports(device: &dyn BackendDevice, recorder: &mut Recorder) {
    let fd = "fd of 4096 bytes, close-on-exec 1, rest 0";
    // SAFETY: the mock reads nothing behind the address.
    let nv_sci = unsafe { NvSciBufObject::from_raw(pointer(0x5c1)) };
    // HIP has no number for dma-bufs and inspects the file descriptor.
    let dma_buf = recorder.pick(9, 1);
    let kinds = [
        (MemoryHandle::OpaqueFd(file(SIZE)), 1, fd),
        (MemoryHandle::OpaqueWin32(name("opaque")), 2, "handle 0, name opaque"),
        (MemoryHandle::OpaqueWin32Kmt(kmt(0x41)), 3, "handle 0x41"),
        (MemoryHandle::D3d12Heap(name("heap")), 4, "handle 0, name heap"),
        (MemoryHandle::D3d12Resource(name("resource 12")), 5, "handle 0, name resource 12"),
        (MemoryHandle::D3d11Resource(name("resource 11")), 6, "handle 0, name resource 11"),
        (MemoryHandle::D3d11ResourceKmt(kmt(0x42)), 7, "handle 0x42"),
        (MemoryHandle::NvSciBuf(nv_sci), 8, "handle 0x5c1"),
        (MemoryHandle::DmaBufFd(file(SIZE)), dma_buf, fd),
    ];
    for (handle, number, shown) in kinds {
        // SAFETY: the mock imports nothing.
        let request = unsafe { MemoryImport::new(handle, SIZE) };
        import_one(device, recorder, &request, number, shown, false);
        // SAFETY: the mock imports nothing.
        let request = unsafe { request.dedicated(true) };
        import_one(device, recorder, &request, number, shown, true);
    }
}

fn import_one(
    device: &dyn BackendDevice,
    recorder: &mut Recorder,
    request: &MemoryImport,
    number: u32,
    shown: &str,
    dedicated: bool,
) {
    // SAFETY: the mock imports nothing; the memory is not used.
    let memory = unsafe { device.import_memory(request) }.expect("imports");
    assert_eq!(memory, RawMemory::new(MEMORY));
    let flags = u32::from(dedicated);
    let import = call!(
        "cuImportExternalMemory",
        "hipImportExternalMemory",
        "{{type {number}, {shown}, size 4096, flags {flags}, reserved 0}}"
    );
    recorder.entered("an import", &[import]);
    // SAFETY: imported above, and destroyed once.
    unsafe { device.destroy_memory(memory) }.expect("destroys");
    let destroy = call!("cuDestroyExternalMemory", "hipDestroyExternalMemory", "{MEMORY:#x}");
    recorder.entered("the end of an import", &[destroy]);
    if let Some(fd) = request.handle().as_fd() {
        assert!(rustix::fs::fstat(fd).is_ok_and(|stat| stat.st_size == 4096), "the request keeps its file descriptor");
    }
}

pub fn semaphore_imports(device: &dyn BackendDevice, recorder: &mut Recorder) {
    let fd = "fd of 4096 bytes, close-on-exec 1, rest 0";
    // SAFETY: the mock reads nothing behind the address.
    let nv_sci = unsafe { NvSciSyncObject::from_raw(pointer(0x5c2)) };
    let of_timeline = recorder.pick(10, 2);
    let kinds = [
        (SemaphoreHandle::OpaqueFd(file(SIZE)), 1, fd),
        (SemaphoreHandle::OpaqueWin32(name("opaque")), 2, "handle 0, name opaque"),
        (SemaphoreHandle::OpaqueWin32Kmt(kmt(0x51)), 3, "handle 0x51"),
        (SemaphoreHandle::D3d12Fence(name("fence 12")), 4, "handle 0, name fence 12"),
        (SemaphoreHandle::D3d11Fence(name("fence 11")), 5, "handle 0, name fence 11"),
        (SemaphoreHandle::NvSciSync(nv_sci), 6, "handle 0x5c2"),
        (SemaphoreHandle::D3d11KeyedMutex(name("mutex")), 7, "handle 0, name mutex"),
        (SemaphoreHandle::D3d11KeyedMutexKmt(kmt(0x52)), 8, "handle 0x52"),
        (SemaphoreHandle::TimelineFd(file(SIZE)), 9, fd),
        // HIP rejects its header's number for timelines.
        (SemaphoreHandle::TimelineWin32(name("timeline")), of_timeline, "handle 0, name timeline"),
    ];
    for (handle, number, shown) in kinds {
        // SAFETY: the mock imports nothing.
        let semaphore = unsafe { device.import_semaphore(&SemaphoreImport::new(handle)) }.expect("imports");
        assert_eq!(semaphore, RawSemaphore::new(SEMAPHORE));
        let arguments = format!("{{type {number}, {shown}, flags 0, reserved 0}}");
        let import = call!("cuImportExternalSemaphore", "hipImportExternalSemaphore", "{arguments}");
        recorder.entered("an import of a semaphore", &[import]);
        // SAFETY: imported above, and destroyed once.
        unsafe { device.destroy_semaphore(semaphore) }.expect("destroys");
        let destroy = call!("cuDestroyExternalSemaphore", "hipDestroyExternalSemaphore", "{SEMAPHORE:#x}");
        recorder.entered("the end of a semaphore", &[destroy]);
    }
}

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
