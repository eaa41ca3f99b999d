//! Pictures on dma-bufs of other producers.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use ash::vk;
use gpu_interop_core::format::{DmaBufPicture, DmaBufPlane, DrmFourcc, DrmModifier};
use gpu_interop_core::handle::{FdKind, classify_fd};
use gpu_interop_core::{Error, ErrorKind};
use gpu_interop_test_support::Random;
use gpu_interop_vulkan::{ImportedPicture, PictureOptions, Producer, VulkanInterop};

use crate::assert_calls;
use crate::driver::{Settings, calls, change, context, file, lend, start};

/// `VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_SAMPLED_BIT`.
const USAGE: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(0x5);
const TILED: DrmModifier = DrmModifier(0x0100_0000_0000_0002);

/// A device with modifiers.
fn modifiers() -> Settings {
    Settings { modifiers: true, ..Settings::default() }
}

fn picture(code: &str, modifier: DrmModifier, planes: Vec<DmaBufPlane>) -> DmaBufPicture {
    DmaBufPicture::new(DrmFourcc::from_code(code), modifier, [64, 32], planes)
}

/// NV12 with both planes in one dma-buf.
fn joint(modifier: DrmModifier) -> DmaBufPicture {
    let chroma = file(16384);
    lend(&chroma);
    let luma = chroma.try_clone().expect("a duplicate");
    picture("NV12", modifier, vec![DmaBufPlane::new(luma, 4096, 128), DmaBufPlane::new(chroma, 0, 64)])
}

/// NV12 with each plane in a dma-buf.
fn apart() -> DmaBufPicture {
    let (luma, chroma) = (file(8192), file(12288));
    lend(&luma);
    picture("NV12", DrmModifier::LINEAR, vec![DmaBufPlane::new(luma, 64, 64), DmaBufPlane::new(chroma, 128, 96)])
}

fn import(
    interop: &VulkanInterop,
    picture: DmaBufPicture,
    options: &PictureOptions,
) -> Result<ImportedPicture, (Error, DmaBufPicture)> {
    // SAFETY: the fake driver only records the calls.
    unsafe { ImportedPicture::new(interop, picture, options) }.map_err(gpu_interop_core::ImportError::into_parts)
}

fn import_default(interop: &VulkanInterop, picture: DmaBufPicture) -> Result<ImportedPicture, (Error, DmaBufPicture)> {
    import(interop, picture, &PictureOptions::new(USAGE))
}

#[test]
fn planes_in_one_dma_buf() {
    let interop = start(modifiers());
    let imported = import_default(&interop, joint(TILED)).expect("a picture");
    assert_eq!((imported.is_disjoint(), imported.dma_bufs().len()), (false, 1));
    assert_eq!((imported.planes(), imported.memory_planes(), imported.modifier()), (2, 2, TILED));
    assert_eq!(imported.plane_aspect(1).expect("chroma"), vk::ImageAspectFlags::PLANE_1);
    assert_eq!(imported.plane_aspect(2).expect_err("two planes").kind(), ErrorKind::InvalidArgument);
    drop(imported);
    assert_calls(&[
        // VK_FORMAT_G8_B8R8_2PLANE_420_UNORM, VK_IMAGE_TILING_DRM_FORMAT_MODIFIER_EXT,
        // VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT.
        "vkGetPhysicalDeviceImageFormatProperties2 1000059004{format 1000156003, type 1, tiling 1000158000, usage 0x5, \
         flags 0x0} 1000158002{modifier 0x100000000000002, sharing 0} 1000071000{type 0x200}",
        "vkCreateImage 14{flags 0x0, type 1, format 1000156003, extent 64 32 1, levels 1, layers 1, samples 0x1, tiling \
         1000158000, usage 0x5, sharing 0, families 0, layout 0} 1000158004{modifier 0x100000000000002, planes 4096 128 \
         [0, 0, 0], 0 64 [0, 0, 0]} 1000072001{types 0x200}",
        "vkGetImageMemoryRequirements2 1000146001{image 0xa1}",
        "vkGetMemoryFdPropertiesKHR type 0x200, a duplicate of the file, closed on exec",
        "vkAllocateMemory 5{size 16384, memory type 1} 1000074000{type 0x200, a duplicate of the file, closed on exec}",
        "vkBindImageMemory 0xa1, 0xd1, 0",
        "vkDestroyImage 0xa1",
        "vkFreeMemory 0xd1",
    ]);
}

#[test]
fn planes_in_several_dma_bufs() {
    let interop = start(modifiers());
    let picture = apart();
    let files: Vec<_> = picture.planes.iter().map(|plane| identity(&plane.fd).0).collect();
    let imported = import_default(&interop, picture).expect("a picture");
    assert!(imported.is_disjoint());
    assert_eq!(imported.dma_bufs().iter().map(|fd| identity(fd).0).collect::<Vec<_>>(), files);
    drop(imported);
    assert_calls(&[
        // VK_IMAGE_CREATE_DISJOINT_BIT.
        "vkGetPhysicalDeviceImageFormatProperties2 1000059004{format 1000156003, type 1, tiling 1000158000, usage 0x5, \
         flags 0x200} 1000158002{modifier 0x0, sharing 0} 1000071000{type 0x200}",
        "vkCreateImage 14{flags 0x200, type 1, format 1000156003, extent 64 32 1, levels 1, layers 1, samples 0x1, tiling \
         1000158000, usage 0x5, sharing 0, families 0, layout 0} 1000158004{modifier 0x0, planes 64 64 [0, 0, 0], 128 96 \
         [0, 0, 0]} 1000072001{types 0x200}",
        // VK_IMAGE_ASPECT_MEMORY_PLANE_0_BIT_EXT, VK_IMAGE_ASPECT_MEMORY_PLANE_1_BIT_EXT.
        "vkGetImageMemoryRequirements2 1000146001{image 0xa1} 1000156003{plane 0x80}",
        "vkGetMemoryFdPropertiesKHR type 0x200, a duplicate of the file, closed on exec",
        "vkAllocateMemory 5{size 8192, memory type 1} 1000074000{type 0x200, a duplicate of the file, closed on exec}",
        "vkGetImageMemoryRequirements2 1000146001{image 0xa1} 1000156003{plane 0x100}",
        "vkGetMemoryFdPropertiesKHR type 0x200, a duplicate of another file, closed on exec",
        "vkAllocateMemory 5{size 12288, memory type 1} 1000074000{type 0x200, a duplicate of another file, closed on exec}",
        "vkBindImageMemory2 1000157001{image 0xa1, memory 0xd1, offset 0} 1000156002{plane 0x80}, \
         1000157001{image 0xa1, memory 0xd2, offset 0} 1000156002{plane 0x100}",
        "vkDestroyImage 0xa1",
        "vkFreeMemory 0xd1",
        "vkFreeMemory 0xd2",
    ]);
}

/// Vulkan demands the image's size for a dedicated allocation.
#[test]
fn dedicated_allocations_have_the_size_of_the_image() {
    let allocation = |settings, dedicated: bool| {
        let interop = start(settings);
        let mut picture = joint(DrmModifier::LINEAR);
        picture.planes.iter_mut().for_each(|plane| plane.dedicated = dedicated);
        drop(import_default(&interop, picture).expect("a picture"));
        calls().into_iter().find(|call| call.starts_with("vkAllocateMemory")).expect("an allocation")
    };
    let expected = "vkAllocateMemory 5{size 8192, memory type 1} 1000074000{type 0x200, a duplicate of the file, closed on exec} \
                    1000127001{image 0xa1, buffer 0x0}";
    assert_eq!(allocation(Settings { requires_dedicated: true, ..modifiers() }, false), expected);
    assert_eq!(allocation(Settings { dedicated_only: true, ..modifiers() }, false), expected);
    assert_eq!(allocation(modifiers(), true), expected);
}

/// The barriers name the producer's queue family.
#[test]
fn transfers_name_the_producer() {
    let of_one = joint as fn(DrmModifier) -> DmaBufPicture;
    for (producer, family, picture) in [
        (Producer::Foreign, "0xfffffffd", of_one),
        (Producer::Foreign, "0xfffffffd", |_| apart()),
        (Producer::SameDriver, "0xfffffffe", of_one),
        (Producer::SameDriver, "0xfffffffe", |_| apart()),
    ] {
        let interop = start(modifiers());
        let context = context(&interop);
        let options = PictureOptions::new(USAGE).producer(producer);
        let imported = import(&interop, picture(TILED), &options).expect("a picture");
        context.acquire_image(imported.image()).expect("acquired");
        context.release_image(imported.image()).expect("released");
        let barriers: Vec<_> = calls().into_iter().filter(|call| call.contains("image 0xa1, aspect")).collect();
        assert_eq!(barriers.len(), 2, "{barriers:#?}");
        for (barrier, words) in
            barriers.iter().zip([format!("family {family} to 0x"), format!(" to {family}, image 0xa1")])
        {
            assert!(barrier.contains(&words), "{barrier} should contain: {words}");
            assert!(barrier.contains("layout 1 to 1"), "{barrier}");
        }
    }
}

fn none(call: &str) -> bool {
    !["vkCreateImage", "vkAllocateMemory"].iter().any(|name| call.starts_with(name))
}

/// Pictures that the device does not import: the kind of the error and its words.
#[test]
fn unsupported_pictures_are_rejected_before_the_driver() {
    let rejected = |settings, picture: DmaBufPicture, options: &PictureOptions, kind, words: &[&str]| {
        let interop = start(settings);
        let numbers: Vec<_> = picture.planes.iter().map(|plane| plane.fd.as_raw_fd()).collect();
        let (error, picture) = import(&interop, picture, options).expect_err(words[0]);
        assert_eq!(error.kind(), kind, "{error}");
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text} should contain: {words:?}");
        assert_eq!(picture.planes.iter().map(|plane| plane.fd.as_raw_fd()).collect::<Vec<_>>(), numbers);
        assert!(picture.planes.iter().all(|plane| classify_fd(plane.fd.as_fd()) == FdKind::Memory));
        assert!(calls().iter().all(|call| none(call)), "{text}");
    };
    let options = PictureOptions::new(USAGE);
    let (invalid, unsupported) = (ErrorKind::InvalidArgument, ErrorKind::Unsupported);
    let unknown = joint(DrmModifier(0x0300_0000_0060_6014));
    let listed = ["NVIDIA_BLOCK_LINEAR_2D", "listed: LINEAR", "INTEL_Y_TILED"];
    rejected(modifiers(), unknown, &options, unsupported, &listed);
    let no_modifiers = ["VK_EXT_image_drm_format_modifier", "copy the picture on the CPU"];
    rejected(Settings::default(), joint(TILED), &options, unsupported, &no_modifiers);
    rejected(modifiers(), joint(DrmModifier::INVALID), &options, unsupported, &["picture_modifiers"]);
    let storage = PictureOptions::new(USAGE | vk::ImageUsageFlags::STORAGE);
    let lacking = ["missing: STORAGE", "modifiers with the usage: LINEAR"];
    rejected(modifiers(), joint(TILED), &storage, unsupported, &lacking);
    let compressed = Settings { memory_planes: 3, ..modifiers() };
    rejected(compressed, joint(TILED), &options, invalid, &["has 3 memory planes", "planes: 2"]);
    let no_disjoint = Settings { disjoint: false, ..modifiers() };
    rejected(no_disjoint, apart(), &options, unsupported, &["several dma-bufs", "into_planes"]);
    rejected(Settings { dedicated_only: true, ..modifiers() }, apart(), &options, unsupported, &["into_planes"]);
    let no_usage = PictureOptions::new(vk::ImageUsageFlags::empty());
    rejected(modifiers(), joint(TILED), &no_usage, invalid, &["no usage"]);
    rejected(modifiers(), joint(TILED), &options.format(vk::Format::R8_UNORM), invalid, &["other texels"]);
    let no_import = Settings { importable: false, ..modifiers() };
    rejected(no_import, joint(TILED), &options, unsupported, &["does not import such an image", "picture_modifiers"]);
    let no_dma_bufs = Settings { dma_bufs: false, ..modifiers() };
    rejected(no_dma_bufs, joint(TILED), &options, unsupported, &["VK_EXT_external_memory_dma_buf"]);
    rejected(Settings { foreign: false, ..modifiers() }, joint(TILED), &options, unsupported, &["SameDriver"]);
    let mut large = joint(DrmModifier::LINEAR);
    large.extent = [2048, 2];
    rejected(modifiers(), large, &options, invalid, &["pitch is smaller", "plane: 0"]);
    let mut large = joint(DrmModifier::LINEAR);
    large.extent = [2048, 2];
    large.planes.iter_mut().for_each(|plane| plane.pitch = 2048);
    rejected(modifiers(), large, &options, unsupported, &["so large an extent", "limit: 1024 x 1024"]);
    let mut packed = joint(TILED);
    packed.format = DrmFourcc::from_code("YUYV");
    rejected(modifiers(), packed, &options, unsupported, &["'YUYV'", "known: "]);
}

/// The fake driver needs 8192 bytes.
#[test]
fn dma_bufs_below_the_driver_s_needs_are_rejected() {
    let interop = start(modifiers());
    let fd = file(4096);
    let planes = vec![DmaBufPlane::new(fd.try_clone().expect("dup"), 0, 64), DmaBufPlane::new(fd, 2048, 64)];
    let (error, _) = import_default(&interop, picture("NV12", DrmModifier::LINEAR, planes)).expect_err("too small");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let text = error.to_string();
    assert!(text.contains("needed: 8192 bytes") && text.contains("dma-buf: 4096 bytes"), "{text}");
    // The image is destroyed again.
    assert_eq!(calls().last().map(String::as_str), Some("vkDestroyImage 0xa1"));
}

/// The fake driver's images have the types 0xf.
#[test]
fn dma_bufs_without_a_memory_type_of_the_image_are_rejected() {
    let interop = start(Settings { fd_types: 0x30, ..modifiers() });
    let (error, _) = import_default(&interop, joint(TILED)).expect_err("no common type");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(text.contains("types of the dma-buf: 0x30") && text.contains("types of the image: 0xf"), "{text}");
    assert_eq!(calls().last().map(String::as_str), Some("vkDestroyImage 0xa1"));
}

#[test]
fn importable_modifiers_are_listed_by_usage() {
    let interop = start(modifiers());
    let listed = |usage| {
        let found = interop.picture_modifiers(DrmFourcc::from_code("NV12"), usage).expect("a list");
        found.into_iter().map(|found| (found.modifier, found.memory_planes)).collect::<Vec<_>>()
    };
    assert_eq!(listed(USAGE), [(DrmModifier::LINEAR, 2), (TILED, 2)]);
    assert_eq!(listed(vk::ImageUsageFlags::STORAGE), [(DrmModifier::LINEAR, 2)]);
    change(|settings| settings.importable = false);
    assert_eq!(listed(USAGE), []);
    let error = interop.picture_modifiers(DrmFourcc::from_code("YUYV"), USAGE).expect_err("unknown");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(ImportedPicture::formats().any(|code| code == DrmFourcc::from_code("P010")));
}

/// A good value, or rarely one of the bad ones.
fn mostly<T: Copy>(random: &mut Random, good: T, bad: &[T]) -> T {
    if random.word().is_multiple_of(12) { random.of(bad) } else { good }
}

/// A descriptor as a producer, or a defect, may pass it.
fn any_file(random: &mut Random) -> OwnedFd {
    match random.word() % 32 {
        0 => rustix::pipe::pipe().expect("a pipe").0,
        1 => std::fs::File::open("/dev/null").expect("open").into(),
        _ => file(mostly(random, 65536, &[0, 1, 4096, 8192, 12288])),
    }
}

/// A picture with few defects or none, and the number of memory planes of the device.
fn any_picture(random: &mut Random) -> (DmaBufPicture, u32) {
    let files: Vec<_> = (0..3).map(|_| any_file(random)).collect();
    let codes =
        [("NV12", 2), ("P010", 2), ("YU12", 3), ("XR24", 1), ("AR24", 1), ("R8  ", 1), ("GR88", 1), ("Q410", 3)];
    let (code, planes) = random.of(&codes);
    let code = mostly(random, code, &["YUYV", "NV12", "R8  "]);
    let count = mostly(random, planes, &[0, 1, 2, 3, 4, 5]);
    let same = random.word().is_multiple_of(2);
    let planes = (0..count)
        .map(|index| {
            let fd = files[if same { 0 } else { index as usize % 3 }].try_clone().expect("a duplicate");
            let offset =
                mostly(random, 16384 * u64::from(index), &[1, 64, 4096, 65535, u64::MAX, u64::MAX - 1, 1 << 63]);
            let pitch = mostly(random, 256, &[0, 63, 64, 65, 128, 260, 1 << 32, u64::MAX]);
            DmaBufPlane::new(fd, offset, pitch).dedicated(random.word().is_multiple_of(8))
        })
        .collect();
    let modifier = random.of(&[0, TILED.0]);
    let modifier = mostly(random, modifier, &[DrmModifier::INVALID.0, 0x0200_0000_0000_0901, u64::MAX]);
    let bad = [0, 1, 33, 4096, u32::MAX];
    let extent = [mostly(random, 64, &bad), mostly(random, 32, &bad)];
    let picture = DmaBufPicture::new(DrmFourcc::from_code(code), DrmModifier(modifier), extent, planes);
    (picture, mostly(random, count.clamp(1, 4), &[1, 2, 3, 4]))
}

/// Other tests of the process open descriptors at the same time, so each descriptor is followed: a
/// returned one is open and the same, and the files of an import have no other descriptor left.
#[test]
fn random_pictures_are_imported_or_returned_whole() {
    let mut random = Random(0x5eed_0001);
    let (mut imports, mut returns) = (0, std::collections::BTreeMap::new());
    for round in 0_u32..300 {
        let (picture, memory_planes) = any_picture(&mut random);
        let interop = start(Settings { memory_planes, disjoint: !round.is_multiple_of(3), ..modifiers() });
        let text = format!("round {round}: {picture:?}");
        let before: Vec<_> = picture.planes.iter().map(|plane| identity(&plane.fd)).collect();
        let numbers: Vec<_> = picture.planes.iter().map(|plane| plane.fd.as_raw_fd()).collect();
        match import_default(&interop, picture) {
            Ok(imported) => {
                imports += 1;
                drop(imported);
                // The fake driver has closed its duplicates.
                assert_eq!(open_descriptors_of(&before), 0, "{text}");
            }
            Err((error, picture)) => {
                assert!(matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::Unsupported), "{text}: {error}");
                *returns.entry(error.message().split([';', ',']).next().unwrap_or_default().to_owned()).or_insert(0) +=
                    1;
                let after: Vec<_> = picture.planes.iter().map(|plane| identity(&plane.fd)).collect();
                assert_eq!(after, before, "{text}");
                assert_eq!(
                    picture.planes.iter().map(|plane| plane.fd.as_raw_fd()).collect::<Vec<_>>(),
                    numbers,
                    "{text}"
                );
                // Those of the picture and no others; `/dev/null` is open elsewhere, too.
                if before.iter().all(|(_, is_memory)| *is_memory) {
                    assert_eq!(open_descriptors_of(&before), before.len(), "{text}: {error}");
                }
            }
        }
    }
    assert!(imports >= 30 && returns.len() >= 15, "{imports} imports, {returns:#?}");
}

/// Device and inode, and whether it is a memory file.
fn identity(fd: &OwnedFd) -> ((u64, u64), bool) {
    let stat = rustix::fs::fstat(fd).expect("open");
    ((stat.st_dev, stat.st_ino), classify_fd(fd.as_fd()) == FdKind::Memory)
}

/// Number of this process's descriptors of these files.
fn open_descriptors_of(files: &[((u64, u64), bool)]) -> usize {
    use std::os::linux::fs::MetadataExt;

    let open = std::fs::read_dir("/proc/self/fd").expect("/proc/self/fd").flatten();
    open.filter_map(|entry| std::fs::metadata(entry.path()).ok())
        .filter(|found| files.iter().any(|(file, _)| *file == (found.st_dev(), found.st_ino())))
        .count()
}

/// Vulkan has no dedicated allocations of disjoint images.
#[test]
fn dedicated_planes_in_several_dma_bufs_are_rejected() {
    let interop = start(modifiers());
    let mut picture = apart();
    picture.planes.iter_mut().for_each(|plane| plane.dedicated = true);
    let (error, _) = import_default(&interop, picture).expect_err("dedicated");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(text.contains("dedicated") && text.contains("into_planes"), "{text}");
    assert!(calls().iter().all(|call| none(call)), "{text}");
}
