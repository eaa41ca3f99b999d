//! Imports that must fail without a lost descriptor.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::common::{buffer_desc, texture_desc, validation_messages};
use crate::imports::{Pair, SIZE, Wgpu, buffer_usage, import_texture, spec};
use gpu_interop_wgpu::gpu_interop::format::{DmaBufPicture, DmaBufPlane, DrmFourcc, DrmModifier};
use gpu_interop_wgpu::gpu_interop::vulkan::BufferImportOptions;
use gpu_interop_wgpu::gpu_interop::vulkan::ash::vk;
use gpu_interop_wgpu::gpu_interop::{ErrorKind, ImportError, MemoryHandle, MemoryImport};
use gpu_interop_wgpu::import::ImportOptions;
use wgpu::TextureFormat as Format;
use wgpu::TextureUsages as Usage;

/// Fails unless the import fails with these words, and returns the request with its descriptor.
fn rejected<T: std::fmt::Debug>(
    imported: Result<T, ImportError<MemoryImport>>,
    kind: ErrorKind,
    words: &str,
) -> MemoryImport {
    let (error, request) = imported.expect_err(words).into_parts();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(words), "`{words}`: {error}");
    assert!(error.to_string().contains("Importer::import_") || error.to_string().contains("Imported"), "{error}");
    assert!(rustix::fs::fstat(request.handle().as_fd().expect("a descriptor")).is_ok());
    request
}

#[test]
fn other_buffers_are_rejected_with_their_descriptors() {
    use ErrorKind::InvalidArgument;
    let Some(pair) = Pair::new() else { return };
    let importer = &pair.wgpu.importer;
    let exported = pair.buffer();
    let options = BufferImportOptions::new(SIZE, buffer_usage());
    let desc = buffer_desc(SIZE, wgpu::BufferUsages::STORAGE);
    let mut request = exported.import_request().expect("a request");
    let with = |usage| wgpu::BufferDescriptor { usage, ..desc.clone() };
    for (desc, words) in [
        (with(wgpu::BufferUsages::MAP_READ), "cannot map"),
        (wgpu::BufferDescriptor { mapped_at_creation: true, ..desc.clone() }, "cannot map"),
        (with(wgpu::BufferUsages::empty()), "no usage"),
        (with(wgpu::BufferUsages::from_bits_retain(1 << 31)), "no such usage"),
        (with(wgpu::BufferUsages::VERTEX), "lacks a usage"),
        (wgpu::BufferDescriptor { size: 0, ..desc.clone() }, "at least 1 byte"),
        (wgpu::BufferDescriptor { size: SIZE + 1, ..desc.clone() }, "smaller than wgpu's"),
    ] {
        request = rejected(importer.import_buffer(request, &desc, &options), InvalidArgument, words);
    }
    let large = pair.wgpu.device.limits().max_buffer_size + 4;
    let desc_large = wgpu::BufferDescriptor { size: large, ..desc.clone() };
    request = rejected(importer.import_buffer(request, &desc_large, &options), InvalidArgument, "max_buffer_size");
    // The checks of gpu-interop-vulkan.
    let more = BufferImportOptions::new(request.size() + 4, buffer_usage());
    request =
        rejected(importer.import_buffer(request, &desc, &more), InvalidArgument, "larger than the imported memory");
    importer.import_buffer(request, &desc, &options).expect("imported");

    let null = std::fs::File::open("/dev/null").expect("open");
    // SAFETY: the import fails before the driver is called.
    let request = unsafe { MemoryImport::new(MemoryHandle::OpaqueFd(OwnedFd::from(null)), SIZE) };
    rejected(importer.import_buffer(request, &desc, &options), InvalidArgument, "descriptor");
    assert_eq!(validation_messages(), 0);
}

#[test]
fn other_textures_are_rejected_with_their_descriptors() {
    use ErrorKind::{InvalidArgument, Unsupported};
    let Some(pair) = Pair::new() else { return };
    let tilings = [vk::ImageTiling::LINEAR, vk::ImageTiling::OPTIMAL];
    let Some((spec, exported)) = tilings.into_iter().find_map(|it| Some((spec(it), pair.image(spec(it))?))) else {
        return;
    };
    let desc = texture_desc(Format::Rgba8Unorm, [64, 37], Usage::TEXTURE_BINDING);
    let mut request = exported.import_request().expect("a request");
    let with = |usage| wgpu::TextureDescriptor { usage, ..desc.clone() };
    let layers = wgpu::Extent3d { depth_or_array_layers: 2, ..desc.size };
    for (desc, kind, words) in [
        (texture_desc(Format::Rgba8Unorm, [64, 36], Usage::COPY_SRC), InvalidArgument, "differs from the image's"),
        (texture_desc(Format::Bgra8Unorm, [64, 37], Usage::COPY_SRC), InvalidArgument, "differs from the image's"),
        (wgpu::TextureDescriptor { mip_level_count: 2, ..desc.clone() }, InvalidArgument, "differs from the image's"),
        (wgpu::TextureDescriptor { size: layers, ..desc.clone() }, InvalidArgument, "differs from the image's"),
        (wgpu::TextureDescriptor { mip_level_count: 9, ..desc.clone() }, InvalidArgument, "mip levels"),
        (wgpu::TextureDescriptor { sample_count: 4, ..desc.clone() }, Unsupported, "several samples"),
        (with(Usage::empty()), InvalidArgument, "no usage"),
        (with(Usage::STORAGE_BINDING), InvalidArgument, "without a usage"),
        (with(Usage::RENDER_ATTACHMENT), InvalidArgument, "never_discarded"),
        (with(Usage::TRANSIENT_ATTACHMENT), Unsupported, "transient"),
        (texture_desc(Format::Depth32Float, [64, 37], Usage::COPY_SRC), Unsupported, "shared_formats"),
        (
            wgpu::TextureDescriptor { view_formats: &[Format::Rgba8UnormSrgb], ..desc.clone() },
            InvalidArgument,
            "without a flag",
        ),
    ] {
        request = rejected(import_texture(&pair.wgpu, request, &desc, spec), kind, words);
    }
    import_texture(&pair.wgpu, request, &desc, spec).expect("imported");
    assert_eq!(validation_messages(), 0);
}

fn picture(planes: usize, code: &str) -> DmaBufPicture {
    let plane = || {
        let file = rustix::fs::memfd_create("picture", rustix::fs::MemfdFlags::CLOEXEC).expect("memory");
        rustix::fs::ftruncate(&file, 64 * 37 * 4).expect("sized");
        DmaBufPlane::new(file, 0, 256)
    };
    let planes = (0..planes).map(|_| plane()).collect();
    DmaBufPicture::new(DrmFourcc::from_code(code), DrmModifier::LINEAR, [64, 37], planes)
}

/// Pictures that no device imports so, on any device; without the extensions for dma-bufs, no picture at all.
#[test]
fn other_pictures_are_rejected_with_their_descriptors() {
    use ErrorKind::{InvalidArgument, Unsupported};
    let Some(wgpu) = Wgpu::new() else { return };
    let desc = texture_desc(Format::Bgra8Unorm, [64, 37], Usage::TEXTURE_BINDING);
    let listed = wgpu.importer.picture_modifiers(DrmFourcc::from_code("AR24"), Usage::TEXTURE_BINDING);
    let available = match &listed {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), Unsupported, "{error}");
            // `request_device` has enabled every extension that the driver has.
            assert!(error.message().contains("the Vulkan driver lacks an extension"), "{error}");
            assert!(!error.to_string().contains("request_device"), "{error}");
            false
        }
    };
    // Without the extensions, a picture without another defect is rejected for that.
    let missing = "the Vulkan driver lacks an extension for dma-bufs";
    let later = |kind, words| if available { (kind, words) } else { (Unsupported, missing) };
    let plain = || (desc.clone(), ImportOptions::default());
    let with = |desc| (desc, ImportOptions::default());
    for (picture, (desc, options), (kind, words)) in [
        (picture(2, "NV12"), plain(), (Unsupported, "into_planes")),
        (picture(0, "AR24"), plain(), later(InvalidArgument, "planes")),
        (picture(2, "AR24"), plain(), later(InvalidArgument, "planes")),
        (picture(1, "XR30"), plain(), (Unsupported, "wgpu has no format")),
        (picture(1, "AB30"), plain(), (InvalidArgument, "other texels")),
        (picture(1, "AB24"), plain(), later(InvalidArgument, "other texels")),
        (
            picture(1, "AR24"),
            with(wgpu::TextureDescriptor { mip_level_count: 2, ..desc.clone() }),
            (InvalidArgument, "is not the picture"),
        ),
        (
            picture(1, "AR24"),
            with(wgpu::TextureDescriptor { size: wgpu::Extent3d { width: 65, ..desc.size }, ..desc.clone() }),
            (InvalidArgument, "is not the picture"),
        ),
        (
            picture(1, "AR24"),
            with(wgpu::TextureDescriptor { usage: Usage::RENDER_ATTACHMENT, ..desc.clone() }),
            (InvalidArgument, "never_discarded"),
        ),
        (
            picture(1, "AR24"),
            with(wgpu::TextureDescriptor { view_formats: &[Format::Bgra8UnormSrgb], ..desc.clone() }),
            (Unsupported, "encoding that you need"),
        ),
    ] {
        let files: Vec<_> = picture.planes.iter().map(|plane| plane.fd.as_raw_fd()).collect();
        // SAFETY: the import fails, or the memory is as described.
        let imported = unsafe { wgpu.importer.import_picture(picture, &desc, options) };
        let (error, picture) = imported.expect_err(words).into_parts();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "`{words}`: {error}");
        assert!(picture.planes.iter().all(|plane| rustix::fs::fstat(&plane.fd).is_ok()), "{words}");
        assert!(picture.planes.iter().map(|plane| plane.fd.as_raw_fd()).eq(files), "{words}");
    }
    assert_eq!(validation_messages(), 0);
}

/// Descriptors that are closed, or of another file.
#[test]
fn descriptors_that_are_no_memory_are_returned() {
    /// Above the limit of open files.
    const CLOSED: i32 = 1 << 30;
    let Some(wgpu) = Wgpu::new() else { return };
    let texture = texture_desc(Format::Bgra8Unorm, [64, 37], Usage::TEXTURE_BINDING);
    let pictures = wgpu.importer.picture_modifiers(DrmFourcc::from_code("AR24"), Usage::TEXTURE_BINDING).is_ok();
    for closed in [false, true] {
        let file = || {
            let null = OwnedFd::from(std::fs::File::open("/dev/null").expect("open"));
            // SAFETY: no descriptor has this number, and the request below is leaked, so nothing closes it.
            if closed { unsafe { OwnedFd::from_raw_fd(CLOSED) } } else { null }
        };
        let plane = DmaBufPlane::new(file(), 0, 256);
        let picture = DmaBufPicture::new(DrmFourcc::from_code("AR24"), DrmModifier::LINEAR, [64, 37], vec![plane]);
        let number = picture.planes[0].fd.as_raw_fd();
        // SAFETY: the import fails before the driver is called.
        let imported = unsafe { wgpu.importer.import_picture(picture, &texture, ImportOptions::default()) };
        let (error, picture) = imported.expect_err("no dma-buf").into_parts();
        let expected = if pictures { ErrorKind::InvalidArgument } else { ErrorKind::Unsupported };
        assert_eq!(error.kind(), expected, "{error}");
        assert_eq!(picture.planes[0].fd.as_raw_fd(), number);
        std::mem::forget(picture);

        // SAFETY: as above.
        let request = unsafe { MemoryImport::new(MemoryHandle::OpaqueFd(file()), SIZE) };
        let options = BufferImportOptions::new(SIZE, buffer_usage());
        let desc = buffer_desc(SIZE, wgpu::BufferUsages::STORAGE);
        let (error, request) = wgpu.importer.import_buffer(request, &desc, &options).expect_err("closed").into_parts();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        std::mem::forget(request);
    }
}
