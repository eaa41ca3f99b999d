//! Expected arguments of each function of the runtime.
#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

use std::collections::BTreeSet;

use cubecl_hip_sys as hip;
use gpu_interop_core::backend::{DevicePtr, RawMemory, RawSemaphore, RawSignal, RawStream, RawWait};
use gpu_interop_core::{
    ArrayFormat, ArrayShape, ArrayUsage, Backend, BackendDevice, BinaryImage, ChannelType, Device, ErrorKind, Feature,
    MemoryHandle, MemoryImport, MipmappedArrayDesc, ModuleImage, SignalParams, WaitParams,
};
use gpu_interop_hip::HipBackend;
use gpu_interop_test_support::call;
use gpu_interop_test_support::recorded::calls;
use gpu_interop_test_support::recorded::calls::{MemoryTypes, array_copies};
use gpu_interop_test_support::recorded::calls::{SHAPES, mapped};
use gpu_interop_test_support::recorded::calls::{STREAM_OF_TEST, common, file};
use gpu_interop_test_support::recorded::{
    self, DEVICE, LEVEL, MAPPED, MEMORY, MIPMAPPED, MODULE, Names, ORDINAL, PINNED, RESERVED, RecordedTest, Recorder,
    STREAM,
};

const SYS: &str = include_str!("../../src/sys/mod.rs");
const VARIABLE: &str = "GPU_INTEROP_HIP_LIBRARY";
const HIP_7_2: &[&str] = &["-DHIP", "-DVERSION=70226015"];
/// Releases late.
const HIP_7_1: &[&str] = &["-DHIP", "-DVERSION=70125424"];
/// Has shorter structs.
const HIP_5_2: &[&str] = &["-DHIP", "-DVERSION=50221153"];
const TESTS: [RecordedTest; 6] = [
    ("every_argument_matches_the_headers", HIP_7_2, arguments),
    ("levels_end_before_their_image", HIP_7_2, levels),
    ("each_attribute_controls_its_capabilities", HIP_7_2, attributes),
    ("every_code_of_every_function_is_reported", HIP_7_2, codes),
    ("addresses_are_freed_after_a_host_function", HIP_7_1, late),
    ("an_old_runtime_gets_only_supported_calls", HIP_5_2, old),
];

pub(crate) fn main() {
    recorded::main(VARIABLE, &TESTS);
}

fn arguments() {
    let backend = HipBackend::load().expect("loads");
    let mut recorder = Recorder::new(Names::Hip);
    recorder.exactly("the start", &[call!("", "hipRuntimeGetVersion", "()"), call!("", "hipInit", "0")]);
    let device = backend.open(ORDINAL).expect("opens");
    recorder.once(&[
        format!("hipDeviceGet {ORDINAL}"),
        format!("hipDeviceGetName 256 {DEVICE}"),
        format!("hipDeviceGetPCIBusId 64 {DEVICE}"),
        format!("hipGetDevicePropertiesR0600 {DEVICE}"),
    ]);
    assert_eq!(device.identity().name, format!("recorder {DEVICE}"));
    assert_eq!(device.architecture(), Some("gfx90a:sramecc+:xnack-"));
    common(&*device, &mut recorder);
    mappings(&*device, &mut recorder);
    images(&*device, &mut recorder);
    copies(&*device, &mut recorder);
    queues(&*device, &mut recorder);
    others(&*device, &mut recorder);
    drop(device);
    // The kept stream with its own queue.
    recorder.entered("the end", &[call!("", "hipStreamDestroy", "{:#x}", STREAM + 0x1000)]);
    // Names and texts of codes are not recorded; `old` checks functions for older runtimes only. LUIDs are queried from
    // later runtimes on Windows; HIP has no native imports. `reset.*` of the suite covers the numbers of allocations.
    let not_recorded = [
        "hipGetErrorName",
        "hipGetErrorString",
        "hipGetDeviceProperties",
        "hipMalloc",
        "hipPointerGetAttribute",
        "hipDeviceGetLuid",
        "hipMemImportFromShareableHandle",
    ];
    recorder.every_function(SYS, &not_recorded);
}

/// An import is mapped once, as a whole, and unmapped when it is destroyed.
fn mappings(device: &dyn BackendDevice, recorder: &mut Recorder) {
    for dedicated in [false, true] {
        // SAFETY: the mock imports nothing.
        let request = unsafe { MemoryImport::new(MemoryHandle::OpaqueFd(file(65536)), 65536).dedicated(dedicated) };
        // SAFETY: the mock imports and maps nothing.
        unsafe {
            let memory = device.import_memory(&request).expect("imports");
            recorder.take();
            assert_eq!(device.map_buffer(memory, 4096, 8192).expect("maps"), DevicePtr::new(MAPPED + 4096));
            let arguments = format!("{MEMORY:#x} {{offset 0, size 65536, flags 0, reserved 0}}");
            recorder.entered("a range", &[call!("", "hipExternalMemoryGetMappedBuffer", "{arguments}")]);
            assert_eq!(device.map_buffer(memory, 8192, 16).expect("maps"), DevicePtr::new(MAPPED + 8192));
            for offset in [4096, 8192] {
                device.free_buffer(memory, DevicePtr::new(MAPPED + offset)).expect("frees");
            }
            recorder.exactly("another range, and both ends", &[]);
            device.destroy_memory(memory).expect("ends");
        }
        let found = recorder.take();
        let of_import = |line: &&String| line.starts_with("hipFree ") || line.starts_with("hipDestroyExternalMemory ");
        let ends: Vec<&String> = found.iter().filter(of_import).collect();
        assert_eq!(ends, [&format!("hipFree {MAPPED:#x}"), &format!("hipDestroyExternalMemory {MEMORY:#x}")]);
    }
}

fn images(device: &dyn BackendDevice, recorder: &mut Recorder) {
    use hip::{hipArrayLayered as LAYERED, hipArraySurfaceLoadStore as SURFACE, hipArrayTextureGather as GATHER};
    let uses = [
        (ArrayUsage::empty(), 0),
        (ArrayUsage::SURFACE_LOAD_STORE, SURFACE),
        (ArrayUsage::TEXTURE_GATHER, GATHER),
        // The header has no flag for this usage.
        (ArrayUsage::COLOR_ATTACHMENT, 0),
        (ArrayUsage::all(), SURFACE | GATHER),
    ];
    for (shape, [width, height, depth], layered, _) in SHAPES.into_iter().filter(|(.., cube)| !cube) {
        let of_shape = if layered { LAYERED } else { 0 };
        for (usage, of_use) in uses {
            let format = ArrayFormat::new(ChannelType::Uint8, 4).expect("a format");
            let desc = MipmappedArrayDesc::new(shape, format).with_usage(usage).with_levels(3).with_offset(4096);
            let (kind, flags) = (hip::hipChannelFormatKind_hipChannelFormatKindUnsigned, of_shape | of_use);
            let extent = format!("{width} {height} {depth}");
            let shown =
                format!("{{offset 4096, extent {extent}, bits 8 8 8 8, kind {kind}, flags {flags:#x}, levels 3}}");
            mapped(device, recorder, &desc, &shown.replace("flags 0x0,", "flags 0,"));
        }
    }
    let [signed, unsigned, float] = [
        hip::hipChannelFormatKind_hipChannelFormatKindSigned,
        hip::hipChannelFormatKind_hipChannelFormatKindUnsigned,
        hip::hipChannelFormatKind_hipChannelFormatKindFloat,
    ];
    for (channel, channels, bits, kind) in [
        (ChannelType::Uint16, 1, "16 0 0 0", unsigned),
        (ChannelType::Uint32, 2, "32 32 0 0", unsigned),
        (ChannelType::Sint8, 4, "8 8 8 8", signed),
        (ChannelType::Sint16, 2, "16 16 0 0", signed),
        (ChannelType::Sint32, 1, "32 0 0 0", signed),
        (ChannelType::Float16, 4, "16 16 16 16", float),
        (ChannelType::Float32, 2, "32 32 0 0", float),
    ] {
        let shape = ArrayShape::D2 { width: 8, height: 4 };
        let desc = MipmappedArrayDesc::new(shape, ArrayFormat::new(channel, channels).expect("a format"));
        let shown = format!("{{offset 0, extent 8 4 0, bits {bits}, kind {kind}, flags 0, levels 1}}");
        mapped(device, recorder, &desc, &shown);
    }
}

/// Each level is an array of its own, made once and destroyed before its image.
fn levels() {
    let backend = HipBackend::load().expect("loads");
    let device = Device::open(&backend, ORDINAL).expect("opens");
    // SAFETY: the mock imports nothing.
    let request = unsafe { MemoryImport::new(MemoryHandle::OpaqueFd(file(4096)), 4096) };
    let memory = device.import_memory(request).expect("imports");
    let format = ArrayFormat::new(ChannelType::Uint8, 4).expect("a format");
    let shape = ArrayShape::D2 { width: 8, height: 8 };
    let image = memory.map_mipmapped_array(&MipmappedArrayDesc::new(shape, format).with_levels(2));
    let image = image.expect("maps");
    for level in [0, 0, 1] {
        assert_eq!(image.level(level).expect("a level").as_raw().get(), LEVEL);
    }
    image.close().expect("ends");
    let calls = Recorder::new(Names::Hip).take();
    let of_arrays = |line: &&String| {
        ["hipMipmappedArrayGetLevel ", "hipArrayDestroy ", "hipMipmappedArrayDestroy "]
            .iter()
            .any(|name| line.starts_with(name))
    };
    let [first, second] = [0, 1].map(|level| format!("hipMipmappedArrayGetLevel {MIPMAPPED:#x} {level}"));
    let [level, image] = [format!("hipArrayDestroy {LEVEL:#x}"), format!("hipMipmappedArrayDestroy {MIPMAPPED:#x}")];
    assert_eq!(calls.iter().filter(of_arrays).collect::<Vec<_>>(), [&first, &second, &level, &level, &image]);
}

/// Copies between arrays, device memory and host memory. None is captured in a graph.
fn copies(device: &dyn BackendDevice, recorder: &mut Recorder) {
    let copies = array_copies(MemoryTypes {
        host: hip::hipMemoryType_hipMemoryTypeHost,
        device: hip::hipMemoryType_hipMemoryTypeDevice,
        array: hip::hipMemoryType_hipMemoryTypeArray,
    });
    let queried = call!("", "hipStreamGetCaptureInfo_v2", "{STREAM:#x}");
    for (copy, arguments) in copies {
        recorder.control("attribute records 0\n");
        // SAFETY: the mock copies nothing.
        unsafe { device.copy_array(STREAM_OF_TEST, &copy) }.expect("copies");
        let copied = [queried.clone(), call!("", "hipDrvMemcpy3DAsync", "{arguments}")];
        recorder.entered("a copy of an array", &copied);
        recorder.control("");
        // SAFETY: as above.
        let rejected = unsafe { device.copy_array(STREAM_OF_TEST, &copy) }.expect_err("the stream records");
        assert_eq!(rejected.kind(), ErrorKind::Unsupported);
        assert!(rejected.to_string().contains("does not record copies of images"), "{rejected}");
        recorder.entered("a copy on a capturing stream", std::slice::from_ref(&queried));
    }
}

/// Three streams use shared queues; further ones have their own queue with all compute units, and are kept.
fn queues(device: &dyn BackendDevice, recorder: &mut Recorder) {
    let own = RawStream::new(STREAM + 0x1000);
    // The mock returns the same handle for all, but each is counted.
    for _ in 0..3 {
        device.create_stream().expect("a stream");
        recorder.entered("a stream", &[call!("", "hipStreamCreateWithFlags", "1")]);
    }
    assert_eq!(device.create_stream().expect("a stream"), own);
    recorder.entered("one more", &[call!("", "hipExtStreamCreateWithCUMask", "32 {{units 1024}}")]);
    let query = call!("", "hipStreamQuery", "{:#x}", own.get());
    // SAFETY: created above.
    unsafe { device.destroy_stream(own) }.expect("ends");
    recorder.entered("its end", std::slice::from_ref(&query));
    assert_eq!(device.create_stream().expect("a stream"), own, "the kept stream");
    recorder.entered("one more", &[]);
    // A busy stream is destroyed, and a new one is created for the next.
    recorder.control("fail hipStreamQuery 600\n");
    // SAFETY: created above.
    unsafe { device.destroy_stream(own) }.expect("ends");
    let destroy = call!("", "hipStreamDestroy", "{:#x}", own.get());
    recorder.entered("the end of a busy stream", &[query.clone(), destroy]);
    recorder.control("");
    assert_eq!(device.create_stream().expect("a stream"), own);
    recorder.entered("one more", &[call!("", "hipExtStreamCreateWithCUMask", "32 {{units 1024}}")]);
    // SAFETY: as above.
    unsafe { device.destroy_stream(own) }.expect("ends");
    recorder.entered("its end", &[query]);
}

fn others(device: &dyn BackendDevice, recorder: &mut Recorder) {
    let memory = device.allocate_signal_memory().expect("allocates");
    assert_eq!((memory.ptr.get(), memory.size), (memory.host.addr().get() as u64, 8));
    let signal = hip::hipMallocSignalMemory;
    recorder.entered("signal memory", &[call!("", "hipExtMallocWithFlags", "8 {signal}")]);
    // SAFETY: allocated above.
    unsafe { device.free_signal_memory(memory) }.expect("frees");
    recorder.entered("its end", &[call!("", "hipFree", "pinned")]);
    // Without signal memory, pinned memory replaces it.
    let flags = hip::hipHostRegisterPortable | hip::hipHostRegisterMapped;
    for code in [1, 801] {
        recorder.control(&format!("fail hipExtMallocWithFlags {code}\n"));
        let memory = device.allocate_signal_memory().expect("allocates");
        assert_eq!((memory.ptr.get(), memory.size), (PINNED, 4096));
        let allocate = [
            call!("", "hipExtMallocWithFlags", "8 {signal}"),
            call!("", "hipHostRegister", "page 4096 {flags:#x}"),
            call!("", "hipHostGetDevicePointer", "page 0"),
        ];
        recorder.entered("pinned memory", &allocate);
        // SAFETY: allocated above.
        unsafe { device.free_signal_memory(memory) }.expect("frees");
        recorder.entered("its end", &[call!("", "hipHostUnregister", "page")]);
    }
    recorder.control("");
    let code_object = gpu_interop_kernels::code_object("gfx90a").expect("a code object");
    // SAFETY: the mock runs no code.
    let image = unsafe { BinaryImage::new(code_object) };
    assert_eq!(device.load_module(ModuleImage::Binary(image)).expect("loads").get(), MODULE);
    recorder.entered("a module", &[call!("", "hipModuleLoadData", "7f454c46")]);
    let rejected = device.load_module(ModuleImage::Ptx(c"PTX")).expect_err("HIP loads no PTX");
    assert_eq!(rejected.kind(), ErrorKind::Unsupported);
    recorder.exactly("PTX", &[]);
}

/// Checks which attributes of which device are queried, and the capabilities that each controls; and that the device reports
/// the defect of its version.
fn attributes() {
    let backend = HipBackend::load().expect("loads");
    let mut recorder = Recorder::new(Names::Hip);
    let device = backend.open(ORDINAL).expect("opens");
    let defects = device.capabilities().known_defects();
    assert!(matches!(defects, [one] if one.starts_with("HIP 7.2 never frees")), "{defects:?}");
    drop(device);
    recorder.take();
    let words = [Feature::StreamMemoryOperations32, Feature::StreamMemoryOperations64];
    let decides = [
        (
            hip::hipDeviceAttribute_t_hipDeviceAttributeVirtualMemoryManagementSupported,
            &[Feature::ExportableMemory][..],
        ),
        (hip::hipDeviceAttribute_t_hipDeviceAttributeCanUseStreamWaitValue, &words),
    ];
    let has = || {
        let device = backend.open(ORDINAL).expect("opens");
        let capabilities = device.capabilities().clone();
        move |feature: Feature| capabilities.feature(feature).is_supported()
    };
    let everything = has();
    let queried: BTreeSet<String> =
        recorder.take().into_iter().filter(|line| line.starts_with("hipDeviceGetAttribute ")).collect();
    let expected = decides.map(|(number, _)| format!("hipDeviceGetAttribute {number} {DEVICE}"));
    assert_eq!(queried, BTreeSet::from(expected));
    for (number, lost) in decides {
        for value in [1, 7, 0] {
            recorder.control(&format!("attribute {number} {value}\n"));
            let has = has();
            for feature in Feature::ALL {
                let expected = everything(*feature) && (value != 0 || !lost.contains(feature));
                assert_eq!(has(*feature), expected, "{feature}, if {number} is {value}");
            }
        }
    }
    for code in recorded::CODES {
        recorder.control(&format!("fail hipDeviceGetAttribute {code}\n"));
        let has = has();
        let lost = decides.iter().flat_map(|(_, lost)| *lost);
        lost.for_each(|feature| assert!(!has(*feature), "{feature}, if attributes return {code}"));
    }
}

/// Every status code except success, of every function, is an error with that code.
fn codes() {
    let backend = HipBackend::load().expect("loads");
    let mut recorder = Recorder::new(Names::Hip);
    for function in ["hipDeviceGet", "hipDeviceGetName"] {
        recorder.every_code(["", function], || backend.open(ORDINAL).map(|_| ()));
    }
    let device = backend.open(ORDINAL).expect("opens");
    calls::codes(&*device, &mut recorder);
    for function in ["hipGetDevice", "hipSetDevice"] {
        recorder.every_code(["", function], || device.create_event());
    }
    let desc = MipmappedArrayDesc::new(
        ArrayShape::D1 { width: 4 },
        ArrayFormat::new(ChannelType::Uint8, 1).expect("a format"),
    );
    // SAFETY: the mock maps nothing.
    unsafe {
        recorder.every_code(["", "hipExternalMemoryGetMappedMipmappedArray"], || {
            device.map_mipmapped_array(RawMemory::new(MEMORY), &desc)
        });
    }
    // SAFETY: the mock imports nothing.
    let request = unsafe { MemoryImport::new(MemoryHandle::OpaqueFd(file(4096)), 4096) };
    // SAFETY: as above.
    unsafe {
        let memory = device.import_memory(&request).expect("imports");
        recorder.every_code(["", "hipExternalMemoryGetMappedBuffer"], || device.map_buffer(memory, 0, 16));
    }
    use ErrorKind as K;
    let lost = [4, 700, 702, 710, 714, 715, 716, 717, 718, 719].map(|code| (code, K::DeviceLost));
    let known = [
        (2, K::OutOfMemory),
        (35, K::DriverTooOld),
        (100, K::NoDevice),
        (209, K::InvalidArgument),
        (801, K::Unsupported),
    ];
    let others = [1, 3, 34, 36, 99, 101, 201, 208, 210, 400, 701, 703, 709, 711, 713, 720, 800, 802, 999, 54321];
    let of_call = [&lost[..], &known, &others.map(|code| (code, K::Driver))].concat();
    // Failed memory imports return "out of memory".
    let rejected = [1, 2, 3, 35, 101, 201, 209, 400, 999, 54321].map(|code| (code, K::ImportRejected));
    let of_import = [&lost[..], &[(100, K::NoDevice), (801, K::Unsupported)], &rejected].concat();
    calls::kinds(&*device, &mut recorder, &of_call, &of_import);
    // The codes 1 and 801 mean that the runtime has no signal memory.
    for code in recorded::CODES.into_iter().filter(|code| !matches!(code, 1 | 801)) {
        recorder.control(&format!("fail hipExtMallocWithFlags {code}\n"));
        let error = device.allocate_signal_memory().expect_err("no memory");
        assert_eq!(error.code().map(|code| code.value), Some(code.into()));
    }
}

fn late() {
    let backend = HipBackend::load().expect("loads");
    let mut recorder = Recorder::new(Names::Hip);
    let device = backend.open(ORDINAL).expect("opens");
    let allocation = device.create_exportable(1).expect("allocates");
    recorder.take();
    // SAFETY: allocated above.
    unsafe { device.destroy_exportable(&allocation) }.expect("frees");
    let size = recorded::GRANULARITY;
    let free = [
        call!("", "hipStreamCreateWithFlags", "1"),
        call!("", "hipLaunchHostFunc", "{STREAM:#x}"),
        call!("", "hipStreamSynchronize", "{STREAM:#x}"),
        call!("", "hipStreamDestroy", "{STREAM:#x}"),
        call!("", "hipMemUnmap", "{RESERVED:#x} {size}"),
        call!("", "hipMemAddressFree", "{RESERVED:#x} {size}"),
        call!("", "hipMemRelease", "0x404"),
    ];
    recorder.entered("the end of an allocation", &free);
}

/// HIP 5.2: no dedicated flag, mappings freed with their import, fills as copies, one semaphore per call.
fn old() {
    let backend = HipBackend::load().expect("loads");
    let mut recorder = Recorder::new(Names::Hip);
    let device = backend.open(ORDINAL).expect("opens");
    let opened = recorder.take();
    let values = [
        "hipMalloc 65536".to_owned(),
        format!("hipMemcpyHtoDAsync 0x62000000 values 0 65536 {STREAM:#x}"),
        format!("hipStreamSynchronize {STREAM:#x}"),
    ];
    let mut left = opened.iter();
    for line in values {
        assert!(left.any(|found| *found == line), "{line} is not there, in this order: {opened:#?}");
    }
    let target = DevicePtr::new(0x9000);
    // SAFETY: the mock imports nothing.
    let request = unsafe { MemoryImport::new(MemoryHandle::OpaqueFd(file(65536)), 65536).dedicated(true) };
    // SAFETY: the mock imports, maps and fills nothing.
    unsafe {
        let memory = device.import_memory(&request).expect("imports");
        let shown = "{type 1, fd of 65536 bytes, close-on-exec 1, rest 0, size 65536, flags 0, reserved 0}";
        recorder.entered("an import", &[call!("", "hipImportExternalMemory", "{shown}")]);
        device.map_buffer(memory, 0, 16).expect("maps");
        device.free_buffer(memory, DevicePtr::new(MAPPED)).expect("frees");
        recorder.take();
        device.destroy_memory(memory).expect("ends");
        recorder.entered("its end", &[call!("", "hipDestroyExternalMemory", "{MEMORY:#x}")]);
        // 256 bytes of the value 3, then copies within the target.
        device.fill_u8(STREAM_OF_TEST, target, 3, 1000).expect("fills");
        let copy = |target: u64, source: u64, size: u64| {
            call!("", "hipMemcpyDtoDAsync", "{target:#x} {source:#x} {size} {STREAM:#x}")
        };
        let copies = [copy(0x9000, 0x6200_0300, 256), copy(0x9100, 0x9000, 256), copy(0x9200, 0x9000, 488)];
        recorder.enqueued("a fill", &copies);
        device.fill_u32(STREAM_OF_TEST, target, 0x0303_0303, 16).expect("fills");
        recorder.enqueued("a fill with four equal bytes", &[copy(0x9000, 0x6200_0300, 64)]);
        device.fill_u32(STREAM_OF_TEST, target, 0x0303_0304, 16).expect("fills");
        let arguments = format!("0x9000 {} 16 {STREAM:#x}", 0x0303_0304);
        recorder.enqueued("another", &[call!("", "hipMemsetD32Async", "{arguments}")]);
        let semaphore = RawSemaphore::new(0x5e1);
        let signal = RawSignal { semaphore, params: SignalParams::Value(1) };
        let wait = RawWait { semaphore, params: WaitParams::Value(1) };
        for rejected in [
            device.signal_semaphores(STREAM_OF_TEST, &[signal, signal]),
            device.wait_semaphores(STREAM_OF_TEST, &[wait, wait]),
        ] {
            assert_eq!(rejected.expect_err("two are too many").kind(), ErrorKind::Unsupported);
        }
        let found = recorder.take();
        assert!(!found.iter().any(|line| line.contains("ExternalSemaphores")), "{found:?}");
    }
    drop(device);
    let found = recorder.take();
    assert!(found.contains(&"hipFree 0x62000000".to_owned()), "{found:?}");
}
