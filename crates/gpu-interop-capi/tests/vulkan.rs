//! The Vulkan side over the application's own instance and device: a round trip with data, images, and the owner's release.
#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

use std::ffi::{CStr, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gpu_interop::ErrorKind;
use gpu_interop::vulkan::ash::vk::{self, Handle};
use gpu_interop::vulkan::{
    HeadlessContext, HeadlessOptions, MemoryPlacement, OwnedBuffer, OwnedSemaphore, SemaphoreOp, load_entry,
};
use gpu_interop_capi::*;

/// A call of the C interface or of Vulkan.
macro_rules! c {
    ($call:expr) => {
        // SAFETY: pointers are addresses of variables, and objects are live and of one Vulkan device, or rejected.
        unsafe { $call }
    };
}

const SIZE: u64 = 1 << 16;
const SECOND: u64 = 1_000_000_000;

/// Fails with the library's error.
fn ok(status: gpi_status) {
    // SAFETY: a text of this thread.
    let message = || unsafe { CStr::from_ptr(gpi_last_error_message()) }.to_string_lossy().into_owned();
    assert_eq!(status, GPI_SUCCESS, "{}", message());
}

/// The call has failed, and its message has no name of Rust.
fn failed(status: gpi_status, what: &str) {
    // SAFETY: a text of this thread.
    let message = unsafe { CStr::from_ptr(gpi_last_error_message()) }.to_string_lossy().into_owned();
    assert_ne!(status, GPI_SUCCESS, "{what}");
    for name in ["::", " { ", "Some(", "Owned", "Mipmapped", "ImageSpec", "DeviceLocal", "HostVisible", "Extent3D"] {
        assert!(!message.contains(name), "{what}: {name} is a name of Rust: {message}");
    }
}

/// Calls a function that writes its result.
fn made<T>(call: impl FnOnce(*mut T) -> gpi_status) -> T {
    let mut result = std::mem::MaybeUninit::uninit();
    ok(call(result.as_mut_ptr()));
    // SAFETY: the function succeeded, and so has written it.
    unsafe { result.assume_init() }
}

/// The machine's Vulkan device, with the validation layer if that is installed; `None` without Vulkan.
fn context() -> Option<HeadlessContext> {
    let validated = HeadlessContext::new(&HeadlessOptions::default().validation(true));
    match validated.or_else(|_| HeadlessContext::new(&HeadlessOptions::default())) {
        Ok(context) => Some(context),
        Err(error) if matches!(error.kind(), ErrorKind::DriverNotFound | ErrorKind::NoDevice) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("Vulkan is installed but fails: {error}"),
    }
}

/// The context's objects, as a C program passes its own.
fn objects(context: &HeadlessContext, loaded_here: bool) -> gpi_vulkan_device {
    let interop = context.interop();
    let pointer = |raw: u64| std::ptr::with_exposed_provenance_mut::<c_void>(usize::try_from(raw).expect("64 bits"));
    let entry = load_entry().expect("the loader");
    let function = entry.static_fn().get_instance_proc_addr;
    // The context keeps the loader.
    // SAFETY: C's cast of a function pointer, which the library casts back.
    let function = unsafe { std::mem::transmute::<vk::PFN_vkGetInstanceProcAddr, unsafe extern "C" fn()>(function) };
    gpi_vulkan_device {
        instance: pointer(interop.instance().handle().as_raw()),
        physical_device: pointer(interop.physical_device().as_raw()),
        device: pointer(interop.device().handle().as_raw()),
        get_instance_proc_addr: (!loaded_here).then_some(function),
    }
}

static RELEASED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn release(context: *mut c_void) {
    RELEASED.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the box of `wrapped`, released once.
    drop(unsafe { Box::from_raw(context.cast::<HeadlessContext>()) });
}

/// Wraps a clone of the context, which the library owns.
fn wrapped(context: &HeadlessContext) -> gpi_vulkan {
    let (objects, owner) = (objects(context, false), Box::into_raw(Box::new(context.clone())));
    // SAFETY: live objects, kept by the owner.
    made(|out| unsafe { gpi_vulkan_wrap(&raw const objects, Some(release), owner.cast(), out) })
}

fn range(buffer: gpi_buffer) -> gpi_range {
    gpi_range { buffer, offset: 0, size: SIZE }
}

/// Vulkan fills, the stream reads and fills, Vulkan copies what the stream wrote.
fn round_trip(context: &HeadlessContext, vulkan: gpi_vulkan, device: gpi_device) {
    let transfer = gpi_vulkan_transfer { queue_family: context.queue_family(), stages: 0, access: 0 };
    let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
    let placement = GPI_VULKAN_DEVICE_LOCAL;
    let options = gpi_vulkan_buffer_options { size: SIZE, usage: usage.as_raw(), dedicated: 0, placement, kind: 0 };
    let shared = made(|out| c!(gpi_vulkan_buffer_create(vulkan, &raw const options, out)));
    let about: gpi_vulkan_memory_info = made(|out| c!(gpi_vulkan_buffer_get_info(shared, out)));
    assert!(about.allocation_size >= SIZE && about.mapped.is_null() && about.object != 0);
    let mut import: gpi_memory_import = made(|out| c!(gpi_vulkan_buffer_export(shared, out)));
    assert!(import.flags & GPI_IMPORT_HAS_EXPORTER != 0 && import.size == about.allocation_size);
    let memory = made(|out| c!(gpi_device_import_memory(device, &raw mut import, out)));
    let buffer = made(|out| c!(gpi_memory_map_buffer(memory, 0, SIZE, out)));

    let exporter = made(|out| c!(gpi_exported_semaphore_create_vulkan(vulkan, GPI_PAYLOAD_TIMELINE, 0, out)));
    let timeline = made(|out| c!(gpi_timeline_create(device, exporter, GPI_TIMELINE_AUTO, out)));
    let raw: u64 = made(|out| c!(gpi_exported_semaphore_get_vulkan(exporter, out)));
    let semaphore =
        c!(OwnedSemaphore::timeline_from_raw(context.interop(), vk::Semaphore::from_raw(raw), Arc::new(())));
    let semaphore = semaphore.expect("a timeline");
    let stream: gpi_stream = made(|out| c!(gpi_stream_create(device, out)));

    let vk_buffer = vk::Buffer::from_raw(about.object);
    let filled = context.submit(&[], &[SemaphoreOp { semaphore: &semaphore, value: 1 }], |recording| {
        let commands = recording.as_raw();
        c!(context.interop().device().cmd_fill_buffer(commands, vk_buffer, 0, SIZE, 0x1111_1111));
        let raw = std::ptr::with_exposed_provenance_mut(usize::try_from(commands.as_raw()).expect("64 bits"));
        ok(c!(gpi_vulkan_record_buffer_release(vulkan, raw, about.object, &raw const transfer)));
        Ok(())
    });
    let filled = filled.expect("submitted");
    ok(gpi_stream_wait_timeline(stream, timeline, 1));
    let mut bytes = vec![0_u8; 1 << 16];
    ok(c!(gpi_stream_read(stream, range(buffer), bytes.as_mut_ptr().cast(), bytes.len())));
    assert!(bytes.iter().all(|byte| *byte == 0x11));
    ok(gpi_stream_fill_u32(stream, range(buffer), 0x2222_2222));
    ok(gpi_stream_signal_timeline(stream, timeline, 2));

    let usage = vk::BufferUsageFlags::TRANSFER_DST;
    let copy = OwnedBuffer::new(context.interop(), SIZE, usage, MemoryPlacement::HostVisible).expect("a buffer");
    let copied = context.submit(&[SemaphoreOp { semaphore: &semaphore, value: 2 }], &[], |recording| {
        let commands = recording.as_raw();
        let raw = std::ptr::with_exposed_provenance_mut(usize::try_from(commands.as_raw()).expect("64 bits"));
        ok(c!(gpi_vulkan_record_buffer_acquire(vulkan, raw, about.object, &raw const transfer)));
        let region = [vk::BufferCopy::default().size(SIZE)];
        c!(context.interop().device().cmd_copy_buffer(commands, vk_buffer, copy.as_raw(), &region));
        recording.keep(&copy);
        Ok(())
    });
    copied.expect("submitted").wait(Duration::from_secs(10)).expect("finished");
    filled.wait(Duration::from_secs(10)).expect("finished");
    copy.read(0, &mut bytes).expect("mapped");
    assert!(bytes.iter().all(|byte| *byte == 0x22));

    // The same memory as one of the application, by its VkDeviceMemory.
    let dedicated = about.dedicated;
    let mut again: gpi_memory_import = made(|out| {
        c!(gpi_vulkan_export_memory(vulkan, about.memory, about.allocation_size, dedicated, GPI_MEMORY_OPAQUE_FD, out))
    });
    let own = made(|out| c!(gpi_device_import_memory(device, &raw mut again, out)));
    let same = made(|out| c!(gpi_memory_map_buffer(own, 0, SIZE, out)));
    bytes.fill(0);
    ok(c!(gpi_stream_read(stream, range(same), bytes.as_mut_ptr().cast(), bytes.len())));
    assert!(bytes.iter().all(|byte| *byte == 0x22));

    drop(semaphore);
    ok(gpi_timeline_destroy(timeline));
    ok(gpi_exported_semaphore_destroy(exporter));
    ok(gpi_stream_destroy(stream));
    for mapped in [buffer, same] {
        ok(gpi_buffer_destroy(mapped));
    }
    for imported in [memory, own] {
        ok(gpi_memory_destroy(imported));
    }
    ok(gpi_vulkan_buffer_destroy(shared));
}

/// An image with linear tiling, as rows of a buffer; and one with optimal tiling, which the host backend does not map.
fn images(context: &HeadlessContext, vulkan: gpi_vulkan, device: gpi_device) {
    let transfer = gpi_vulkan_transfer { queue_family: context.queue_family(), stages: 0, access: 0 };
    let usage = vk::ImageUsageFlags::TRANSFER_SRC | vk::ImageUsageFlags::TRANSFER_DST;
    let optimal = gpi_vulkan_image_options {
        view: vk::ImageViewType::TYPE_2D.as_raw(),
        format: vk::Format::R8G8B8A8_UNORM.as_raw(),
        extent: [64, 32, 1],
        layers: 0,
        levels: 0,
        usage: usage.as_raw(),
        tiling: vk::ImageTiling::OPTIMAL.as_raw(),
        flags: 0,
        offset: 0,
        dedicated: 1,
        placement: GPI_VULKAN_DEVICE_LOCAL,
        kind: 0,
        reserved: 0,
    };
    let linear = gpi_vulkan_image_options {
        tiling: vk::ImageTiling::LINEAR.as_raw(),
        placement: GPI_VULKAN_HOST_VISIBLE,
        dedicated: 0,
        ..optimal
    };
    let stream: gpi_stream = made(|out| c!(gpi_stream_create(device, out)));
    for options in [optimal, linear] {
        let image = made(|out| c!(gpi_vulkan_image_create(vulkan, &raw const options, out)));
        let about: gpi_vulkan_memory_info = made(|out| c!(gpi_vulkan_image_get_info(image, out)));
        context
            .run(|recording| {
                let commands = usize::try_from(recording.as_raw().as_raw()).expect("64 bits");
                let commands = std::ptr::with_exposed_provenance_mut(commands);
                let layout = vk::ImageLayout::GENERAL.as_raw();
                ok(c!(gpi_vulkan_record_image_initialize(image, commands)));
                ok(c!(gpi_vulkan_record_image_release(vulkan, commands, about.object, &raw const transfer, layout)));
                ok(c!(gpi_vulkan_record_image_acquire(vulkan, commands, about.object, &raw const transfer, layout)));
                let undefined = vk::ImageLayout::UNDEFINED.as_raw();
                let status =
                    c!(gpi_vulkan_record_image_release(vulkan, commands, about.object, &raw const transfer, undefined));
                assert_eq!(status, GPI_ERROR_INVALID_ARGUMENT);
                Ok(())
            })
            .expect("finished");
        let mut import: gpi_memory_import = made(|out| c!(gpi_vulkan_image_export(image, out)));
        let is_optimal = options.tiling == vk::ImageTiling::OPTIMAL.as_raw();
        assert_eq!(import.flags & GPI_IMPORT_HAS_IMAGE != 0, is_optimal);
        let memory = made(|out| c!(gpi_device_import_memory(device, &raw mut import, out)));
        let info: gpi_memory_info = made(|out| c!(gpi_memory_get_info(memory, out)));
        let mut layout = std::mem::MaybeUninit::<gpi_vulkan_row_layout>::uninit();
        let found = c!(gpi_vulkan_image_get_row_layout(image, 0, 0, layout.as_mut_ptr()));
        if is_optimal {
            let desc = info.image;
            assert_eq!((desc.width, desc.height, desc.shape, desc.channels), (64, 32, GPI_SHAPE_2D, 4));
            assert_eq!(found, GPI_ERROR_UNSUPPORTED);
            let mut array = gpi_array { id: 0 };
            let status = c!(gpi_memory_map_array(memory, std::ptr::null(), &raw mut array));
            assert_eq!(status, GPI_ERROR_UNSUPPORTED);
            // Its texels are in an order that only Vulkan knows.
            let mut buffer = gpi_buffer { id: 0 };
            let status = c!(gpi_memory_map_buffer(memory, 0, GPI_WHOLE_SIZE, &raw mut buffer));
            let message = c!(std::ffi::CStr::from_ptr(gpi_last_error_message())).to_string_lossy();
            assert!(status != GPI_SUCCESS && message.contains("linear"), "{status}: {message}");
            assert_eq!(buffer.id, 0);
            let bytes = made(|out| c!(gpi_memory_map_image_bytes(memory, 0, GPI_WHOLE_SIZE, out)));
            ok(gpi_buffer_destroy(bytes));
        } else {
            ok(found);
            // SAFETY: written.
            let layout = unsafe { layout.assume_init() };
            assert!(layout.row_pitch >= 64 * 4 && layout.size >= layout.row_pitch * 31 + 64 * 4);
            let buffer = made(|out| c!(gpi_memory_map_buffer(memory, 0, GPI_WHOLE_SIZE, out)));
            let row = gpi_range { buffer, offset: layout.offset + 3 * layout.row_pitch, size: 64 * 4 };
            ok(gpi_stream_fill(stream, row, 0x33));
            ok(gpi_stream_synchronize(stream, 10 * SECOND));
            assert!(!about.mapped.is_null());
            let offset = usize::try_from(row.offset).expect("64 bits");
            // SAFETY: mapped, and no work is pending.
            let seen = unsafe { std::slice::from_raw_parts(about.mapped.cast::<u8>().add(offset), 64 * 4) };
            assert!(seen.iter().all(|byte| *byte == 0x33));
            ok(gpi_buffer_destroy(buffer));
        }
        ok(gpi_memory_destroy(memory));
        ok(gpi_vulkan_image_destroy(image));
    }
    ok(gpi_stream_destroy(stream));
}

/// Messages about images, timelines and memory have the names of C.
fn messages(vulkan: gpi_vulkan, device: gpi_device) {
    let good = gpi_vulkan_image_options {
        view: vk::ImageViewType::TYPE_2D.as_raw(),
        format: vk::Format::R8G8B8A8_UNORM.as_raw(),
        extent: [16, 16, 1],
        layers: 1,
        levels: 1,
        usage: vk::ImageUsageFlags::TRANSFER_SRC.as_raw(),
        tiling: vk::ImageTiling::OPTIMAL.as_raw(),
        flags: 0,
        offset: 0,
        dedicated: 0,
        placement: GPI_VULKAN_DEVICE_LOCAL,
        kind: 0,
        reserved: 0,
    };
    let cases = [
        gpi_vulkan_image_options { extent: [0, 16, 1], ..good },
        gpi_vulkan_image_options { extent: [1 << 30, 16, 1], ..good },
        gpi_vulkan_image_options { levels: 99, ..good },
        gpi_vulkan_image_options { layers: 1 << 30, ..good },
        gpi_vulkan_image_options { format: vk::Format::D32_SFLOAT.as_raw(), ..good },
        gpi_vulkan_image_options { format: vk::Format::G8_B8R8_2PLANE_420_UNORM.as_raw(), ..good },
        gpi_vulkan_image_options { usage: 0, ..good },
        gpi_vulkan_image_options { usage: u32::MAX, ..good },
        gpi_vulkan_image_options { tiling: 77, ..good },
        gpi_vulkan_image_options { view: 77, ..good },
        gpi_vulkan_image_options { flags: u32::MAX, ..good },
        gpi_vulkan_image_options { flags: vk::ImageCreateFlags::CUBE_COMPATIBLE.as_raw(), ..good },
        gpi_vulkan_image_options { kind: 99, ..good },
        gpi_vulkan_image_options { kind: GPI_MEMORY_OPAQUE_WIN32, ..good },
    ];
    for options in cases {
        let mut image = gpi_vulkan_image { id: 0 };
        failed(c!(gpi_vulkan_image_create(vulkan, &raw const options, &raw mut image)), &format!("{options:?}"));
    }
    let image = made(|out| c!(gpi_vulkan_image_create(vulkan, &raw const good, out)));
    let mut layout = std::mem::MaybeUninit::<gpi_vulkan_row_layout>::uninit();
    failed(c!(gpi_vulkan_image_get_row_layout(image, 0, 0, layout.as_mut_ptr())), "optimal tiling has no rows");
    let mut import = made(|out| c!(gpi_vulkan_image_export(image, out)));
    let memory = made(|out| c!(gpi_device_import_memory(device, &raw mut import, out)));
    let mut buffer = gpi_buffer { id: 0 };
    failed(c!(gpi_memory_map_buffer(memory, 0, GPI_WHOLE_SIZE, &raw mut buffer)), "optimal tiling has no rows");
    ok(gpi_memory_destroy(memory));
    ok(gpi_vulkan_image_destroy(image));
    let exporter = made(|out| c!(gpi_exported_semaphore_create_vulkan(vulkan, GPI_PAYLOAD_TIMELINE, 0, out)));
    let timeline = made(|out| c!(gpi_timeline_create(device, exporter, GPI_TIMELINE_BRIDGE, out)));
    let stream = made(|out| c!(gpi_stream_create(device, out)));
    ok(gpi_stream_wait_timeline(stream, timeline, 5));
    failed(gpi_stream_synchronize(stream, SECOND / 50), "the stream waits for Vulkan");
    let message = c!(CStr::from_ptr(gpi_last_error_message())).to_string_lossy();
    let waits = message.split_once("waits for: timeline 0x").map_or("", |(_, rest)| rest);
    assert!(waits.contains(" of Vulkan: value 5; it is 0, and was last signalled here to 0"), "{message}");
    ok(gpi_timeline_signal(timeline, 5));
    ok(gpi_stream_synchronize(stream, 10 * SECOND));
    ok(gpi_stream_destroy(stream));
    ok(gpi_timeline_destroy(timeline));
    ok(gpi_exported_semaphore_destroy(exporter));
}

/// Wrong arguments are errors, and a failed function does not release the owner.
fn rejected(context: &HeadlessContext, vulkan: gpi_vulkan) {
    let good = objects(context, true);
    let mut handle = gpi_vulkan { id: 0 };
    let mut identity = std::mem::MaybeUninit::<gpi_identity>::uninit();
    let null = std::ptr::null_mut();
    let wrong = [
        gpi_vulkan_device { instance: null, ..good },
        gpi_vulkan_device { physical_device: null, ..good },
        gpi_vulkan_device { device: null, ..good },
    ];
    for device in wrong {
        // SAFETY: rejected before Vulkan is called.
        let status = unsafe { gpi_vulkan_wrap(&raw const device, Some(release), null, &raw mut handle) };
        assert_eq!((status, handle.id), (GPI_ERROR_INVALID_ARGUMENT, 0));
    }
    assert_eq!(RELEASED.load(Ordering::SeqCst), 0);
    // SAFETY: live objects; the loader is the system's.
    ok(unsafe { gpi_vulkan_get_physical_device_identity(&raw const good, identity.as_mut_ptr()) });
    let mut buffer = gpi_vulkan_buffer { id: 0 };
    let options = gpi_vulkan_buffer_options { size: 0, usage: 3, dedicated: 0, placement: 0, kind: 0 };
    let cases = [
        options,
        gpi_vulkan_buffer_options { size: 4, usage: 0, ..options },
        gpi_vulkan_buffer_options { size: 4, placement: 7, ..options },
        gpi_vulkan_buffer_options { size: 4, kind: 99, ..options },
    ];
    for options in cases {
        // SAFETY: addresses of variables.
        let status = unsafe { gpi_vulkan_buffer_create(vulkan, &raw const options, &raw mut buffer) };
        assert_eq!((status, buffer.id), (GPI_ERROR_INVALID_ARGUMENT, 0), "{options:?}");
    }
    let mut import = std::mem::MaybeUninit::<gpi_memory_import>::uninit();
    // SAFETY: null memory, which is rejected.
    let status = unsafe { gpi_vulkan_export_memory(vulkan, 0, 4096, 0, GPI_MEMORY_OPAQUE_FD, import.as_mut_ptr()) };
    assert_eq!(status, GPI_ERROR_INVALID_ARGUMENT);
    let mut semaphore = gpi_exported_semaphore { id: 0 };
    // SAFETY: a null semaphore, which is rejected.
    let status = unsafe { gpi_exported_semaphore_wrap_vulkan(vulkan, 0, 0, Some(release), null, &raw mut semaphore) };
    assert_eq!(status, GPI_ERROR_INVALID_ARGUMENT);
    let transfer = gpi_vulkan_transfer { queue_family: vk::QUEUE_FAMILY_EXTERNAL, stages: 0, access: 0 };
    // SAFETY: no command buffer, which is rejected.
    let status = unsafe { gpi_vulkan_record_buffer_release(vulkan, null, 1, &raw const transfer) };
    assert_eq!(status, GPI_ERROR_INVALID_ARGUMENT);
    let mut required = 7;
    // SAFETY: the address of a variable, and static texts.
    let first = unsafe { CStr::from_ptr(gpi_vulkan_get_extension(0, &raw mut required)) };
    assert!(first.to_bytes().starts_with(b"VK_KHR_external_memory") && required == 1, "{first:?}");
    // SAFETY: as above.
    assert!(unsafe { gpi_vulkan_get_extension(1000, std::ptr::null_mut()) }.is_null());
}

#[test]
fn data_passes_between_vulkan_and_a_stream() {
    let Some(context) = context() else { return };
    let vulkan = wrapped(&context);
    rejected(&context, vulkan);
    // SAFETY: the address of a variable.
    let identity: gpi_identity = made(|out| unsafe { gpi_vulkan_get_identity(vulkan, out) });
    // SAFETY: as above.
    let device: gpi_device = made(|out| unsafe { gpi_device_open_for(&raw const identity, out) });
    round_trip(&context, vulkan, device);
    images(&context, vulkan, device);
    messages(vulkan, device);
    ok(gpi_vulkan_destroy(vulkan));
    ok(gpi_device_destroy(device));
    assert_eq!(gpi_live_handles(), 0);
    // Old layers wait in vain for a signal by another thread, and report that as a probable bug of their own.
    let errors = context.validation_errors().into_iter().filter(|error| !error.contains("-state-timeout ]"));
    assert_eq!(errors.collect::<Vec<_>>(), Vec::<String>::new());
    // The bridge's thread may use the exporter briefly after its last timeline.
    for _ in 0..500 {
        if RELEASED.load(Ordering::SeqCst) == 1 {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the owner was released {} times", RELEASED.load(Ordering::SeqCst));
}
