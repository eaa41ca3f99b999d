//! Expected arguments of each function of the driver.
#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

use std::collections::BTreeSet;
use std::ptr::NonNull;

use cudarc::driver::sys as cuda;
use gpu_interop_core::backend::{DevicePtr, RawMemory, RawModule, RawSemaphore, RawSignal, RawStream};
use gpu_interop_core::handle::NvSciSyncAttrList;
use gpu_interop_core::{
    ArrayFormat, ArrayShape, ArrayUsage, Backend, BackendDevice, Capabilities, ChannelType, ErrorKind, Feature,
    MemoryHandle, MemoryHandleKind, MemoryImport, MipmappedArrayDesc, ModuleImage, NvSciSyncUse, SemaphoreHandleKind,
    SignalParams,
};
use gpu_interop_cuda::CudaBackend;
use gpu_interop_test_support::call;
use gpu_interop_test_support::recorded::calls;
use gpu_interop_test_support::recorded::calls::{MemoryTypes, array_copies};
use gpu_interop_test_support::recorded::calls::{SHAPES, mapped};
use gpu_interop_test_support::recorded::calls::{STREAM_OF_TEST, allocates, common, file};
use gpu_interop_test_support::recorded::{
    self, DEVICE, Expected, GRANULARITY, MAPPED, MEMORY, Names, ORDINAL, PINNED, RESERVED, RecordedTest, Recorder,
    STREAM,
};

const SYS: &str = include_str!("../../src/sys.rs");
const VARIABLE: &str = "GPU_INTEROP_CUDA_LIBRARY";
const TESTS: [RecordedTest; 3] = [
    ("every_argument_matches_the_headers", &["-DCUDA"], arguments),
    ("each_attribute_controls_its_capabilities", &["-DCUDA"], attributes),
    ("every_code_of_every_function_is_reported", &["-DCUDA"], codes),
];

pub(crate) fn main() {
    recorded::main(VARIABLE, &TESTS);
}

fn arguments() {
    let backend = CudaBackend::load().expect("loads");
    let mut recorder = Recorder::new(Names::Cuda);
    let start = [call!("cuDriverGetVersion", "", "()"), call!("cuInit", "", "0")];
    recorder.exactly("the start", &start);
    let device = backend.open(ORDINAL).expect("opens");
    recorder.once(&[
        format!("cuDeviceGet {ORDINAL}"),
        format!("cuDeviceGetName 256 {DEVICE}"),
        format!("cuDeviceGetUuid_v2 {DEVICE}"),
        format!("cuDevicePrimaryCtxRetain {DEVICE}"),
    ]);
    let uuid = device.identity().uuid.map(|uuid| uuid.as_bytes().to_owned());
    assert_eq!(uuid, Some([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]));
    assert_eq!(device.identity().name, format!("recorder {DEVICE}"));
    common(&*device, &mut recorder);
    mappings(&*device, &mut recorder);
    native(&*device, &mut recorder);
    images(&*device, &mut recorder);
    copies(&*device, &mut recorder);
    fences(&*device, &mut recorder);
    others(&*device, &mut recorder);
    drop(device);
    recorder.exactly("the end", &[call!("cuDevicePrimaryCtxRelease_v2", "", "{DEVICE}")]);
    // Names and texts of codes are not recorded. LUIDs are queried on Windows only.
    // Drivers before CUDA 12 have no context numbers; `reset.*` of the suite covers both queries, and
    // `stream.of_another_context` that of a stream's context.
    let contexts = ["cuCtxGetId", "cuDevicePrimaryCtxGetState", "cuStreamGetCtx"];
    recorder.every_function(SYS, &[&["cuGetErrorName", "cuGetErrorString", "cuDeviceGetLuid"][..], &contexts].concat());
}

/// Mapped ranges of a dedicated and of an ordinary import.
fn mappings(device: &dyn BackendDevice, recorder: &mut Recorder) {
    let import = |dedicated| {
        // SAFETY: the mock imports nothing.
        let request = unsafe { MemoryImport::new(MemoryHandle::OpaqueFd(file(65536)), 65536).dedicated(dedicated) };
        // SAFETY: the mock imports nothing.
        unsafe { device.import_memory(&request) }.expect("imports")
    };
    let map = |offset: u64, size: u64| {
        let arguments = format!("{MEMORY:#x} {{offset {offset}, size {size}, flags 0, reserved 0}}");
        call!("cuExternalMemoryGetMappedBuffer", "", "{arguments}")
    };
    let free = |address: u64| call!("cuMemFree_v2", "", "{address:#x}");
    let end = call!("cuDestroyExternalMemory", "", "{MEMORY:#x}");
    // SAFETY: the mock maps nothing.
    unsafe {
        let memory = import(false);
        recorder.take();
        assert_eq!(device.map_buffer(memory, 4096, 8192).expect("maps"), DevicePtr::new(MAPPED + 4096));
        recorder.entered("a range", &[map(4096, 8192)]);
        device.free_buffer(memory, DevicePtr::new(MAPPED + 4096)).expect("frees");
        recorder.entered("a range's end", &[free(MAPPED + 4096)]);
        device.destroy_memory(memory).expect("ends");
        recorder.entered("an import's end", std::slice::from_ref(&end));
        // A dedicated import is mapped once, as a whole.
        let memory = import(true);
        recorder.take();
        assert_eq!(device.map_buffer(memory, 4096, 8192).expect("maps"), DevicePtr::new(MAPPED + 4096));
        recorder.entered("a range of a dedicated one", &[map(0, 65536)]);
        assert_eq!(device.map_buffer(memory, 8192, 16).expect("maps"), DevicePtr::new(MAPPED + 8192));
        recorder.exactly("another range of it", &[]);
        device.free_buffer(memory, DevicePtr::new(MAPPED + 4096)).expect("frees");
        recorder.exactly("the first one's end", &[]);
        device.free_buffer(memory, DevicePtr::new(MAPPED + 8192)).expect("frees");
        recorder.entered("the last one's end", &[free(MAPPED)]);
        device.destroy_memory(memory).expect("ends");
        recorder.entered("an import's end", &[end]);
    }
}

/// Native memory is imported, mapped and freed with the virtual memory management functions.
fn native(device: &dyn BackendDevice, recorder: &mut Recorder) {
    let size = GRANULARITY;
    // SAFETY: the mock imports nothing.
    let request = unsafe { MemoryImport::new(MemoryHandle::OpaqueFd(file(size)), size).native(true) };
    // SAFETY: the mock imports and maps nothing.
    unsafe {
        let memory = device.import_memory(&request).expect("imports");
        // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.
        let import = call!("cuMemImportFromShareableHandle", "", "fd of {size} bytes, close-on-exec 1, rest 0, type 1");
        let mut made = allocates();
        made[1] = import;
        recorder.entered("an import", &made);
        assert_eq!(device.map_buffer(memory, 4096, 16).expect("maps"), DevicePtr::new(RESERVED + 4096));
        device.free_buffer(memory, DevicePtr::new(RESERVED + 4096)).expect("frees");
        recorder.exactly("a range and its end", &[]);
        device.destroy_memory(memory).expect("ends");
        let end = [
            call!("cuMemUnmap", "", "{RESERVED:#x} {size}"),
            call!("cuMemAddressFree", "", "{RESERVED:#x} {size}"),
            call!("cuMemRelease", "", "0x404"),
        ];
        recorder.entered("its end", &end);
        assert!(
            request.handle().as_fd().is_some_and(|fd| rustix::fs::fstat(fd).is_ok()),
            "the request keeps its file descriptor"
        );
        let request = MemoryImport::new(MemoryHandle::OpaqueFd(file(size - 1)), size - 1).native(true);
        device.import_memory(&request).expect_err("less than the granularity");
        recorder.entered("less than the granularity", &allocates()[..1]);
    }
}

/// Extents and flags of every shape, every use and every format, as documented in the header.
fn images(device: &dyn BackendDevice, recorder: &mut Recorder) {
    use cuda::{
        CUDA_ARRAY3D_COLOR_ATTACHMENT as COLOR, CUDA_ARRAY3D_CUBEMAP as CUBEMAP, CUDA_ARRAY3D_LAYERED as LAYERED,
        CUDA_ARRAY3D_SURFACE_LDST as SURFACE, CUDA_ARRAY3D_TEXTURE_GATHER as GATHER,
    };
    let uses = [
        (ArrayUsage::empty(), 0),
        (ArrayUsage::SURFACE_LOAD_STORE, SURFACE),
        (ArrayUsage::TEXTURE_GATHER, GATHER),
        (ArrayUsage::COLOR_ATTACHMENT, COLOR),
        (ArrayUsage::all(), SURFACE | GATHER | COLOR),
    ];
    for (shape, [width, height, depth], layered, cube) in SHAPES {
        let of_shape = if layered { LAYERED } else { 0 } | if cube { CUBEMAP } else { 0 };
        for (usage, of_use) in uses {
            let format = ArrayFormat::new(ChannelType::Uint8, 4).expect("a format");
            let desc = MipmappedArrayDesc::new(shape, format).with_usage(usage).with_levels(3).with_offset(4096);
            let number = cuda::CUarray_format_enum::CU_AD_FORMAT_UNSIGNED_INT8 as u32;
            let flags = of_shape | of_use;
            let shown = format!(
                "{{offset 4096, extent {width} {height} {depth}, format {number:#x}, channels 4, flags {flags:#x}, levels \
                 3, reserved 0}}"
            );
            // The C library prints 0 without the prefix 0x.
            let shown = shown.replace("flags 0x0,", "flags 0,");
            mapped(device, recorder, &desc, &shown);
        }
    }
    for (channel, channels, number) in FORMATS {
        let shape = ArrayShape::D2 { width: 8, height: 4 };
        let format = ArrayFormat::new(channel, channels).expect("a format");
        let number = number as u32;
        let shown = format!(
            "{{offset 0, extent 8 4 0, format {number:#x}, channels {channels}, flags 0, levels 1, reserved 0}}"
        );
        mapped(device, recorder, &MipmappedArrayDesc::new(shape, format), &shown);
    }
}

const FORMATS: [(ChannelType, u8, cuda::CUarray_format); 11] = {
    use cuda::CUarray_format_enum as F;
    [
        (ChannelType::Uint16, 1, F::CU_AD_FORMAT_UNSIGNED_INT16),
        (ChannelType::Uint32, 2, F::CU_AD_FORMAT_UNSIGNED_INT32),
        (ChannelType::Sint8, 4, F::CU_AD_FORMAT_SIGNED_INT8),
        (ChannelType::Sint16, 2, F::CU_AD_FORMAT_SIGNED_INT16),
        (ChannelType::Sint32, 1, F::CU_AD_FORMAT_SIGNED_INT32),
        (ChannelType::Float16, 4, F::CU_AD_FORMAT_HALF),
        (ChannelType::Float32, 1, F::CU_AD_FORMAT_FLOAT),
        (ChannelType::Unorm8, 2, F::CU_AD_FORMAT_UNORM_INT8X2),
        (ChannelType::Unorm16, 4, F::CU_AD_FORMAT_UNORM_INT16X4),
        (ChannelType::Snorm8, 1, F::CU_AD_FORMAT_SNORM_INT8X1),
        (ChannelType::Snorm16, 2, F::CU_AD_FORMAT_SNORM_INT16X2),
    ]
};

/// Copies between arrays, device memory and host memory.
fn copies(device: &dyn BackendDevice, recorder: &mut Recorder) {
    use cuda::CUmemorytype_enum as Type;
    let [host, device_memory, array] =
        [Type::CU_MEMORYTYPE_HOST, Type::CU_MEMORYTYPE_DEVICE, Type::CU_MEMORYTYPE_ARRAY].map(|kind| kind as u32);
    for (copy, arguments) in array_copies(MemoryTypes { host, device: device_memory, array }) {
        // SAFETY: the mock copies nothing.
        unsafe { device.copy_array(STREAM_OF_TEST, &copy) }.expect("copies");
        recorder.entered("a copy of an array", &[call!("cuMemcpy3DAsync_v2", "", "{arguments}")]);
    }
}

/// One barrier follows the fills that a signal could overtake, on their stream only.
fn fences(device: &dyn BackendDevice, recorder: &mut Recorder) {
    let (target, other) = (DevicePtr::new(0x9000), RawStream::new(0x513));
    let signal = [RawSignal { semaphore: RawSemaphore::new(0x5e1), params: SignalParams::Value(3) }];
    let layout = device.semaphore_blocks().expect("the driver has blocks").signal;
    let mut blocks = vec![0; layout.words];
    blocks[layout.value] = 3;
    let signals = |stream: usize| {
        let shown = "{0x5e1, value 3, fence 0, key 0, flags 0, reserved 0 0}";
        // As C prints it.
        let stream = if stream == 0 { "0".to_owned() } else { format!("{stream:#x}") };
        call!("cuSignalExternalSemaphoresAsync", "", "{shown} 1 {stream}")
    };
    // CU_STREAM_MEM_OP_BARRIER, CU_STREAM_MEMORY_BARRIER_TYPE_SYS.
    let barrier = call!("cuStreamBatchMemOp_v2", "", "{STREAM:#x} 1 {{operation 6, flags 0, rest 0}} 0");
    // SAFETY: the mock fills and signals nothing.
    unsafe {
        let mut fenced = |fill: &dyn Fn(), barriers: &[Expected]| {
            fill();
            recorder.take();
            device.signal_semaphores(other, &signal).expect("signals");
            recorder.ordered("another stream's signal", &[], signals(0x513));
            device.signal_semaphores(STREAM_OF_TEST, &signal).expect("signals");
            recorder.ordered("a signal after a fill", barriers, signals(STREAM));
            device.signal_semaphores(STREAM_OF_TEST, &signal).expect("signals");
            recorder.ordered("the next signal", &[], signals(STREAM));
            fill();
            recorder.take();
            device.signal_blocks(STREAM_OF_TEST, &[signal[0].semaphore], &blocks).expect("signals");
            recorder.ordered("a prepared signal after a fill", barriers, signals(STREAM));
        };
        let barriers = [barrier];
        fenced(&|| device.fill_u8(STREAM_OF_TEST, target, 1, 1).expect("fills"), &barriers);
        fenced(&|| device.fill_u8(STREAM_OF_TEST, target, 1, 32767).expect("fills"), &barriers);
        fenced(&|| device.fill_u8(STREAM_OF_TEST, target, 1, 32768).expect("fills"), &[]);
        fenced(&|| device.fill_u32(STREAM_OF_TEST, target, 1, 8191).expect("fills"), &barriers);
        fenced(&|| device.fill_u32(STREAM_OF_TEST, target, 1, 8192).expect("fills"), &[]);
        // If the batch is unsupported, a host function replaces it.
        recorder.control("fail cuStreamBatchMemOp_v2 801\n");
        device.fill_u8(STREAM_OF_TEST, target, 1, 1).expect("fills");
        recorder.take();
        device.signal_semaphores(STREAM_OF_TEST, &signal).expect("signals");
        let instead = [barriers[0].clone(), call!("cuLaunchHostFunc", "", "{STREAM:#x}")];
        recorder.ordered("a signal after a fill", &instead, signals(STREAM));
        // A failed barrier is attempted again.
        recorder.control("fail cuStreamBatchMemOp_v2 999\n");
        device.fill_u8(STREAM_OF_TEST, target, 1, 1).expect("fills");
        recorder.take();
        device.signal_semaphores(STREAM_OF_TEST, &signal).expect_err("no barrier");
        recorder.enqueued("a signal whose barrier failed", &barriers);
        recorder.control("");
        device.signal_semaphores(STREAM_OF_TEST, &signal).expect("signals");
        recorder.ordered("the next one", &barriers, signals(STREAM));
        // A default stream is one of the current context.
        for stream in 0..3 {
            device.signal_semaphores(RawStream::new(stream), &signal).expect("signals");
            recorder.enqueued("a signal on a default stream", &[signals(stream)]);
        }
        // A driver that needs the current context.
        recorder.control("fail cuSignalExternalSemaphoresAsync 201\n");
        device.signal_semaphores(STREAM_OF_TEST, &signal).expect_err("no context");
        recorder.control("");
        let (enter, leave) = (call!("cuCtxPushCurrent_v2", "", "0xc1"), call!("cuCtxPopCurrent_v2", "", "()"));
        let again = [signals(STREAM), call!("cuCtxGetCurrent", "", "()"), enter, signals(STREAM), leave];
        recorder.exactly("a refused signal", &again);
    }
}

fn others(device: &dyn BackendDevice, recorder: &mut Recorder) {
    let memory = device.allocate_signal_memory().expect("allocates");
    assert_eq!((memory.ptr.get(), memory.size), (PINNED, 4096));
    // CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP.
    let allocate =
        [call!("cuMemHostRegister_v2", "", "page 4096 0x3"), call!("cuMemHostGetDevicePointer_v2", "", "page 0")];
    recorder.entered("signal memory", &allocate);
    // SAFETY: allocated above.
    unsafe { device.free_signal_memory(memory) }.expect("frees");
    recorder.entered("its end", &[call!("cuMemHostUnregister", "", "page")]);
    let module = device.load_module(ModuleImage::Ptx(c"PTX text")).expect("loads");
    assert_eq!(module, RawModule::new(0x301));
    recorder.entered("a module", &[call!("cuModuleLoadData", "", "50545820")]);
    let address = NonNull::new(std::ptr::without_provenance_mut(0x5c3)).expect("an address");
    for (uses, flags) in [
        (NvSciSyncUse::SIGNAL, cuda::CUDA_NVSCISYNC_ATTR_SIGNAL),
        (NvSciSyncUse::WAIT, cuda::CUDA_NVSCISYNC_ATTR_WAIT),
        (NvSciSyncUse::SIGNAL | NvSciSyncUse::WAIT, 3),
    ] {
        // SAFETY: the mock reads nothing behind the address.
        unsafe { device.fill_nv_sci_sync_attributes(NvSciSyncAttrList::from_raw(address), uses) }.expect("fills");
        let arguments = format!("0x5c3 {DEVICE} {flags}");
        recorder.entered("attributes", &[call!("cuDeviceGetNvSciSyncAttributes", "", "{arguments}")]);
    }
}

fn supported(capabilities: &Capabilities) -> BTreeSet<String> {
    let features = Feature::ALL.iter().filter(|feature| capabilities.feature(**feature).is_supported());
    let memory = MemoryHandleKind::ALL.iter().filter(|kind| capabilities.memory(**kind).is_supported());
    let semaphores = SemaphoreHandleKind::ALL.iter().filter(|kind| capabilities.semaphore(**kind).is_supported());
    features
        .map(|feature| format!("{feature:?}"))
        .chain(memory.map(|kind| format!("memory {kind:?}")))
        .chain(semaphores.map(|kind| format!("semaphore {kind:?}")))
        .collect()
}

/// Checks which attributes of which device are queried, and the capabilities that each controls.
fn attributes() {
    use cuda::CUdevice_attribute_enum as A;
    let backend = CudaBackend::load().expect("loads");
    let mut recorder = Recorder::new(Names::Cuda);
    let decides: [(A, &[&str]); 7] = [
        (
            A::CU_DEVICE_ATTRIBUTE_INTEGRATED,
            &["NvSciSyncAttributes", "memory DmaBufFd", "memory NvSciBuf", "semaphore NvSciSync"],
        ),
        (A::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &["ExportableMemory"]),
        (A::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, &["ExportableMemory"]),
        (A::CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, &["semaphore TimelineFd"]),
        (A::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, &["StreamMemoryOperations64"]),
        (A::CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, &["memory DmaBufFd"]),
        // Not queried on Linux.
        (A::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED, &[]),
    ];
    let everything = supported(backend.open(ORDINAL).expect("opens").capabilities());
    assert!(everything.len() > 20, "{everything:?}");
    let mut queried: BTreeSet<String> =
        recorder.take().into_iter().filter(|line| line.starts_with("cuDeviceGetAttribute ")).collect();
    let places =
        [A::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, A::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, A::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID];
    for attribute in decides[..6].iter().map(|(attribute, _)| *attribute).chain(places) {
        let line = format!("cuDeviceGetAttribute {} {DEVICE}", attribute as i32);
        assert!(queried.remove(&line), "{line} was not queried: {queried:#?}");
    }
    assert!(queried.is_empty(), "queried without need, or of another device: {queried:#?}");
    for (attribute, lost) in decides {
        let number = attribute as i32;
        for (answer, lost) in [(1, &[][..]), (7, &[]), (0, lost)] {
            recorder.control(&format!("attribute {number} {answer}\n"));
            let left = supported(backend.open(ORDINAL).expect("opens").capabilities());
            let missing: Vec<&String> = everything.difference(&left).collect();
            assert_eq!(missing, lost, "where {attribute:?} is {answer}");
        }
        // A failed query with any code means no support.
        for code in recorded::CODES {
            recorder.control(&format!("fail cuDeviceGetAttribute {code}\n"));
            let device = backend.open(ORDINAL).expect("opens");
            let left = supported(device.capabilities());
            assert!(lost.iter().all(|lost| !left.contains(*lost)), "{attribute:?} fails with {code}: {left:?}");
            assert_eq!(device.identity().pci, None, "where the driver does not report it");
        }
    }
    recorder.control("attribute 33 195\nattribute 34 31\nattribute 50 9\n");
    let pci = backend.open(ORDINAL).expect("opens").identity().pci.expect("an address");
    assert_eq!((pci.domain, pci.bus, pci.device, pci.function), (9, 195, 31, 0));
}

/// Every status code except success, of every function, is an error with that code.
fn codes() {
    use ErrorKind as K;

    let backend = CudaBackend::load().expect("loads");
    let mut recorder = Recorder::new(Names::Cuda);
    for function in ["cuDeviceGet", "cuDeviceGetName", "cuDevicePrimaryCtxRetain"] {
        recorder.every_code([function, ""], || backend.open(ORDINAL).map(|_| ()));
    }
    // "No device" is not an error of the count, and every other code is.
    for code in [100, 3, 304, 999] {
        recorder.control(&format!("fail cuDeviceGetCount {code}\n"));
        let devices = backend.devices();
        assert_eq!(matches!(&devices, Ok(none) if none.is_empty()), code == 100, "{code}: {devices:?}");
        assert_eq!(devices.is_err(), code != 100, "{code}");
        let opened = backend.open(ORDINAL).map(drop).expect_err("no device").kind();
        assert_eq!(opened == K::NoDevice, code == 100, "{code}: {opened:?}");
    }
    recorder.control("");
    let device = backend.open(ORDINAL).expect("opens");
    calls::codes(&*device, &mut recorder);
    let recorder = &mut recorder;
    recorder.every_code(["cuCtxPushCurrent_v2", ""], || device.create_stream());
    let desc = MipmappedArrayDesc::new(
        ArrayShape::D1 { width: 4 },
        ArrayFormat::new(ChannelType::Uint8, 1).expect("a format"),
    );
    // SAFETY: the mock maps, fills and allocates nothing.
    unsafe {
        recorder.every_code(["cuExternalMemoryGetMappedMipmappedArray", ""], || {
            device.map_mipmapped_array(RawMemory::new(MEMORY), &desc)
        });
        let map = || device.map_buffer(RawMemory::new(MEMORY), 0, 16);
        recorder.every_code(["cuExternalMemoryGetMappedBuffer", ""], map);
        recorder
            .every_code(["cuMemFree_v2", ""], || device.free_buffer(RawMemory::new(MEMORY), DevicePtr::new(MAPPED)));
        recorder.every_code(["cuDeviceGetNvSciSyncAttributes", ""], || {
            let list = NvSciSyncAttrList::from_raw(NonNull::dangling());
            device.fill_nv_sci_sync_attributes(list, NvSciSyncUse::SIGNAL)
        });
    }
    recorder.every_code(["cuMemHostRegister_v2", ""], || device.allocate_signal_memory());
    recorder.take();
    recorder.every_code(["cuMemHostGetDevicePointer_v2", ""], || device.allocate_signal_memory());
    let found = recorder.take();
    let count = |symbol: &str| found.iter().filter(|line| line.starts_with(symbol)).count();
    // A driver may wait for streams when it unpins memory.
    assert_eq!([count("cuMemHostUnregister"), count("cuMemHostRegister_v2")], [0, 1], "a pinned page is used again");
    recorder.every_code(["cuModuleLoadData", ""], || device.load_module(ModuleImage::Ptx(c"PTX")));
    let lost = [4, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911]
        .map(|code| (code, K::DeviceLost));
    let known = [
        (2, K::OutOfMemory),
        (34, K::DriverNotFound),
        (100, K::NoDevice),
        (801, K::Unsupported),
        (803, K::DriverTooOld),
        (804, K::DriverTooOld),
    ];
    // Adjacent and undefined codes are plain driver errors.
    let others =
        [1, 3, 33, 35, 99, 101, 201, 213, 219, 400, 701, 703, 708, 711, 713, 720, 800, 802, 805, 809, 910, 999];
    let of_call = [&lost[..], &known, &others.map(|code| (code, K::Driver))].concat();
    let of_import = [&lost[..], &known, &others.map(|code| (code, K::ImportRejected))].concat();
    calls::kinds(&*device, recorder, &of_call, &of_import);
}
