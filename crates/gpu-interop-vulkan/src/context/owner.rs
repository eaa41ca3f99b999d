//! The instance and the device, destroyed in the correct order.

use std::ffi::CStr;
use std::sync::Arc;

use ash::{khr, vk};
use gpu_interop_core::{Error, ErrorKind, LoadAttempt, ProcessMark, Result};

use super::select::Candidate;
use super::validation::{self, ValidationLog};
use crate::error::Checked;
use crate::identity::{self, has_extension};
use crate::interop::{FIRST_USE, VulkanInterop};
use crate::loader::{self, LAYER, LOADER_LIBRARY};

/// An instance, with a messenger for the layer if validation is enabled.
pub(super) struct InstanceOwner {
    pub(super) instance: ash::Instance,
    /// The version requested for the instance: 1.1 or 1.2.
    pub(super) version: u32,
    pub(super) log: Option<Arc<ValidationLog>>,
    messenger: Option<(ash::ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    /// The process that created the instance.
    process: ProcessMark,
    /// Declared last, because it unloads the library.
    _entry: ash::Entry,
}

impl InstanceOwner {
    pub(super) fn new(validation: bool) -> Result<Self> {
        const OPERATION: &str = "vkCreateInstance";
        FIRST_USE.check(OPERATION)?;
        let entry = loader::load_entry()?;
        // SAFETY: the entry is a Vulkan loader's. `None` means a loader of Vulkan 1.0.
        let available = unsafe { entry.try_enumerate_instance_version() }
            .checked("vkEnumerateInstanceVersion")?
            .unwrap_or(vk::API_VERSION_1_0);
        if available < vk::API_VERSION_1_1 {
            return Err(Error::new(
                ErrorKind::DriverTooOld,
                OPERATION,
                format!("the loader is Vulkan {}, and sharing needs 1.1", identity::version(available)),
            ));
        }
        // Timeline semaphores are core in 1.2; later versions are not used.
        let version = available.min(vk::API_VERSION_1_2);
        let log = validation.then(|| Arc::new(ValidationLog::default()));
        let layer = log.as_ref().map(|_| validation::require_layer(&entry)).transpose()?;

        let application = vk::ApplicationInfo::default().application_name(c"gpu-interop").api_version(version);
        let layers = [LAYER.as_ptr()];
        let mut extensions = vec![vk::EXT_DEBUG_UTILS_NAME.as_ptr()];
        let hazards = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
        let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&hazards);
        let finds_hazards = layer.is_some_and(|layer| layer.finds_hazards);
        if finds_hazards {
            extensions.push(vk::EXT_VALIDATION_FEATURES_NAME.as_ptr());
        }
        let mut messenger_info = log.as_ref().map(ValidationLog::messenger_info);
        let mut info = vk::InstanceCreateInfo::default().application_info(&application);
        if let Some(messenger_info) = &mut messenger_info {
            // Chained, so that messages about the creation and destruction of the instance are received, too.
            info = info.enabled_layer_names(&layers).enabled_extension_names(&extensions).push_next(messenger_info);
            if finds_hazards {
                info = info.push_next(&mut features);
            }
        }
        // SAFETY: every structure and name lives to the end of the call, and the log as long as the instance.
        let instance = unsafe { entry.create_instance(&info, None) }.checked(OPERATION).map_err(|error| {
            if error.kind() != ErrorKind::DriverNotFound {
                return error;
            }
            let reason = "the loader is installed, but found no working driver".to_owned();
            error.with_attempts([LoadAttempt::new(LOADER_LIBRARY, reason)])
        })?;
        FIRST_USE.note();
        loader::keep_drivers(&entry, &application);
        let process = ProcessMark::of_this_process();
        let mut owner = Self { instance, version, log, messenger: None, process, _entry: entry };
        if let Some(log) = &owner.log {
            let functions = ash::ext::debug_utils::Instance::new(&owner._entry, &owner.instance);
            // SAFETY: the instance is live and has the extension; the log lives as long as `owner`.
            let messenger = unsafe { functions.create_debug_utils_messenger(&log.messenger_info(), None) }
                .checked("vkCreateDebugUtilsMessengerEXT")?;
            owner.messenger = Some((functions, messenger));
        }
        Ok(owner)
    }
}

impl InstanceOwner {
    /// `true` in a forked process, where a destruction would wait for the driver's threads, which do not exist.
    fn is_forked(&self) -> bool {
        !self.process.is_this_process()
    }
}

impl Drop for InstanceOwner {
    fn drop(&mut self) {
        if self.is_forked() {
            // The instance is leaked, so its library stays loaded.
            std::mem::forget(self._entry.clone());
            return;
        }
        // SAFETY: this object owns both, and they are live. The device created from the instance is gone: `DeviceOwner`
        // destroys it before it drops this. The log that the callback writes to is dropped after this.
        unsafe {
            if let Some((functions, messenger)) = self.messenger.take() {
                functions.destroy_debug_utils_messenger(messenger, None);
            }
            self.instance.destroy_instance(None);
        }
    }
}

/// A device with one queue of each used family.
pub(super) struct DeviceOwner {
    pub(super) device: ash::Device,
    pub(super) instance: InstanceOwner,
}

impl DeviceOwner {
    /// Creates the device with the extensions of this crate that it supports, and timeline semaphores and buffer addresses
    /// if it has them; with `drawing`, also with the features of [`HeadlessOptions::drawing`](super::HeadlessOptions).
    pub(super) fn new(
        instance: InstanceOwner,
        candidate: &Candidate,
        queue_families: impl IntoIterator<Item = u32>,
        drawing: bool,
    ) -> Result<Self> {
        let physical_device = candidate.physical_device;
        let wanted =
            VulkanInterop::required_device_extensions().iter().chain(VulkanInterop::optional_device_extensions());
        // SAFETY: the physical device belongs to the live instance.
        let listed = |name: &&CStr| unsafe { has_extension(&instance.instance, physical_device, name) };
        let mut extensions: Vec<_> = wanted.copied().filter(listed).map(CStr::as_ptr).collect();

        let mut timeline = vk::PhysicalDeviceTimelineSemaphoreFeatures::default();
        let mut addresses = vk::PhysicalDeviceBufferDeviceAddressFeatures::default();
        let mut rendering = vk::PhysicalDeviceDynamicRenderingFeatures::default();
        let mut core = vk::PhysicalDeviceFeatures::default();
        let is_1_2 = instance.version.min(candidate.api_version) >= vk::API_VERSION_1_2;
        // The extension's own requirements are part of Vulkan 1.2.
        let dynamic = drawing && is_1_2 && listed(&khr::dynamic_rendering::NAME);
        if is_1_2 {
            let mut features =
                vk::PhysicalDeviceFeatures2::default().push_next(&mut timeline).push_next(&mut addresses);
            if dynamic {
                features = features.push_next(&mut rendering);
            }
            // SAFETY: instance and device are 1.2 or later, which have the function and the structures, and the device has
            // the extension of the third.
            unsafe { instance.instance.get_physical_device_features2(physical_device, &mut features) };
        }
        if drawing {
            // SAFETY: the physical device belongs to the live instance.
            core = features_for_drawing(unsafe { instance.instance.get_physical_device_features(physical_device) });
        }
        if dynamic {
            extensions.push(khr::dynamic_rendering::NAME.as_ptr());
        }

        let priorities = [1.0];
        let queue =
            |family| vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&priorities);
        let queues: Vec<_> = queue_families.into_iter().map(queue).collect();
        let mut info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_extension_names(&extensions)
            .enabled_features(&core);
        // Buffers of the usage `SHADER_DEVICE_ADDRESS` need the feature.
        let mut addresses = vk::PhysicalDeviceBufferDeviceAddressFeatures::default()
            .buffer_device_address(addresses.buffer_device_address == vk::TRUE);
        if is_1_2 {
            info = info.push_next(&mut timeline).push_next(&mut addresses);
        }
        // Without the chain of the query.
        let mut rendering = vk::PhysicalDeviceDynamicRenderingFeatures::default()
            .dynamic_rendering(rendering.dynamic_rendering == vk::TRUE);
        if dynamic {
            info = info.push_next(&mut rendering);
        }
        // SAFETY: family, extensions and features are the device's own; everything lives to the end of the call.
        let device = unsafe { instance.instance.create_device(physical_device, &info, None) }
            .checked("vkCreateDevice")
            .map_err(|error| error.with_device(&candidate.identity))?;
        Ok(Self { device, instance })
    }
}

/// The features of [`HeadlessOptions::drawing`](super::HeadlessOptions) that a device has.
fn features_for_drawing(has: vk::PhysicalDeviceFeatures) -> vk::PhysicalDeviceFeatures {
    vk::PhysicalDeviceFeatures {
        vertex_pipeline_stores_and_atomics: has.vertex_pipeline_stores_and_atomics,
        fragment_stores_and_atomics: has.fragment_stores_and_atomics,
        shader_storage_image_extended_formats: has.shader_storage_image_extended_formats,
        occlusion_query_precise: has.occlusion_query_precise,
        ..vk::PhysicalDeviceFeatures::default()
    }
}

impl Drop for DeviceOwner {
    fn drop(&mut self) {
        if self.instance.is_forked() {
            return;
        }
        // SAFETY: every object created from the device holds an `Arc` of this object, so all are gone, and no
        // submission is pending: submissions hold one until they finish.
        unsafe { self.device.destroy_device(None) };
    }
}
