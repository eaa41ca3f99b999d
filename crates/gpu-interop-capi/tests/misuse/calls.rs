//! The calls: every function of the header with a handle, except Vulkan's. Pointers that are not null are valid: a call with
//! another one is outside of the interface.

use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use gpu_interop_capi::*;

use crate::world::{DESTROY, HOST, LARGEST, World};

/// Random choices of a call.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    pub(crate) call: u8,
    /// Handles, and other small choices.
    pub(crate) picks: [u16; 3],
    pub(crate) numbers: [u64; 3],
}

type Call = fn(&mut World, &Input) -> gpi_status;

/// A variable for a result, filled with a pattern that a failed call must leave.
fn result<T>(call: impl FnOnce(*mut T) -> gpi_status) -> (gpi_status, Option<T>) {
    const PATTERN: u8 = 0xa5;
    let mut memory = MaybeUninit::<T>::uninit();
    let bytes = memory.as_mut_ptr().cast::<u8>();
    // SAFETY: all bytes of the variable.
    unsafe { bytes.write_bytes(PATTERN, size_of::<T>()) };
    let status = call(memory.as_mut_ptr());
    if status == GPI_SUCCESS {
        // SAFETY: the call succeeded, and has written it.
        return (status, Some(unsafe { memory.assume_init() }));
    }
    // SAFETY: every byte was written above; a failed call has written none.
    let unchanged = (0..size_of::<T>()).all(|index| unsafe { bytes.add(index).read() } == PATTERN);
    assert!(unchanged, "a failed call wrote its result");
    (status, None)
}

/// Adds the handle that a call made. A quarter of the calls gets a null or misaligned pointer instead.
fn made(world: &mut World, input: &Input, kind: usize, mut call: impl FnMut(*mut u64) -> gpi_status) -> gpi_status {
    if input.numbers[2] % 8 == 7 {
        let status = call(ptr::null_mut());
        assert_ne!(status, GPI_SUCCESS);
        let mut space = [0_u64; 2];
        // SAFETY: inside the array.
        let misaligned = unsafe { space.as_mut_ptr().cast::<u8>().add(3) };
        let status = call(misaligned.cast());
        assert_eq!((status, space), (GPI_ERROR_INVALID_ARGUMENT, [0; 2]));
        return status;
    }
    let (status, id) = result(call);
    if let Some(id) = id {
        assert_ne!(id, 0);
        world.add(kind, id);
    }
    status
}

fn range(world: &World, input: &Input) -> gpi_range {
    let buffer = gpi_buffer { id: world.pick(3, input.picks[1]) };
    gpi_range { buffer, offset: input.numbers[0], size: input.numbers[1] }
}

fn stream(world: &World, input: &Input) -> gpi_stream {
    gpi_stream { id: world.pick(5, input.picks[0]) }
}

fn device(world: &World, input: &Input) -> gpi_device {
    gpi_device { id: world.pick(1, input.picks[0]) }
}

fn timeline(world: &World, input: &Input) -> gpi_timeline {
    gpi_timeline { id: world.pick(11, input.picks[1]) }
}

fn exported(world: &World, input: &Input) -> gpi_exported_semaphore {
    gpi_exported_semaphore { id: world.pick(10, input.picks[0]) }
}

fn array(world: &World, input: &Input) -> gpi_array {
    gpi_array { id: world.pick(4, input.picks[1]) }
}

fn region(world: &World, input: &Input) -> gpi_array_region {
    let (array, level) = (array(world, input), u32::from(input.picks[2] % 4));
    gpi_array_region { array, level, reserved: 0, offset: [0; 3], extent: input.numbers }
}

fn texels(world: &World, input: &Input) -> gpi_texels {
    gpi_texels { range: range(world, input), row_pitch: input.numbers[2], rows: input.numbers[0] }
}

fn small(number: u64) -> u32 {
    u32::try_from(number % 16).expect("small")
}

fn host() -> *mut c_void {
    HOST.as_ptr().cast_mut().cast()
}

fn size_of_host(number: u64) -> usize {
    usize::try_from(number.min(LARGEST)).expect("small")
}

/// One operation on a semaphore, or none.
fn op(world: &World, input: &Input) -> gpi_semaphore_op {
    gpi_semaphore_op {
        semaphore: gpi_semaphore { id: world.pick(9, input.picks[1]) },
        value: input.numbers[0],
        timeout_ns: input.numbers[1],
        fence: ptr::null_mut(),
        skip_memsync: 0,
        reserved: 0,
    }
}

/// A description of an exported buffer or semaphore, with one wrong field or none: what cannot be true must be rejected.
fn import_memory(world: &mut World, input: &Input) -> gpi_status {
    let buffer = gpi_buffer { id: world.pick(3, input.picks[1]) };
    let (status, import) = result(|out| c!(gpi_buffer_export(buffer, out)));
    let Some(mut import) = import else { return status };
    let fd = import.fd;
    match input.picks[2] % 8 {
        0 => import.kind = i32::from(input.picks[2]),
        1 => import.size = if input.numbers[0].is_multiple_of(2) { 0 } else { u64::MAX },
        2 => import.flags |= 1 << 30,
        3 => import.reserved = 1,
        4 => import.fd = [-1, 9999, i32::MIN][usize::from(input.picks[1]) % 3],
        5 => import.flags |= GPI_IMPORT_HAS_IMAGE,
        _ => {}
    }
    let device = gpi_device { id: world.pick(1, input.picks[0]) };
    let status = made(world, &Input { numbers: [0; 3], ..input.clone() }, 2, |out| {
        c!(gpi_device_import_memory(device, &raw mut import, out.cast()))
    });
    if status == GPI_SUCCESS {
        assert_eq!(import.fd, -1);
    } else {
        // Still the caller's: closing it succeeds.
        (import.kind, import.fd) = (GPI_MEMORY_OPAQUE_FD, fd);
        assert_eq!(c!(gpi_memory_import_close(&raw mut import)), GPI_SUCCESS);
        assert_eq!(import.fd, -1);
    }
    status
}

fn import_semaphore(world: &mut World, input: &Input) -> gpi_status {
    let exported = gpi_exported_semaphore { id: world.pick(10, input.picks[1]) };
    let (status, import) = result(|out| c!(gpi_exported_semaphore_export(exported, out)));
    let Some(mut import) = import else { return status };
    let (fd, kind) = (import.fd, import.kind);
    match input.picks[2] % 6 {
        0 => import.kind = i32::from(input.picks[2]),
        1 => import.kind = GPI_SEMAPHORE_OPAQUE_FD + GPI_SEMAPHORE_TIMELINE_FD - kind,
        2 => import.flags |= 1 << 30,
        3 => import.fd = -1,
        _ => {}
    }
    let device = gpi_device { id: world.pick(1, input.picks[0]) };
    let status = made(world, &Input { numbers: [0; 3], ..input.clone() }, 9, |out| {
        c!(gpi_device_import_semaphore(device, &raw mut import, out.cast()))
    });
    if status == GPI_SUCCESS {
        assert_eq!(import.fd, -1);
    } else {
        (import.kind, import.fd) = (kind, fd);
        assert_eq!(c!(gpi_semaphore_import_close(&raw mut import)), GPI_SUCCESS);
    }
    status
}

/// A name: a capability, an unknown one, one that is no UTF-8, or null.
fn name(pick: u16) -> *const c_char {
    let names = [c"feature.kernels", c"memory.opaque_fd", c"", c"fill_pattern", c"\xff\xfe", c"timeline"];
    names.get(usize::from(pick) % 7).map_or(ptr::null(), |name| name.as_ptr())
}

fn get<T>(call: impl FnOnce(*mut T) -> gpi_status) -> gpi_status {
    result(call).0
}

unsafe extern "C" fn nothing(_: *mut c_void) {}

/// Waits that could last for ever are tried with a stream that does not exist.
fn no_stream(world: &World, input: &Input) -> gpi_stream {
    gpi_stream { id: !world.pick(5, input.picks[0]) }
}

macro_rules! calls {
    ($(($($name:ident),+) |$world:ident, $input:ident| $body:expr;)+) => {
        /// The calls by name.
        pub(crate) const CALLS: &[(&str, Call)] = &[
            $($((stringify!($name), |$world, $input| {
                // SAFETY: pointers are null, or addresses of variables, texts and static memory.
                #[allow(unused_unsafe, reason = "some functions are safe")]
                unsafe { $body }
            }),)+)+
        ];
    };
}

calls! {
    (gpi_backend_destroy) |world, input| DESTROY[0].1(world.pick(0, input.picks[0]));
    (gpi_device_destroy) |world, input| DESTROY[1].1(world.pick(1, input.picks[0]));
    (gpi_memory_destroy) |world, input| DESTROY[2].1(world.pick(2, input.picks[0]));
    (gpi_buffer_destroy) |world, input| DESTROY[3].1(world.pick(3, input.picks[0]));
    (gpi_array_destroy) |world, input| DESTROY[4].1(world.pick(4, input.picks[0]));
    (gpi_stream_destroy) |world, input| DESTROY[5].1(world.pick(5, input.picks[0]));
    (gpi_event_destroy) |world, input| DESTROY[6].1(world.pick(6, input.picks[0]));
    (gpi_module_destroy) |world, input| DESTROY[7].1(world.pick(7, input.picks[0]));
    (gpi_kernel_destroy) |world, input| DESTROY[8].1(world.pick(8, input.picks[0]));
    (gpi_semaphore_destroy) |world, input| DESTROY[9].1(world.pick(9, input.picks[0]));
    (gpi_exported_semaphore_destroy) |world, input| DESTROY[10].1(world.pick(10, input.picks[0]));
    (gpi_timeline_destroy) |world, input| DESTROY[11].1(world.pick(11, input.picks[0]));
    (gpi_backend_get_info) |world, input| {
        get(|out| gpi_backend_get_info(gpi_backend { id: world.pick(0, input.picks[0]) }, out))
    };
    (gpi_backend_get_device) |world, input| {
        let backend = gpi_backend { id: world.pick(0, input.picks[0]) };
        get(|out| gpi_backend_get_device(backend, small(input.numbers[0]), out))
    };
    (gpi_device_open) |world, input| {
        let backend = gpi_backend { id: world.pick(0, input.picks[0]) };
        made(world, input, 1, |out| gpi_device_open(backend, small(input.numbers[0]) / 8, out.cast()))
    };
    (gpi_device_open_matching) |world, input| {
        let backend = gpi_backend { id: world.pick(0, input.picks[0]) };
        made(world, input, 1, |out| gpi_device_open_matching(backend, ptr::null(), out.cast()))
    };
    (gpi_device_get_info) |world, input| get(|out| gpi_device_get_info(device(world, input), out));
    (gpi_device_get_support) |world, input| {
        get(|out| gpi_device_get_support(device(world, input), name(input.picks[2]), out))
    };
    (gpi_device_get_known_defect) |world, input| {
        let mut text: [c_char; 4] = [0; 4];
        let capacity = usize::from(input.picks[2] % 5);
        gpi_device_get_known_defect(device(world, input), small(input.numbers[0]), text.as_mut_ptr(), capacity)
    };
    (gpi_device_collect) |world, input| gpi_device_collect(device(world, input));
    (gpi_device_fill_nvscisync_attributes) |world, input| {
        gpi_device_fill_nvscisync_attributes(device(world, input), ptr::null_mut(), small(input.numbers[0]))
    };
    (gpi_device_import_memory) |world, input| import_memory(world, input);
    (gpi_device_import_semaphore) |world, input| import_semaphore(world, input);
    (gpi_device_allocate_exportable) |world, input| {
        let (device, size) = (device(world, input), input.numbers[0]);
        let size = if size > 1 << 60 { size } else { size % (LARGEST + 1) };
        made(world, input, 3, |out| gpi_device_allocate_exportable(device, size, out.cast()))
    };
    (gpi_device_wrap_memory) |world, input| {
        let (device, address) = (device(world, input), host().expose_provenance() as u64);
        let (address, size) = match input.picks[2] % 4 {
            0 => (0, 8),
            1 => (address, 0),
            2 => (address, u64::MAX),
            _ => (address, LARGEST),
        };
        made(world, input, 3, |out| {
            gpi_device_wrap_memory(device, address, size, Some(nothing), ptr::null_mut(), out.cast())
        })
    };
    (gpi_memory_get_info) |world, input| {
        get(|out| gpi_memory_get_info(gpi_memory { id: world.pick(2, input.picks[0]) }, out))
    };
    (gpi_memory_map_buffer) |world, input| {
        let memory = gpi_memory { id: world.pick(2, input.picks[0]) };
        made(world, input, 3, |out| gpi_memory_map_buffer(memory, input.numbers[0], input.numbers[1], out.cast()))
    };
    (gpi_memory_map_image_bytes) |world, input| {
        let memory = gpi_memory { id: world.pick(2, input.picks[0]) };
        made(world, input, 3, |out| gpi_memory_map_image_bytes(memory, input.numbers[0], input.numbers[1], out.cast()))
    };
    (gpi_memory_map_array) |world, input| {
        let memory = gpi_memory { id: world.pick(2, input.picks[0]) };
        let [width, height, depth] = input.numbers;
        let (shape, channel) = (i32::from(input.picks[1] % 9), i32::from(input.picks[2] % 15));
        let desc = gpi_array_desc {
            offset: 0, width, height, depth, shape, channel, channels: 4, levels: 1, layout_levels: 0, usage: 0,
        };
        let desc = if input.picks[1] % 4 == 0 { ptr::null() } else { &raw const desc };
        made(world, input, 4, |out| gpi_memory_map_array(memory, desc, out.cast()))
    };
    (gpi_buffer_get_info) |world, input| {
        get(|out| gpi_buffer_get_info(gpi_buffer { id: world.pick(3, input.picks[0]) }, out))
    };
    (gpi_buffer_export) |world, input| {
        let buffer = gpi_buffer { id: world.pick(3, input.picks[0]) };
        let (status, import) = result(|out| gpi_buffer_export(buffer, out));
        if let Some(mut import) = import {
            assert_eq!(gpi_memory_import_close(&raw mut import), GPI_SUCCESS);
        }
        status
    };
    (gpi_array_get_desc) |world, input| gpi_array_get_desc(array(world, input), ptr::null_mut(), ptr::null_mut());
    (gpi_array_get_level) |world, input| {
        get(|out| gpi_array_get_level(array(world, input), small(input.numbers[0]), out))
    };
    (gpi_stream_create) |world, input| {
        let device = device(world, input);
        made(world, input, 5, |out| gpi_stream_create(device, out.cast()))
    };
    (gpi_stream_wrap) |world, input| {
        let device = device(world, input);
        made(world, input, 5, |out| gpi_stream_wrap(device, 0, Some(nothing), ptr::null_mut(), out.cast()))
    };
    (gpi_stream_get_raw) |world, input| get(|out| gpi_stream_get_raw(stream(world, input), out));
    (gpi_stream_synchronize) |world, input| gpi_stream_synchronize(stream(world, input), 20_000_000);
    (gpi_stream_query) |world, input| get(|out| gpi_stream_query(stream(world, input), out));
    (gpi_stream_keep) |world, input| gpi_stream_keep(stream(world, input), range(world, input));
    (gpi_stream_launch_host_function) |world, input| {
        let function = if input.picks[2] % 4 == 0 { None } else { Some(nothing as unsafe extern "C" fn(*mut c_void)) };
        gpi_stream_launch_host_function(stream(world, input), function, ptr::null_mut())
    };
    (gpi_stream_copy) |world, input| {
        let src = gpi_range { buffer: gpi_buffer { id: world.pick(3, input.picks[2]) }, ..range(world, input) };
        gpi_stream_copy(stream(world, input), range(world, input), src)
    };
    (gpi_stream_read) |world, input| {
        let size = size_of_host(input.numbers[1]);
        let dst = if input.numbers[2] % 8 == 7 { ptr::null_mut() } else { host() };
        gpi_stream_read(stream(world, input), range(world, input), dst, size)
    };
    (gpi_stream_write) |world, input| {
        let size = size_of_host(input.numbers[1]);
        gpi_stream_write(stream(world, input), range(world, input), host(), size)
    };
    (gpi_stream_read_async) |world, input| {
        let dst = if input.numbers[2] % 8 == 7 { ptr::null_mut() } else { host() };
        gpi_stream_read_async(stream(world, input), range(world, input), dst)
    };
    (gpi_stream_write_async) |world, input| {
        gpi_stream_write_async(stream(world, input), range(world, input), host())
    };
    (gpi_stream_fill) |world, input| gpi_stream_fill(stream(world, input), range(world, input), 7);
    (gpi_stream_fill_u32) |world, input| gpi_stream_fill_u32(stream(world, input), range(world, input), 7);
    (gpi_stream_copy_from_array) |world, input| {
        gpi_stream_copy_from_array(stream(world, input), texels(world, input), region(world, input))
    };
    (gpi_stream_copy_to_array) |world, input| {
        gpi_stream_copy_to_array(stream(world, input), region(world, input), texels(world, input))
    };
    (gpi_stream_copy_array) |world, input| {
        gpi_stream_copy_array(stream(world, input), region(world, input), region(world, input))
    };
    (gpi_stream_read_array) |world, input| {
        let size = size_of_host(input.numbers[1]);
        gpi_stream_read_array(stream(world, input), region(world, input), host(), size)
    };
    (gpi_stream_write_array) |world, input| {
        let size = size_of_host(input.numbers[1]);
        gpi_stream_write_array(stream(world, input), region(world, input), host(), size)
    };
    (gpi_stream_wait_value_u32) |world, input| {
        gpi_stream_wait_value_u32(no_stream(world, input), range(world, input), 0, i32::from(input.picks[2] % 6))
    };
    (gpi_stream_wait_value_u64) |world, input| {
        gpi_stream_wait_value_u64(no_stream(world, input), range(world, input), 0, i32::from(input.picks[2] % 6))
    };
    (gpi_stream_write_value_u32) |world, input| {
        gpi_stream_write_value_u32(stream(world, input), range(world, input), 1)
    };
    (gpi_stream_write_value_u64) |world, input| {
        gpi_stream_write_value_u64(stream(world, input), range(world, input), 1)
    };
    (gpi_event_create) |world, input| {
        let device = device(world, input);
        made(world, input, 6, |out| gpi_event_create(device, out.cast()))
    };
    (gpi_event_query) |world, input| get(|out| gpi_event_query(gpi_event { id: world.pick(6, input.picks[0]) }, out));
    (gpi_event_get_raw) |world, input| get(|out| gpi_event_get_raw(gpi_event { id: world.pick(6, input.picks[0]) }, out));
    (gpi_stream_record_event) |world, input| {
        gpi_stream_record_event(stream(world, input), gpi_event { id: world.pick(6, input.picks[1]) })
    };
    (gpi_stream_wait_event) |world, input| {
        gpi_stream_wait_event(stream(world, input), gpi_event { id: world.pick(6, input.picks[1]) })
    };
    (gpi_module_load) |world, input| {
        let device = device(world, input);
        let (kind, size) = (i32::from(input.picks[2] % 4), usize::from(input.picks[1] % 2));
        made(world, input, 7, |out| gpi_module_load(device, kind, c"".as_ptr().cast(), size, out.cast()))
    };
    (gpi_module_get_kernel) |world, input| {
        let module = gpi_module { id: world.pick(7, input.picks[0]) };
        made(world, input, 8, |out| gpi_module_get_kernel(module, name(input.picks[2]), out.cast()))
    };
    (gpi_kernel_get_raw) |world, input| get(|out| gpi_kernel_get_raw(gpi_kernel { id: world.pick(8, input.picks[0]) }, out));
    (gpi_stream_launch) |world, input| {
        // Without arguments: the host backend's kernels reject the launch, whatever they expect.
        let config = gpi_launch_config { grid: [1; 3], block: [small(input.numbers[0]); 3], shared_memory: 0 };
        let config = if input.picks[2] % 4 == 0 { ptr::null() } else { &raw const config };
        let kernel = gpi_kernel { id: world.pick(8, input.picks[1]) };
        gpi_stream_launch(stream(world, input), kernel, config, ptr::null(), usize::from(input.picks[2] % 3 == 0))
    };
    (gpi_semaphore_get_info) |world, input| {
        let semaphore = gpi_semaphore { id: world.pick(9, input.picks[0]) };
        gpi_semaphore_get_info(semaphore, ptr::null_mut(), ptr::null_mut())
    };
    (gpi_stream_signal) |world, input| {
        let ops = [op(world, input); 2];
        gpi_stream_signal(stream(world, input), ops.as_ptr(), usize::from(input.picks[2] % 3))
    };
    (gpi_stream_wait) |world, input| {
        let ops = [op(world, input); 2];
        gpi_stream_wait(no_stream(world, input), ops.as_ptr(), usize::from(input.picks[2] % 3))
    };
    (gpi_exported_semaphore_export) |world, input| {
        let (status, import) = result(|out| gpi_exported_semaphore_export(exported(world, input), out));
        if let Some(mut import) = import {
            assert_eq!(gpi_semaphore_import_close(&raw mut import), GPI_SUCCESS);
        }
        status
    };
    (gpi_exported_semaphore_get_value) |world, input| {
        get(|out| gpi_exported_semaphore_get_value(exported(world, input), out))
    };
    (gpi_exported_semaphore_signal) |world, input| {
        gpi_exported_semaphore_signal(exported(world, input), input.numbers[0])
    };
    (gpi_exported_semaphore_wait) |world, input| {
        gpi_exported_semaphore_wait(exported(world, input), input.numbers[0], 1_000_000)
    };
    (gpi_timeline_create) |world, input| {
        let (device, exporter) =
            (device(world, input), gpi_exported_semaphore { id: world.pick(10, input.picks[1]) });
        let strategy = i32::from(input.picks[2] % 4);
        made(world, input, 11, |out| gpi_timeline_create(device, exporter, strategy, out.cast()))
    };
    (gpi_timeline_get_strategy) |world, input| get(|out| gpi_timeline_get_strategy(timeline(world, input), out));
    (gpi_timeline_get_value) |world, input| get(|out| gpi_timeline_get_value(timeline(world, input), out));
    (gpi_timeline_wait) |world, input| gpi_timeline_wait(timeline(world, input), input.numbers[0], 1_000_000);
    (gpi_timeline_signal) |world, input| gpi_timeline_signal(timeline(world, input), input.numbers[0]);
    (gpi_timeline_watch_process) |world, input| gpi_timeline_watch_process(timeline(world, input), u32::MAX);
    (gpi_timeline_abandon) |world, input| gpi_timeline_abandon(timeline(world, input), name(input.picks[2]));
    (gpi_stream_wait_timeline) |world, input| {
        gpi_stream_wait_timeline(no_stream(world, input), timeline(world, input), input.numbers[0])
    };
    (gpi_stream_signal_timeline) |world, input| {
        gpi_stream_signal_timeline(stream(world, input), timeline(world, input), input.numbers[0])
    };
}
