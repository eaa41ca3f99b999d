//! Imports that are independent of the platform's handles.

use gpu_interop_core::{ArrayFormat, ArrayShape, ChannelType, ErrorKind};
#[cfg(unix)]
use gpu_interop_core::{MemoryHandle, SemaphoreHandle};
use gpu_interop_gl::{Barriers, GlInterop, ImportedMemory, TextureFormat, TextureLayout, TextureSpec, TextureTiling};
use gpu_interop_test_support::request::{dedicated_request, memory_request, semaphore_request};

use crate::driver::{self, INVALID_ENUM, INVALID_OPERATION, INVALID_VALUE, OUT_OF_MEMORY, SIZE, with};
use crate::interop;

#[cfg(unix)]
pub(crate) fn memory_handle() -> MemoryHandle {
    let fd = rustix::fs::memfd_create("memory", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
    rustix::fs::ftruncate(&fd, SIZE).expect("ftruncate");
    MemoryHandle::OpaqueFd(fd)
}

#[cfg(unix)]
pub(crate) fn semaphore_handle(timeline: bool) -> SemaphoreHandle {
    let fd = rustix::fs::memfd_create("semaphore", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
    if timeline { SemaphoreHandle::TimelineFd(fd) } else { SemaphoreHandle::OpaqueFd(fd) }
}

#[cfg(windows)]
pub(crate) use crate::win32::{memory_handle, semaphore_handle};

pub(crate) fn memory(gl: &GlInterop) -> ImportedMemory {
    gl.import_memory(memory_request(memory_handle(), SIZE)).expect("imported")
}

fn rgba8() -> TextureFormat {
    TextureFormat::from_array(ArrayFormat::new(ChannelType::Unorm8, 4).expect("a format")).expect("in the table")
}

fn with_and_without_direct_access(test: impl Fn(&GlInterop, bool)) {
    test(&interop(&driver::ALL), true);
    driver::start(&driver::ALL[1..]);
    with(|state| state.version = "4.4.0 fake".into());
    test(&crate::try_interop().expect("a context"), false);
}

#[test]
fn ranges_are_validated_and_passed_unchanged() {
    with_and_without_direct_access(|gl, by_name| {
        let memory = memory(gl);
        with(|state| {
            state.calls.clear();
            // A binding of the application.
            state.bound.insert(0x8F37, 77);
        });
        for (offset, size) in [(0, 0), (0, SIZE + 1), (SIZE, 1), (1, SIZE), (u64::MAX, 2), (2, u64::MAX)] {
            let error = memory.map_buffer(offset..offset.wrapping_add(size)).expect_err("rejected");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{offset} {size}");
            assert!(error.to_string().contains(&format!("start: {offset}")), "{error}");
        }
        with(|state| assert!(state.calls.is_empty(), "{:?}", state.calls));
        for (offset, size) in [(0, SIZE), (4096, 100), (SIZE - 1, 1)] {
            let buffer = memory.map_buffer(offset..offset + size).expect("a buffer");
            assert_eq!((buffer.offset(), buffer.size()), (offset, size));
            with(|state| {
                let store = &state.buffers[&buffer.as_raw()];
                assert_eq!((store.memory, store.offset, store.size as u64), (memory.as_raw(), offset, size));
                assert_eq!(state.bound[&0x8F37], 77, "the binding is restored");
                let expected = if by_name { "glNamedBufferStorageMemEXT" } else { "glBufferStorageMemEXT" };
                assert!(state.calls.contains(&expected), "{:?}", state.calls);
            });
        }
        with(|state| assert!(state.buffers.is_empty()));
    });
}

#[test]
fn texture_parameters_are_passed_unchanged() {
    with_and_without_direct_access(|gl, by_name| {
        let memory = memory(gl);
        with(|state| _ = state.bound.insert(0x8069, 78));
        let swapped = TextureFormat::from_vulkan(44).expect("B8G8R8A8_UNORM");
        let spec = TextureSpec::new(ArrayShape::D2 { width: 64, height: 32 }, swapped)
            .levels(3)
            .offset(65536)
            .tiling(TextureTiling::Linear);
        let texture = memory.map_texture(&spec).expect("a texture");
        assert_eq!(texture.target(), 0x0DE1);
        with(|state| {
            let store = &state.textures[&texture.as_raw()];
            assert_eq!((store.memory, store.offset, store.format), (memory.as_raw(), 65536, 0x8058));
            assert_eq!((store.target, store.shape.as_slice()), (0x0DE1, [3, 64, 32].as_slice()));
            let parameters: Vec<_> = store.parameters.iter().map(|(name, value)| (*name, *value)).collect();
            // Red and blue are swapped, and the tiling is linear.
            assert_eq!(parameters, [(0x8E42, 0x1905), (0x8E44, 0x1903), (0x9580, 0x9585)]);
            assert_eq!(state.bound[&0x8069], 78, "the binding is restored");
        });
        drop(texture);
        // Bindings of the application for every target, by query.
        let queries = [0x8068, 0x8069, 0x806A, 0x8C1C, 0x8C1D, 0x8514, 0x900A];
        let bound = queries.map(|query| (query, query + 1000));
        with(|state| state.bound.extend(bound));
        for (shape, target, expected, call) in [
            (ArrayShape::D1 { width: 9 }, 0x0DE0, vec![1, 9], "1DEXT"),
            (ArrayShape::D1Layered { width: 9, layers: 5 }, 0x8C18, vec![1, 9, 5], "2DEXT"),
            (ArrayShape::D2 { width: 9, height: 7 }, 0x0DE1, vec![1, 9, 7], "2DEXT"),
            (ArrayShape::D2Layered { width: 9, height: 7, layers: 5 }, 0x8C1A, vec![1, 9, 7, 5], "3DEXT"),
            (ArrayShape::D3 { width: 9, height: 7, depth: 5 }, 0x806F, vec![1, 9, 7, 5], "3DEXT"),
            (ArrayShape::Cube { width: 9 }, 0x8513, vec![1, 9, 9], "2DEXT"),
            (ArrayShape::CubeLayered { width: 9, cubes: 2 }, 0x9009, vec![1, 9, 9, 12], "3DEXT"),
        ] {
            with(|state| state.calls.clear());
            let spec = TextureSpec::new(shape, rgba8()).offset(4096);
            let texture = memory.map_texture(&spec).expect("a texture");
            assert_eq!(texture.target(), target, "{shape:?}");
            with(|state| {
                let store = &state.textures[&texture.as_raw()];
                assert_eq!((&store.shape, store.target), (&expected, target), "{shape:?}");
                assert_eq!((store.memory, store.offset, store.format), (memory.as_raw(), 4096, 0x8058), "{shape:?}");
                assert_eq!(store.parameters.get(&0x9580), Some(&0x9584));
                let stored = if by_name { "glTextureStorageMem" } else { "glTexStorageMem" };
                assert!(state.calls.iter().any(|name| *name == format!("{stored}{call}")), "{:?}", state.calls);
                for (query, name) in bound {
                    assert_eq!(state.bound[&query], name, "{shape:?}: the binding is restored");
                }
                assert_eq!(state.calls.contains(&"glBindTexture"), !by_name, "{:?}", state.calls);
            });
        }
        with(|state| assert!(state.textures.is_empty()));
    });
}

/// OpenGL ES has no one-dimensional textures, whatever its loader finds; older contexts lack other shapes.
#[test]
fn shapes_missing_in_the_context_are_unsupported() {
    driver::start(&driver::ALL[1..]);
    with(|state| state.version = "OpenGL ES 3.1 fake".into());
    let gl = crate::try_interop().expect("a context");
    let memory = memory(&gl);
    with(|state| state.calls.clear());
    for shape in [ArrayShape::D1 { width: 9 }, ArrayShape::D1Layered { width: 9, layers: 5 }] {
        let error = memory.map_texture(&TextureSpec::new(shape, rgba8())).expect_err("OpenGL ES");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.message().contains("OpenGL ES") && error.to_string().contains("width: 9"), "{error}");
    }
    with(|state| assert!(state.calls.is_empty(), "{:?}", state.calls));
    let square = TextureSpec::new(ArrayShape::D2 { width: 9, height: 9 }, rgba8());
    drop(memory.map_texture(&square).expect("a texture"));

    // Drivers report other unsupported targets at the bind.
    with(|state| state.fault = Some(("glBindTexture", INVALID_ENUM)));
    let cubes = TextureSpec::new(ArrayShape::CubeLayered { width: 9, cubes: 2 }, rgba8());
    let error = memory.map_texture(&cubes).expect_err("no such target");
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Unsupported, "glBindTexture"), "{error}");
    with(|state| {
        state.fault = None;
        assert!(state.textures.is_empty() && state.pending.is_empty());
    });
}

/// Each call fails in turn: the error names it, and no object remains.
#[test]
fn failed_calls_are_named_and_leave_no_objects() {
    let gl = interop(&driver::ALL);
    let kinds = [
        (INVALID_OPERATION, ErrorKind::Driver),
        (INVALID_VALUE, ErrorKind::Driver),
        (OUT_OF_MEMORY, ErrorKind::OutOfMemory),
        (0x4242, ErrorKind::Driver),
    ];
    for (code, kind) in kinds {
        for call in ["glCreateMemoryObjectsEXT", "glMemoryObjectParameterivEXT"] {
            with(|state| state.fault = Some((call, code)));
            let request = dedicated_request(memory_handle(), SIZE, true);
            let failure = gl.import_memory(request).expect_err("rejected");
            with(|state| assert_eq!(state.alive(), 0, "{call}"));
            assert_eq!((failure.error().operation(), failure.kind()), (call, kind));
            assert_eq!(failure.error().code().map(|code| code.value), Some(i64::from(code)));
            with(|state| state.fault = None);
            let memory = gl.import_memory(failure.into_request()).expect("the returned request works");
            with(|state| assert!(state.memory[&memory.as_raw()].dedicated));
        }
        let memory = memory(&gl);
        for call in ["glCreateBuffers", "glNamedBufferStorageMemEXT"] {
            with(|state| state.fault = Some((call, code)));
            let error = memory.map_buffer(0..4096).expect_err("rejected");
            assert_eq!(error.operation(), call);
            with(|state| assert_eq!(state.alive(), 1, "{call}: {:?}", state.calls));
        }
        for call in ["glCreateTextures", "glTextureParameteri", "glTextureStorageMem2DEXT"] {
            with(|state| state.fault = Some((call, code)));
            let spec = TextureSpec::new(ArrayShape::D2 { width: 8, height: 8 }, rgba8());
            let error = memory.map_texture(&spec).expect_err("rejected");
            assert_eq!(error.operation(), call);
            with(|state| assert_eq!(state.alive(), 1, "{call}"));
        }
        for (call, timeline) in
            [("glGenSemaphoresEXT", false), ("glCreateSemaphoresNV", true), ("glSemaphoreParameterivNV", true)]
        {
            with(|state| state.fault = Some((call, code)));
            let failure = gl.import_semaphore(semaphore_request(semaphore_handle(timeline))).expect_err("rejected");
            assert_eq!((failure.error().operation(), failure.kind()), (call, kind));
            with(|state| {
                assert_eq!(state.alive(), 1, "{call}");
                state.fault = None;
            });
            drop(gl.import_semaphore(failure.into_request()).expect("the returned request works"));
        }
        let semaphore = gl.import_semaphore(semaphore_request(semaphore_handle(false))).expect("imported");
        with(|state| state.fault = Some(("glSignalSemaphoreEXT", code)));
        assert_eq!(semaphore.signal(&Barriers::NONE).expect_err("rejected").kind(), kind);
        with(|state| state.fault = None);
    }
    with(|state| assert_eq!(state.alive(), 0));
}

/// Without direct state access, failed calls also restore the bindings.
#[test]
fn failed_calls_restore_bindings() {
    driver::start(&driver::ALL[1..]);
    with(|state| state.version = "4.4.0 fake".into());
    let gl = crate::try_interop().expect("a context");
    let memory = memory(&gl);
    with(|state| state.bound.extend([(0x8F37, 77), (0x806A, 78)]));
    let spec = TextureSpec::new(ArrayShape::D3 { width: 8, height: 8, depth: 8 }, rgba8());
    for (call, of_texture) in [
        ("glGenBuffers", false),
        ("glBufferStorageMemEXT", false),
        ("glGenTextures", true),
        ("glBindTexture", true),
        ("glTexParameteri", true),
        ("glTexStorageMem3DEXT", true),
    ] {
        with(|state| state.fault = Some((call, OUT_OF_MEMORY)));
        let error = match of_texture {
            true => memory.map_texture(&spec).expect_err("rejected"),
            false => memory.map_buffer(0..4096).expect_err("rejected"),
        };
        assert_eq!((error.operation(), error.kind()), (call, ErrorKind::OutOfMemory), "{error}");
        with(|state| {
            assert_eq!((state.alive(), state.bound[&0x8F37], state.bound[&0x806A]), (1, 77, 78), "{call}");
        });
    }
}

/// A driver that returns neither a name nor an error: such an object is neither used nor deleted.
#[test]
fn objects_without_a_name_are_errors() {
    with_and_without_direct_access(|gl, by_name| {
        let memory = memory(gl);
        let spec = TextureSpec::new(ArrayShape::D2 { width: 8, height: 8 }, rgba8());
        let [buffers, textures] = match by_name {
            true => ["glCreateBuffers", "glCreateTextures"],
            false => ["glGenBuffers", "glGenTextures"],
        };
        let import =
            |timeline| gl.import_semaphore(semaphore_request(semaphore_handle(timeline))).expect_err("no name").into();
        for call in ["glCreateMemoryObjectsEXT", buffers, textures, "glGenSemaphoresEXT", "glCreateSemaphoresNV"] {
            with(|state| {
                state.calls.clear();
                state.fault = Some((call, 0));
            });
            let error: gpu_interop_core::Error = match call {
                "glCreateMemoryObjectsEXT" => {
                    gl.import_memory(memory_request(memory_handle(), SIZE)).expect_err("no name").into()
                }
                "glGenSemaphoresEXT" => import(false),
                "glCreateSemaphoresNV" => import(true),
                _ if call == buffers => memory.map_buffer(0..4096).expect_err("no name"),
                _ => memory.map_texture(&spec).expect_err("no name"),
            };
            assert_eq!((error.operation(), error.kind()), (call, ErrorKind::Driver), "{error}");
            assert!(error.message().contains("no name"), "{error}");
            with(|state| assert_eq!((state.alive(), state.calls.as_slice()), (1, [call].as_slice())));
        }
        with(|state| state.fault = None);
    });
}

/// Pending errors of the application are not attributed to this crate's calls.
#[test]
fn pending_errors_of_the_application_are_ignored() {
    let gl = interop(&driver::ALL);
    let add_pending_errors = || with(|state| state.pending = vec![INVALID_VALUE, INVALID_OPERATION]);
    add_pending_errors();
    let memory = memory(&gl);
    add_pending_errors();
    let buffer = memory.map_buffer(0..4096).expect("a buffer");
    add_pending_errors();
    let semaphore = gl.import_semaphore(semaphore_request(semaphore_handle(false))).expect("imported");
    add_pending_errors();
    semaphore.signal(&Barriers::buffers(&[&buffer])).expect("signalled");
    with(|state| assert!(state.pending.is_empty()));
}

/// A driver that accepts a handle without memory behind it, as Mesa's drivers do.
#[test]
fn missing_memory_is_rejected_at_the_first_use() {
    let gl = interop(&driver::ALL);
    let memory = memory(&gl);
    with(|state| {
        for memory in state.memory.values_mut() {
            drop_imported(memory);
        }
    });
    let error = memory.map_buffer(0..4096).expect_err("nothing there");
    assert_eq!(error.kind(), ErrorKind::ImportRejected, "{error}");
}

fn drop_imported(memory: &mut driver::Memory) {
    #[cfg(unix)]
    if let Some((_, _, fd)) = memory.imported {
        use std::os::fd::{FromRawFd, OwnedFd};
        // SAFETY: the fake driver owns the descriptor.
        drop(unsafe { OwnedFd::from_raw_fd(fd as i32) });
    }
    memory.imported = None;
}

#[test]
fn semaphores_pass_barriers() {
    let gl = interop(&driver::ALL);
    let memory = memory(&gl);
    let buffer = memory.map_buffer(0..4096).expect("a buffer");
    let spec = TextureSpec::new(ArrayShape::D2 { width: 8, height: 8 }, rgba8()).offset(65536);
    let texture = memory.map_texture(&spec).expect("a texture");
    let semaphore = gl.import_semaphore(semaphore_request(semaphore_handle(false))).expect("imported");
    let buffers = [&buffer, &buffer];
    for layout in TextureLayout::all() {
        let textures = [(&texture, layout)];
        let barriers = Barriers { buffers: &buffers, textures: &textures };
        semaphore.signal(&barriers).expect("signalled");
        let expected = (vec![buffer.as_raw(); 2], vec![texture.as_raw()], vec![layout.as_raw()]);
        with(|state| {
            assert_eq!(state.barriers, expected);
            assert_eq!(state.calls[state.calls.len() - 2..], ["glSignalSemaphoreEXT", "glFlush"]);
            state.barriers = Default::default();
        });
        // SAFETY: signalled above.
        unsafe { semaphore.wait(&barriers) }.expect("waited");
        with(|state| assert_eq!(state.barriers, expected));
    }
    let signalled = semaphore.signal_value(1, &Barriers::NONE);
    // SAFETY: rejected before the driver call.
    let waited = unsafe { semaphore.wait_value(1, &Barriers::NONE) };
    for (outcome, operation) in
        [(signalled, "ImportedSemaphore::signal_value"), (waited, "ImportedSemaphore::wait_value")]
    {
        let error = outcome.expect_err("binary");
        assert_eq!((error.kind(), error.operation()), (ErrorKind::InvalidArgument, operation), "{error}");
    }

    // Names of another context are rejected.
    // SAFETY: the fake driver is current.
    let other = unsafe { GlInterop::new(driver::address) }.expect("a context");
    let foreign = other.import_semaphore(semaphore_request(semaphore_handle(false))).expect("imported");
    let error = foreign.signal(&Barriers::buffers(&[&buffer])).expect_err("another context");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn timeline_values_must_increase() {
    let gl = interop(&driver::ALL);
    let timeline = gl.import_semaphore(semaphore_request(semaphore_handle(true))).expect("imported");
    with(|state| assert!(state.semaphores[&timeline.as_raw()].timeline));
    assert_eq!(timeline.signal(&Barriers::NONE).expect_err("a timeline").kind(), ErrorKind::InvalidArgument);
    for (value, increases) in [(5, true), (5, false), (4, false), (0, false), (6, true), (u64::MAX, true)] {
        with(|state| state.calls.clear());
        let signalled = timeline.signal_value(value, &Barriers::NONE);
        assert_eq!(signalled.is_ok(), increases, "{value}");
        with(|state| match increases {
            true => assert_eq!(state.semaphores[&timeline.as_raw()].value, value),
            false => assert!(state.calls.is_empty(), "{:?}", state.calls),
        });
    }
    // SAFETY: signalled above.
    unsafe { timeline.wait_value(3, &Barriers::NONE) }.expect("waited");
    with(|state| assert_eq!(state.semaphores[&timeline.as_raw()].value, 3));
}

#[test]
fn nothing_is_called_without_a_current_context() {
    let gl = interop(&driver::ALL);
    let memory = memory(&gl);
    let semaphore = gl.import_semaphore(semaphore_request(semaphore_handle(false))).expect("imported");
    with(|state| {
        state.calls.clear();
        state.current = false;
    });
    let invalid = ErrorKind::InvalidArgument;
    assert_eq!(memory.map_buffer(0..4096).expect_err("no context").kind(), invalid);
    let spec = TextureSpec::new(ArrayShape::D2 { width: 8, height: 8 }, rgba8());
    assert_eq!(memory.map_texture(&spec).expect_err("no context").kind(), invalid);
    assert_eq!(semaphore.signal(&Barriers::NONE).expect_err("no context").kind(), invalid);
    let failure = gl.import_memory(memory_request(memory_handle(), SIZE)).expect_err("no context");
    assert_eq!(failure.kind(), invalid);
    drop((memory, semaphore, gl));
    with(|state| assert!(state.calls.is_empty() && state.alive() == 2, "{:?}", state.calls));
}
