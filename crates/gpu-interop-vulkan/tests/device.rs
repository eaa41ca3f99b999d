//! Device identity, support queries, and creation of the objects that they report.

#![allow(clippy::expect_used)]

mod common;

use ash::vk;
use common::{USAGE, vulkan, vulkan_with};
#[cfg(unix)]
use gpu_interop_core::SemaphoreHandleKind;
use gpu_interop_core::{DeviceKind, ErrorKind, IdentityMatch, MemoryHandleKind};
use gpu_interop_vulkan::{
    BufferOptions, DeviceChoice, ExportableBuffer, HeadlessContext, HeadlessOptions, ImageQuery, MemoryPlacement,
    OwnedBuffer, QueueKind, VulkanInterop, device_identity,
};

#[test]
fn identity_matches_the_driver() {
    let Some(context) = vulkan() else { return };
    let identity = context.identity();
    let interop = context.interop();
    // Queried a second time through the structure of Vulkan 1.1 that VkPhysicalDeviceIDProperties was merged into.
    let mut properties_11 = vk::PhysicalDeviceVulkan11Properties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut properties_11);
    // SAFETY: the context is alive, and its device is 1.1 or later. Below 1.2 the driver ignores the chained structure.
    unsafe { interop.instance().get_physical_device_properties2(interop.physical_device(), &mut properties) };
    let properties = properties.properties;
    let is_cpu = properties.device_type == vk::PhysicalDeviceType::CPU;
    assert_eq!(identity.kind == DeviceKind::Cpu, is_cpu);
    assert!(!identity.name.is_empty());
    if properties.api_version >= vk::API_VERSION_1_2 {
        assert_eq!(identity.uuid.map(|uuid| *uuid.as_bytes()), Some(properties_11.device_uuid));
        assert_eq!(identity.luid.is_some(), properties_11.device_luid_valid == vk::TRUE);
    }
    if is_cpu {
        assert_eq!(identity.pci, None, "a CPU has no PCI address");
    }
    // SAFETY: the context is alive.
    let again = unsafe { device_identity(interop.instance(), interop.physical_device()) };
    assert_eq!(&again, identity);
    assert_eq!(again.compare(identity), IdentityMatch::Same);
}

#[test]
fn devices_can_be_selected() {
    let Some(context) = vulkan() else { return };
    let devices = HeadlessContext::devices().expect("devices");
    let index = devices.iter().position(|device| device == context.identity()).expect("the context's own device");
    for choice in [DeviceChoice::Index(index), DeviceChoice::Identity(context.identity().clone())] {
        let chosen = vulkan_with(HeadlessOptions::default().device(choice)).expect("the same device again");
        assert_eq!(chosen.identity(), context.identity());
    }
    let missing = HeadlessOptions::default().device(DeviceChoice::Index(devices.len()));
    let error = HeadlessContext::new(&missing).expect_err("one past the end");
    assert_eq!(error.kind(), ErrorKind::NoDevice);
    assert_eq!(error.attempts().len(), devices.len());
}

#[test]
fn transfer_queue_is_found_or_reported_missing() {
    let Some(context) = vulkan() else { return };
    let choice = DeviceChoice::Identity(context.identity().clone());
    let options = HeadlessOptions::default().device(choice).queue(QueueKind::TransferOnly);
    match HeadlessContext::new(&options) {
        Ok(transfer) => assert_ne!(transfer.queue_family(), context.queue_family()),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NoDevice);
            assert!(error.to_string().contains("TransferOnly"), "{error}");
        }
    }
}

#[test]
fn buffer_creation_agrees_with_the_query() {
    let Some(context) = vulkan() else { return };
    let interop = context.interop();
    for kind in MemoryHandleKind::ALL {
        let options = BufferOptions::new(4096, USAGE).handle(*kind);
        let created = ExportableBuffer::new(interop, &options);
        match interop.buffer_features(*kind, USAGE) {
            Ok(features) if features.exportable => {
                assert!(features.compatible.contains(kind), "a kind is compatible with itself: {features:?}");
                created.expect("the device reports support");
            }
            _ => {
                assert_eq!(created.expect_err("the device reports no support").kind(), ErrorKind::Unsupported, "{kind}")
            }
        }
    }
    let opaque = interop.buffer_features(MemoryHandleKind::OpaqueFd, USAGE).expect("Vulkan has it");
    assert_eq!((opaque.exportable, opaque.importable), (cfg!(unix), cfg!(unix)));
}

#[test]
fn invalid_options_do_not_reach_the_driver() {
    let Some(context) = vulkan() else { return };
    let (interop, none) = (context.interop(), vk::BufferUsageFlags::empty());
    for (size, usage, words) in [(0, USAGE, "at least 1"), (64, none, "state how Vulkan uses it")] {
        let exported = ExportableBuffer::new(interop, &BufferOptions::new(size, usage)).map(drop);
        let owned = OwnedBuffer::new(interop, size, usage, MemoryPlacement::DeviceLocal).map(drop);
        for (outcome, operation) in [(exported, "ExportableBuffer::new"), (owned, "OwnedBuffer::new")] {
            let error = outcome.expect_err(words);
            assert_eq!((error.kind(), error.operation()), (ErrorKind::InvalidArgument, operation), "{error}");
            assert!(error.message().contains(words), "{error}");
        }
    }
    let error = interop.buffer_features(MemoryHandleKind::OpaqueFd, none).expect_err("no usage");
    assert_eq!((error.kind(), error.operation()), (ErrorKind::InvalidArgument, "VulkanInterop::buffer_features"));
}

#[cfg(unix)]
#[test]
fn invalid_buffer_imports_name_the_operation() {
    use gpu_interop_vulkan::{BufferImportOptions, ImportedBuffer};

    let Some(context) = vulkan() else { return };
    let exported = ExportableBuffer::new(context.interop(), &BufferOptions::new(64, USAGE)).expect("create");
    for (size, usage) in [(0, USAGE), (64, vk::BufferUsageFlags::empty())] {
        let request = exported.import_request().expect("export");
        let failure = ImportedBuffer::new(context.interop(), request, &BufferImportOptions::new(size, usage))
            .expect_err("rejected");
        let error = failure.error();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::InvalidArgument, "ImportedBuffer::new"), "{error}");
    }
}

#[test]
fn image_support_depends_on_format_and_usage() {
    let Some(context) = vulkan() else { return };
    let query = ImageQuery {
        format: vk::Format::R8G8B8A8_UNORM,
        image_type: vk::ImageType::TYPE_2D,
        tiling: vk::ImageTiling::OPTIMAL,
        usage: vk::ImageUsageFlags::SAMPLED | vk::ImageUsageFlags::TRANSFER_DST,
        flags: vk::ImageCreateFlags::empty(),
    };
    let features = context.interop().image_features(MemoryHandleKind::OpaqueFd, &query).expect("a common image");
    assert!(features.exportable && features.importable, "{features:?}");
    // No device has linear cubes.
    let (tiling, flags) = (vk::ImageTiling::LINEAR, vk::ImageCreateFlags::CUBE_COMPATIBLE);
    let usage = query.usage | vk::ImageUsageFlags::STORAGE | vk::ImageUsageFlags::COLOR_ATTACHMENT;
    let impossible = ImageQuery { format: vk::Format::R16G16B16A16_SNORM, tiling, flags, usage, ..query };
    match context.interop().image_features(MemoryHandleKind::OpaqueFd, &impossible) {
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert_eq!(error.operation(), "vkGetPhysicalDeviceImageFormatProperties2");
        }
        Ok(features) => println!("the device has such an image: {features:?}"),
    }
    // Images that this crate does not create: a depth buffer, compressed texels, and views of other formats of a block.
    let depth = vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT | vk::ImageUsageFlags::SAMPLED;
    let depth = ImageQuery { format: vk::Format::D32_SFLOAT, usage: depth, ..query };
    let blocks = ImageQuery { format: vk::Format::BC7_SRGB_BLOCK, ..query };
    let (format, flags) = (vk::Format::BC1_RGB_UNORM_BLOCK, vk::ImageCreateFlags::BLOCK_TEXEL_VIEW_COMPATIBLE);
    let views = ImageQuery { format, flags: flags | vk::ImageCreateFlags::MUTABLE_FORMAT, ..query };
    let sparse = ImageQuery { flags: vk::ImageCreateFlags::SPARSE_BINDING, ..query };
    for image in [depth, blocks, views, sparse] {
        match context.interop().image_features(MemoryHandleKind::OpaqueFd, &image) {
            Ok(features) => println!("{image:?}: {features:?}"),
            // The driver's answer, not this crate's.
            Err(error) => {
                assert_eq!(error.operation(), "vkGetPhysicalDeviceImageFormatProperties2", "{image:?}: {error}")
            }
        }
    }
    let error = context.interop().image_features(MemoryHandleKind::NvSciBuf, &query).expect_err("no such kind");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let unused = ImageQuery { usage: vk::ImageUsageFlags::empty(), ..query };
    let error = context.interop().image_features(MemoryHandleKind::OpaqueFd, &unused).expect_err("no usage");
    assert_eq!((error.kind(), error.operation()), (ErrorKind::InvalidArgument, "VulkanInterop::image_features"));
}

#[test]
fn devices_without_the_extension_are_rejected() {
    let Some(context) = vulkan() else { return };
    let interop = context.interop();
    let priorities = [1.0];
    let queues =
        [vk::DeviceQueueCreateInfo::default().queue_family_index(context.queue_family()).queue_priorities(&priorities)];
    let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
    // SAFETY: the instance is alive, the family exists, and the device is destroyed below before the instance.
    let bare = unsafe { interop.instance().create_device(interop.physical_device(), &info, None) }.expect("a device");
    // SAFETY: instance and device are alive until the result, an error, is dropped.
    let result = unsafe { VulkanInterop::new(interop.instance(), interop.physical_device(), &bare) };
    let outcome = result.map(drop).map_err(|error| (error.kind(), error.to_string()));
    // SAFETY: nothing was created from it.
    unsafe { bare.destroy_device(None) };
    if cfg!(unix) {
        let (kind, text) = outcome.expect_err("no extension is enabled");
        assert_eq!(kind, ErrorKind::Unsupported);
        assert!(text.contains("VK_KHR_external_memory_fd"), "{text}");
    }
}

#[cfg(unix)]
#[test]
fn semaphore_creation_agrees_with_the_query() {
    use gpu_interop_vulkan::{ExportableSemaphore, ImportedSemaphore};
    use rustix::io::FdFlags;

    let Some(context) = vulkan() else { return };
    let interop = context.interop();
    let cases = [
        (SemaphoreHandleKind::OpaqueFd, ExportableSemaphore::binary(interop)),
        (SemaphoreHandleKind::TimelineFd, ExportableSemaphore::timeline(interop, 5)),
    ];
    for (kind, created) in cases {
        let features = interop.semaphore_features(kind).expect("Vulkan has it");
        println!("{kind}: {features:?}");
        if !features.exportable {
            let error = created.expect_err("the device reports no support");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{kind}");
            continue;
        }
        let semaphore = created.expect("the device reports support");
        assert_eq!(semaphore.handle_kind(), kind);
        let request = semaphore.import_request().expect("export");
        assert_eq!(request.handle().kind(), kind);
        let fd = request.handle().as_fd().expect("a descriptor");
        assert!(rustix::io::fcntl_getfd(fd).expect("flags").contains(FdFlags::CLOEXEC));
        if features.importable {
            let imported = ImportedSemaphore::new(interop, request).expect("import");
            if kind == SemaphoreHandleKind::TimelineFd {
                semaphore.semaphore().signal(9).expect("signal");
                assert_eq!(imported.semaphore().value().expect("value"), 9);
            }
        }
    }
}

#[cfg(unix)]
#[test]
fn rejected_semaphores_are_returned() {
    use gpu_interop_core::{SemaphoreHandle, SemaphoreImport};
    use gpu_interop_vulkan::ImportedSemaphore;
    use rustix::fs::MemfdFlags;

    let Some(context) = vulkan() else { return };
    for make in [SemaphoreHandle::OpaqueFd, SemaphoreHandle::TimelineFd] {
        let fd = rustix::fs::memfd_create("not a semaphore", MemfdFlags::CLOEXEC).expect("memfd");
        // SAFETY: only a device that does not import such semaphores gets the request.
        let request = unsafe { SemaphoreImport::new(make(fd)) };
        let kind = request.handle().kind();
        if context.interop().semaphore_features(kind).expect("Vulkan has it").importable {
            println!("{kind}: skipped, the device imports this kind");
            continue;
        }
        let failure = ImportedSemaphore::new(context.interop(), request).expect_err("cannot be imported");
        assert_eq!(failure.kind(), ErrorKind::Unsupported);
        let fd = failure.into_request().into_handle().into_fd().expect("the descriptor is returned");
        rustix::fs::fstat(&fd).expect("open");
    }
}

/// An instance of Vulkan 1.0 is detected, although Vulkan cannot report the version.
#[test]
fn instances_of_vulkan_1_0_are_rejected() {
    let Some(context) = vulkan() else { return };
    let entry = gpu_interop_vulkan::load_entry().expect("Vulkan is installed");
    // An application can enable functions of 1.1 with extensions of 1.0.
    let extensions =
        [vk::KHR_GET_PHYSICAL_DEVICE_PROPERTIES2_NAME.as_ptr(), vk::KHR_EXTERNAL_MEMORY_CAPABILITIES_NAME.as_ptr()];
    for extensions in [&[][..], &extensions[..]] {
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_0);
        let info = vk::InstanceCreateInfo::default().application_info(&application).enabled_extension_names(extensions);
        // SAFETY: the names are constants, and the instance is destroyed below.
        let instance = unsafe { entry.create_instance(&info, None) }.expect("an instance");
        // SAFETY: the instance is alive.
        let devices = unsafe { instance.enumerate_physical_devices() }.expect("devices");
        // SAFETY: as above.
        let name =
            |device: &vk::PhysicalDevice| unsafe { instance.get_physical_device_properties(*device) }.device_name;
        // SAFETY: the context is alive.
        let expected =
            unsafe { context.interop().instance().get_physical_device_properties(context.interop().physical_device()) };
        let physical =
            devices.into_iter().find(|device| name(device) == expected.device_name).expect("the same device");
        let priorities = [1.0];
        let queues = [vk::DeviceQueueCreateInfo::default()
            .queue_family_index(context.queue_family())
            .queue_priorities(&priorities)];
        let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
        // SAFETY: the family exists; the device is destroyed below, before the instance.
        let device = unsafe { instance.create_device(physical, &info, None) }.expect("a device");
        // SAFETY: both are alive until the result, an error, is dropped. The instance of 1.0 violates the contract on
        // purpose: of 1.1, only functions that the loader implements itself are called.
        let result = unsafe { VulkanInterop::new(&instance, physical, &device) };
        let outcome = result.map(drop).map_err(|error| (error.kind(), error.to_string()));
        // SAFETY: nothing was created from them.
        unsafe {
            device.destroy_device(None);
            instance.destroy_instance(None);
        }
        let (kind, text) = outcome.expect_err("the instance is of 1.0");
        assert_eq!(kind, ErrorKind::InvalidArgument, "{text}");
        assert!(text.contains("apiVersion"), "{text}");
    }
}
