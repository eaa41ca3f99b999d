//! A real OpenGL context with imports from a real Vulkan driver: on a machine without GPUs, Mesa's llvmpipe and
//! lavapipe. Tests skipped for lack of EGL, Vulkan or an extension are printed with the reason.
//! `GPU_INTEROP_REQUIRE_GL=1` makes a skip fail.
#![cfg(unix)]
// Helper functions of the tests.
#![allow(clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::ffi::{c_int, c_uint, c_void};

use glow::HasContext;
use gpu_interop_core::{DeviceIdentity, ErrorKind, MemoryHandleKind, SemaphoreHandleKind, Support, Uuid};
use gpu_interop_gl::{Extension, GlInterop, HeadlessContext, HeadlessOptions, TextureFormat, TextureSpec};
use gpu_interop_vulkan::ash::vk;
use gpu_interop_vulkan::{
    BufferOptions, ExportableBuffer, ExportableImage, HeadlessContext as VulkanContext,
    HeadlessOptions as VulkanOptions, ImageOptions, ImageSpec,
};

fn skip(why: &dyn std::fmt::Display) {
    println!("SKIPPED: {why}");
    let required = std::env::var_os("GPU_INTEROP_REQUIRE_GL").is_some_and(|value| value == "1");
    assert!(!required, "GPU_INTEROP_REQUIRE_GL is set: {why}");
}

/// A context on any device; `None` if EGL is not installed.
fn headless() -> Option<HeadlessContext> {
    match HeadlessContext::new(&HeadlessOptions::default()) {
        Ok(context) => Some(context),
        Err(error) if error.kind() == ErrorKind::DriverNotFound => {
            skip(&error);
            None
        }
        Err(error) => panic!("EGL is installed but creates no context: {error}"),
    }
}

fn glow(context: &HeadlessContext) -> glow::Context {
    // SAFETY: the context is current, and the addresses belong to it.
    unsafe { glow::Context::from_loader_function_cstr(|name| context.address(name)) }
}

/// The same device in both APIs; `None` if one of them is missing.
fn same_device() -> Option<(HeadlessContext, VulkanContext)> {
    let gl = headless()?;
    let vulkan = match VulkanContext::new(&VulkanOptions::default()) {
        Ok(context) => context,
        Err(error) => {
            skip(&error);
            return None;
        }
    };
    match HeadlessContext::new(&HeadlessOptions::default().device(vulkan.identity().clone())) {
        Ok(context) => Some((context, vulkan)),
        Err(error) if gl.interop().driver().contains("llvmpipe") && vulkan.identity().name.contains("llvmpipe") => {
            panic!("both drivers are Mesa's CPU drivers: {error}")
        }
        Err(error) => {
            skip(&error);
            None
        }
    }
}

/// Reports whether the context imports memory; otherwise records the skip.
fn imports(gl: &GlInterop) -> bool {
    let support = gl.memory_support(MemoryHandleKind::OpaqueFd);
    if let Some(reason) = support.reason() {
        skip(&reason);
    }
    support.is_supported()
}

#[test]
fn extensions_match_the_driver() {
    let Some(context) = headless() else { return };
    let gl = context.interop();
    let listed = glow(&context).supported_extensions().clone();
    let expected: BTreeSet<_> = Extension::ALL.iter().copied().filter(|one| listed.contains(one.name())).collect();
    assert_eq!(gl.extensions().iter().copied().collect::<BTreeSet<_>>(), expected);
    for extension in Extension::ALL {
        assert_eq!(gl.has(*extension), expected.contains(extension), "{extension}");
    }
    let has = |needed: &[Extension]| needed.iter().all(|one| expected.contains(one));
    use Extension as E;
    let fd = gl.memory_support(MemoryHandleKind::OpaqueFd);
    assert_eq!(fd.is_supported(), has(&[E::MemoryObject, E::MemoryObjectFd]), "{fd}");
    let binary = gl.semaphore_support(SemaphoreHandleKind::OpaqueFd);
    assert_eq!(binary.is_supported(), has(&[E::Semaphore, E::SemaphoreFd]), "{binary}");
    if let Support::Unsupported(reason) = &binary {
        assert!(reason.contains("GL_EXT_semaphore"), "{reason}");
    }
    for windows in [MemoryHandleKind::OpaqueWin32, MemoryHandleKind::D3d11ResourceKmt] {
        assert!(gl.memory_support(windows).reason().is_some_and(|reason| reason.contains("operating system")));
    }
    assert!(gl.memory_support(MemoryHandleKind::DmaBufFd).reason().is_some_and(|reason| reason.contains("EGLImage")));
    // Mesa's CPU driver has these extensions.
    if gl.driver().contains("llvmpipe") {
        assert!(has(&[E::MemoryObject, E::MemoryObjectFd]), "{expected:?}");
    }
    println!("{}: {:?}", gl.driver(), gl.extensions());
}

#[test]
fn other_devices_are_rejected_with_both_identities() {
    let Some(context) = headless() else { return };
    let other_device = DeviceIdentity::default().with_uuid(Uuid::from_bytes([7; 16]));
    let error =
        HeadlessContext::new(&HeadlessOptions::default().device(other_device.clone())).expect_err("no such device");
    assert_eq!(error.kind(), ErrorKind::NoDevice);
    assert!(!error.attempts().is_empty() && error.to_string().contains("07070707"), "{error}");
    let gl = context.interop();
    if gl.identity().uuid.is_some() {
        let error = gl.check_exporter(&other_device).expect_err("another device");
        assert_eq!(error.kind(), ErrorKind::DeviceMismatch);
        let mismatch = error.mismatch().expect("both");
        assert_eq!((&mismatch.exporter, &mismatch.importer), (&other_device, gl.identity()));
    }
}

/// EGL's functions that an application calls.
struct Application {
    bind_api: unsafe extern "C" fn(c_uint) -> c_uint,
    query_api: unsafe extern "C" fn() -> c_uint,
    current_context: unsafe extern "C" fn() -> *mut c_void,
    current_display: unsafe extern "C" fn() -> *mut c_void,
    create_context: unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void, *const c_int) -> *mut c_void,
    make_current: unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void, *mut c_void) -> c_uint,
    destroy_context: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_uint,
}

impl Application {
    fn new() -> Self {
        // SAFETY: the library is already loaded.
        let library = unsafe { libloading::Library::new("libEGL.so.1") }.expect("EGL");
        // Never unloaded.
        let library: &'static libloading::Library = Box::leak(Box::new(library));
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the EGL function of this name has the type that the field declares.
                *unsafe { library.get($name) }.expect("one of EGL's functions")
            };
        }
        Self {
            bind_api: function!("eglBindAPI"),
            query_api: function!("eglQueryAPI"),
            current_context: function!("eglGetCurrentContext"),
            current_display: function!("eglGetCurrentDisplay"),
            create_context: function!("eglCreateContext"),
            make_current: function!("eglMakeCurrent"),
            destroy_context: function!("eglDestroyContext"),
        }
    }

    /// The bound API and the current context.
    fn state(&self) -> (c_uint, *mut c_void) {
        // SAFETY: no arguments.
        unsafe { ((self.query_api)(), (self.current_context)()) }
    }
}

#[test]
fn failed_creation_keeps_the_earlier_context_current() {
    const OPENGL_API: c_uint = 0x30A2;
    const OPENGL_ES_API: c_uint = 0x30A0;
    let Some(context) = headless() else { return };
    let egl = Application::new();
    let other_device = DeviceIdentity::default().with_uuid(Uuid::from_bytes([7; 16]));
    // The first is rejected after its context was current, the second before its context exists.
    let bad = [HeadlessOptions::default().device(other_device), HeadlessOptions::default().version(99, 0)];
    let fails = |what: &str| {
        let before = egl.state();
        for options in &bad {
            let error = HeadlessContext::new(options).expect_err("no such device");
            assert_eq!(error.kind(), ErrorKind::NoDevice, "{what}");
            assert_eq!(egl.state(), before, "{what}: {options:?}");
        }
        before
    };
    // A context of this crate.
    let (api, first) = fails("headless");
    assert!(api == OPENGL_API && !first.is_null());
    // SAFETY: the context is current.
    let error = unsafe { glow(&context).get_error() };
    assert_eq!(error, glow::NO_ERROR);

    // An OpenGL ES context of the application.
    let none = std::ptr::null_mut();
    let version_3 = [0x3098, 3, 0x3038];
    // SAFETY: the display is live, the list ends with `EGL_NONE`, and the context is destroyed once.
    unsafe {
        let display = (egl.current_display)();
        assert_eq!((egl.bind_api)(OPENGL_ES_API), 1);
        let es = (egl.create_context)(display, none, none, version_3.as_ptr());
        assert!(!es.is_null() && (egl.make_current)(display, none, none, es) == 1, "drivers have OpenGL ES 3");
        assert_eq!(fails("OpenGL ES"), (OPENGL_ES_API, es));
        // The application's context stays current while another API is bound.
        (egl.bind_api)(OPENGL_API);
        fails("OpenGL ES, with OpenGL bound");
        (egl.bind_api)(OPENGL_ES_API);
        assert_eq!(egl.state(), (OPENGL_ES_API, es));
        // Without a current context, none is current afterwards.
        assert_eq!((egl.make_current)(display, none, none, none), 1);
        assert_eq!(fails("none"), (OPENGL_ES_API, none));
        (egl.destroy_context)(display, es);
    }
    context.make_current().expect("current again");
}

#[test]
fn methods_fail_while_the_context_is_not_current() {
    let Some((first, vulkan)) = same_device() else { return };
    if !imports(first.interop()) {
        return;
    }
    let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
    let exported = ExportableBuffer::new(vulkan.interop(), &BufferOptions::new(8192, usage)).expect("a buffer");
    let memory = first.interop().import_memory(exported.import_request().expect("exported")).expect("imported");
    let second = HeadlessContext::new(&HeadlessOptions::default()).expect("another context");
    let error = memory.map_buffer(0..4096).expect_err("the other context is current");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("current"), "{error}");
    let request = exported.import_request().expect("exported");
    let failure = first.interop().import_memory(request).expect_err("the other context is current");
    assert_eq!(failure.kind(), ErrorKind::InvalidArgument);
    // The returned request works once a context is current.
    first.make_current().expect("current again");
    let again = first.interop().import_memory(failure.into_request()).expect("imported");
    again.map_buffer(0..4096).expect("a buffer");
    drop((second, memory));
}

#[test]
fn buffers_are_shared_in_both_directions_and_at_offsets() {
    let Some((context, vulkan)) = same_device() else { return };
    let gl = context.interop();
    if !imports(gl) {
        return;
    }
    const SIZE: usize = 64 << 10;
    /// Mesa's CPU driver reads past the end of a buffer, and requires memory there.
    const PADDING: u64 = 4096;
    let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
    for dedicated in [false, true] {
        let options = BufferOptions::new(SIZE as u64 + PADDING, usage).dedicated(dedicated);
        let exported = ExportableBuffer::new(vulkan.interop(), &options).expect("a buffer");
        let pattern = |seed: u8| (0..SIZE).map(|n| u8::try_from(n % 251).expect("small") ^ seed).collect::<Vec<_>>();
        vulkan.upload(exported.buffer(), 0, &pattern(0x5a)).expect("written");
        vulkan.release(exported.buffer()).expect("released");
        let memory = gl.import_memory(exported.import_request().expect("exported")).expect("imported");
        assert_eq!(memory.is_dedicated(), dedicated);
        let glow = glow(&context);
        for (offset, size) in [(0, SIZE), (4096, 8192)] {
            let buffer = match memory.map_buffer(offset as u64..(offset + size) as u64) {
                Err(error) if offset > 0 && gl.driver().contains("llvmpipe") => {
                    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
                    continue;
                }
                buffer => buffer.expect("a buffer"),
            };
            let found = read(&glow, buffer.as_raw(), size);
            assert!(found == pattern(0x5a)[offset..offset + size], "Vulkan's data at offset {offset}");
        }
        let whole = memory.map_buffer(0..SIZE as u64).expect("a buffer");
        write(&glow, whole.as_raw(), &pattern(0xa5));
        let mut found = vec![0; SIZE];
        vulkan.acquire(exported.buffer()).expect("acquired");
        vulkan.download(exported.buffer(), 0, &mut found).expect("read");
        assert!(found == pattern(0xa5), "OpenGL's data");
    }
}

#[test]
fn textures_contain_every_texel_of_the_image() {
    let Some((context, vulkan)) = same_device() else { return };
    let gl = context.interop();
    if !imports(gl) {
        return;
    }
    let (width, height) = (37_u32, 21_u32);
    let usage = vk::ImageUsageFlags::TRANSFER_DST | vk::ImageUsageFlags::TRANSFER_SRC | vk::ImageUsageFlags::SAMPLED;
    for format in [vk::Format::R8G8B8A8_UNORM, vk::Format::B8G8R8A8_UNORM, vk::Format::R32_UINT] {
        let spec = ImageSpec::new(vk::ImageViewType::TYPE_2D, [width, height, 1], format, usage).levels(3);
        let exported = ExportableImage::new(vulkan.interop(), &ImageOptions::new(spec)).expect("an image");
        vulkan.initialize_image(exported.image()).expect("initialised");
        let data = |level: u32| {
            let size = spec.level_size(level).expect("small");
            (0..size).map(|n| u8::try_from((n * 7 + u64::from(level)) % 253).expect("small")).collect::<Vec<_>>()
        };
        for level in 0..3 {
            vulkan.upload_image(exported.image(), level, 0, &data(level)).expect("written");
        }
        vulkan.release_image(exported.image()).expect("released");
        let memory = gl.import_memory(exported.import_request().expect("exported")).expect("imported");
        let desc = exported.array_desc().expect("an array");
        let texture_format = TextureFormat::from_vulkan(format.as_raw()).expect("a format");
        let texture = memory
            .map_texture(&TextureSpec::from_array(&desc).expect("a texture").format(texture_format))
            .expect("a texture");
        let glow = glow(&context);
        for level in 0..3 {
            let expected = data(level);
            let (format, ty) = if texture_format.internal() == glow::R32UI {
                (glow::RED_INTEGER, glow::UNSIGNED_INT)
            } else {
                (glow::RGBA, glow::UNSIGNED_BYTE)
            };
            let mut found = vec![0; expected.len()];
            // SAFETY: the context is current, and `found` has the size of the level.
            unsafe {
                glow.bind_texture(texture.target(), Some(named(texture.as_raw(), glow::NativeTexture)));
                let level = i32::try_from(level).expect("small");
                let target = glow::PixelPackData::Slice(Some(&mut found));
                glow.pixel_store_i32(glow::PACK_ALIGNMENT, 1);
                glow.get_tex_image(texture.target(), level, format, ty, target);
                assert_eq!(glow.get_error(), glow::NO_ERROR);
            }
            assert!(found == expected, "level {level} of {texture_format:?}");
        }
    }
}

fn named<T>(name: u32, make: impl FnOnce(std::num::NonZeroU32) -> T) -> T {
    make(std::num::NonZeroU32::new(name).expect("a name"))
}

/// Reads a buffer that cannot be mapped, through one that can.
fn read(gl: &glow::Context, buffer: u32, size: usize) -> Vec<u8> {
    let mut found = vec![0; size];
    // SAFETY: the context is current; both buffers have this size.
    unsafe {
        let own = gl.create_buffer().expect("a buffer");
        let size = i32::try_from(size).expect("small");
        gl.bind_buffer(glow::COPY_WRITE_BUFFER, Some(own));
        gl.buffer_data_size(glow::COPY_WRITE_BUFFER, size, glow::STREAM_READ);
        gl.bind_buffer(glow::COPY_READ_BUFFER, Some(named(buffer, glow::NativeBuffer)));
        gl.copy_buffer_sub_data(glow::COPY_READ_BUFFER, glow::COPY_WRITE_BUFFER, 0, 0, size);
        gl.get_buffer_sub_data(glow::COPY_WRITE_BUFFER, 0, &mut found);
        gl.delete_buffer(own);
        assert_eq!(gl.get_error(), glow::NO_ERROR);
    }
    found
}

/// Writes a buffer that cannot be mapped, and waits for completion.
fn write(gl: &glow::Context, buffer: u32, data: &[u8]) {
    // SAFETY: the context is current; both buffers have this size.
    unsafe {
        let own = gl.create_buffer().expect("a buffer");
        gl.bind_buffer(glow::COPY_READ_BUFFER, Some(own));
        gl.buffer_data_u8_slice(glow::COPY_READ_BUFFER, data, glow::STREAM_DRAW);
        gl.bind_buffer(glow::COPY_WRITE_BUFFER, Some(named(buffer, glow::NativeBuffer)));
        let size = i32::try_from(data.len()).expect("small");
        gl.copy_buffer_sub_data(glow::COPY_READ_BUFFER, glow::COPY_WRITE_BUFFER, 0, 0, size);
        gl.finish();
        gl.delete_buffer(own);
        assert_eq!(gl.get_error(), glow::NO_ERROR);
    }
}
