//! The application's Vulkan device as this crate uses it.

use std::any::Any;
use std::ffi::CStr;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use ash::vk;
use gpu_interop_core::sync::lock;
use gpu_interop_core::{DeviceIdentity, Error, ErrorKind, FORKED, FirstUse, ProcessMark, Result};

use crate::handles::{self, Functions};
use crate::identity::{
    device_identity, driver_and_vendor, driver_description, has_extension, is_nvidias_driver, name_and_kind,
    query_properties, version,
};
use crate::queue::QueueWaits;
use crate::usage;

/// Function tables, memory types and identity of a Vulkan device, for sharing its objects.
///
/// Owns neither the instance nor the device. Cheap to clone; every clone and everything made from one may be used from
/// every thread.
#[derive(Clone)]
pub struct VulkanInterop {
    shared: Arc<Shared>,
}

/// The process of the first instance.
pub(crate) static FIRST_USE: FirstUse = FirstUse::none();

struct Shared {
    instance: ash::Instance,
    physical_device: vk::PhysicalDevice,
    device: ash::Device,
    memory_types: vk::PhysicalDeviceMemoryProperties,
    identity: DeviceIdentity,
    functions: Functions,
    /// The physical device has the feature `timelineSemaphore`.
    has_timelines: bool,
    timeline: Option<ash::khr::timeline_semaphore::DeviceFn>,
    max_timeline_difference: u64,
    /// The usages that buffers of the device may have.
    buffer_usages: vk::BufferUsageFlags,
    /// The usages and flags that images of the device may have.
    image_bits: (vk::ImageUsageFlags, vk::ImageCreateFlags),
    /// Those of the contexts on the device.
    pending_work: Mutex<Vec<Weak<dyn PendingWork>>>,
    /// Those of the queues of the device.
    queue_waits: QueueWaits,
    /// A bridge has looked for an old validation layer.
    layer_checked: AtomicBool,
    /// The process that made this.
    process: ProcessMark,
    /// Keeps the device alive if the application passed an owner.
    owner: Arc<dyn Any + Send + Sync>,
}

impl VulkanInterop {
    /// Queries an instance and a device of the application. Clones ash's tables; owns neither.
    ///
    /// # Errors
    /// * [`ErrorKind::System`] in a process that was forked after the first use of this crate: no driver works there.
    /// * [`ErrorKind::DriverTooOld`] if the physical device is below Vulkan 1.1.
    /// * [`ErrorKind::InvalidArgument`] if the instance was detected to be created for Vulkan 1.0: Vulkan cannot report
    ///   its version, but loaders and drivers hide the functions of 1.1 from such an instance.
    /// * [`ErrorKind::Unsupported`] if the device has no `vkGetMemoryFdKHR` (`vkGetMemoryWin32HandleKHR`): one of
    ///   [`required_device_extensions`](Self::required_device_extensions) was not enabled. Vulkan cannot report the
    ///   enabled extensions, so an extension without functions is not checked.
    ///
    /// A device without timeline semaphores shares memory and binary semaphores. Functions that need timelines then
    /// fail with [`ErrorKind::Unsupported`] and name the missing feature or extension.
    ///
    /// # Safety
    /// * `physical_device` must be a device of `instance`, and `device` made from it.
    /// * The instance must have been created for Vulkan 1.1 or later (`VkApplicationInfo::apiVersion`), even where the
    ///   check above does not detect an older one.
    /// * If timeline semaphores are created, exported or imported with this object, or a
    ///   [`Timeline`](gpu_interop_core::Timeline) waits for one: `device` must have been created with the feature
    ///   `timelineSemaphore` enabled. Only the physical device's support can be queried, and is. The same holds for
    ///   `bufferDeviceAddress` and buffers of the usage `SHADER_DEVICE_ADDRESS`, and for
    ///   `VK_EXT_external_memory_dma_buf` and dma-bufs.
    /// * Instance and device must outlive this object, its clones, and every buffer, image and semaphore made from
    ///   them, including those passed to a [`Timeline`](gpu_interop_core::Timeline) or allocated from a
    ///   [`SharedHeap`](crate::SharedHeap), which may be in use until the compute device is closed.
    pub unsafe fn new(
        instance: &ash::Instance,
        physical_device: vk::PhysicalDevice,
        device: &ash::Device,
    ) -> Result<Self> {
        // SAFETY: the caller's promises, with an owner of nothing.
        unsafe { Self::with_owner(instance, physical_device, device, Arc::new(())) }
    }

    /// As [`new`](Self::new), and keeps `owner` alive as long as anything made from this object. For applications that
    /// destroy their device in the drop of an `Arc`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    ///
    /// # Safety
    /// As [`new`](Self::new), except that instance and device need to live only as long as `owner` does.
    pub unsafe fn with_owner(
        instance: &ash::Instance,
        physical_device: vk::PhysicalDevice,
        device: &ash::Device,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Self> {
        const OPERATION: &str = "VulkanInterop::new";
        FIRST_USE.check(OPERATION)?;
        // The application's instance has loaded the drivers.
        FIRST_USE.note();
        // SAFETY: the caller promises that the physical device belongs to the live instance.
        let properties = unsafe { instance.get_physical_device_properties(physical_device) };
        if properties.api_version < vk::API_VERSION_1_1 {
            return Err(Error::new(
                ErrorKind::DriverTooOld,
                OPERATION,
                format!("the device is Vulkan {}; sharing needs Vulkan 1.1 or later", version(properties.api_version)),
            )
            .with_device(&name_and_kind(&properties)));
        }
        // SAFETY: the caller promises that the device is live and was made from this instance.
        let has = |name: &CStr| unsafe { instance.get_device_proc_addr(device.handle(), name.as_ptr()) }.is_some();
        // SAFETY: the caller promises that the physical device belongs to the live instance. The device is 1.1 or
        // later, and if it has these functions so is the instance, or the loader handles the call.
        let shows_1_1 =
            CORE_1_1.iter().copied().all(has) && unsafe { max_allocation_size(instance, physical_device) } != 0;
        if !shows_1_1 {
            return Err(Error::invalid(
                OPERATION,
                "the instance was created for Vulkan 1.0; set VkApplicationInfo::apiVersion to 1.1 or later, for timeline \
                 semaphores to 1.2",
            )
            .with_device(&name_and_kind(&properties)));
        }
        type Timelines = vk::PhysicalDeviceTimelineSemaphoreFeatures<'static>;
        type Addresses = vk::PhysicalDeviceBufferDeviceAddressFeatures<'static>;
        let (timelines, addresses) = (vk::KHR_TIMELINE_SEMAPHORE_NAME, vk::KHR_BUFFER_DEVICE_ADDRESS_NAME);
        // SAFETY: the caller promises that the physical device belongs to the live instance, which is 1.1 or later.
        let (memory_types, identity, has_timelines, has_addresses) = unsafe {
            (
                instance.get_physical_device_memory_properties(physical_device),
                device_identity(instance, physical_device),
                has_feature(instance, physical_device, &properties, timelines, |f: &Timelines| f.timeline_semaphore),
                has_feature(instance, physical_device, &properties, addresses, |f: &Addresses| f.buffer_device_address),
            )
        };
        let functions =
            Functions::load(OPERATION, instance, device, has).map_err(|error| error.with_device(&identity))?;
        // SAFETY: as above.
        let timeline = if has_timelines { unsafe { load_timeline(instance, device) } } else { None };
        let max_timeline_difference = match timeline {
            // SAFETY: the caller's promise; the device has timeline semaphores, and their properties with them.
            Some(_) => unsafe { max_timeline_difference(instance, physical_device) },
            None => 0,
        };
        let shared = Shared {
            functions,
            buffer_usages: usage::of_buffers(has, has_addresses),
            image_bits: usage::of_images(has),
            has_timelines,
            timeline,
            max_timeline_difference,
            instance: instance.clone(),
            physical_device,
            device: device.clone(),
            memory_types,
            identity,
            pending_work: Mutex::default(),
            queue_waits: QueueWaits::default(),
            layer_checked: AtomicBool::new(false),
            process: ProcessMark::of_this_process(),
            owner,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The device extensions that [`new`](Self::new) requires. Enable them in `VkDeviceCreateInfo`.
    #[doc(alias(
        "VK_KHR_external_memory_fd",
        "VK_KHR_external_semaphore_fd",
        "VK_KHR_external_memory_win32",
        "VK_KHR_external_semaphore_win32"
    ))]
    #[must_use]
    pub const fn required_device_extensions() -> &'static [&'static CStr] {
        handles::REQUIRED_EXTENSIONS
    }

    /// The device extensions for semaphores and dma-bufs. Enable those that the device lists.
    #[must_use]
    pub const fn optional_device_extensions() -> &'static [&'static CStr] {
        handles::OPTIONAL_EXTENSIONS
    }

    /// `true` if the physical device lists an extension, enabled or not. Calls `vkEnumerateDeviceExtensionProperties`; `false` if
    /// that fails, or in a forked process.
    #[doc(alias = "vkEnumerateDeviceExtensionProperties")]
    #[must_use]
    pub fn lists_extension(&self, name: &CStr) -> bool {
        // SAFETY: the physical device belongs to the live instance (`VulkanInterop::new`).
        !self.is_forked() && unsafe { has_extension(self.instance(), self.physical_device(), name) }
    }

    /// `true` if this keeps the device alive.
    pub(crate) fn keeps_device(&self) -> bool {
        !(*self.shared.owner).is::<()>()
    }

    /// `true` in a process that was forked from the one that made this. The driver must not be called there: its threads do
    /// not exist, and the objects belong to the parent process.
    pub(crate) fn is_forked(&self) -> bool {
        !self.shared.process.is_this_process()
    }

    /// Adds a list of objects that pending work uses.
    pub(crate) fn add_pending_work<T: PendingWork + 'static>(&self, list: &Arc<T>) {
        let mut lists = self.pending_work();
        lists.retain(|list| list.strong_count() > 0);
        let list: Weak<T> = Arc::downgrade(list);
        lists.push(list);
    }

    /// Drops the objects whose work has finished, of all contexts made from this object or its clones.
    pub(crate) fn free_finished(&self) {
        // Without the lock: the last reference drops objects of the application.
        let lists: Vec<_> = self.pending_work().iter().filter_map(Weak::upgrade).collect();
        lists.iter().for_each(|list| list.free_finished());
    }

    fn pending_work(&self) -> MutexGuard<'_, Vec<Weak<dyn PendingWork>>> {
        // The list is valid after every step, so a poisoned lock is usable.
        lock(&self.shared.pending_work)
    }

    /// The usages that buffers of the device may have.
    pub(crate) fn buffer_usages(&self) -> vk::BufferUsageFlags {
        self.shared.buffer_usages
    }

    /// The usages and flags that images of the device may have, as far as Vulkan reports extensions.
    pub(crate) fn image_bits(&self) -> (vk::ImageUsageFlags, vk::ImageCreateFlags) {
        self.shared.image_bits
    }

    /// `true` at the first call for this device.
    pub(crate) fn begin_layer_check(&self) -> bool {
        !self.shared.layer_checked.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn queue_waits(&self) -> &QueueWaits {
        &self.shared.queue_waits
    }

    /// Returns an error in a forked process.
    pub(crate) fn check_process(&self, operation: &'static str) -> Result<()> {
        if !self.is_forked() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::System, operation, FORKED).with_device(self.identity()))
    }

    /// The identity of the device.
    #[must_use]
    pub fn identity(&self) -> &DeviceIdentity {
        &self.shared.identity
    }

    /// The largest allocation, bytes (`VkPhysicalDeviceMaintenance3Properties`). Vulkan requires at least 1 GiB.
    #[must_use]
    pub fn max_allocation_size(&self) -> u64 {
        // SAFETY: the creator of this object promised that both are live, belong together, and are 1.1 or later.
        unsafe { max_allocation_size(&self.shared.instance, self.shared.physical_device) }
    }

    /// The largest difference between a signalled or awaited value and the timeline's current value or any pending one
    /// (`VkPhysicalDeviceTimelineSemaphoreProperties::maxTimelineSemaphoreValueDifference`). Vulkan requires at least
    /// 2^31 - 1; 0 if the device has no timeline semaphores.
    #[must_use]
    pub fn max_timeline_difference(&self) -> u64 {
        self.shared.max_timeline_difference
    }

    /// The driver's name and version in its vendor's spelling, and the device's Vulkan version. For reports.
    #[must_use]
    pub fn driver(&self) -> String {
        // SAFETY: the creator of this object promised that both are live, belong together, and are 1.1 or later.
        unsafe { driver_description(&self.shared.instance, self.shared.physical_device) }
    }

    /// `true` if a wait for one of several semaphores uses a processor until it ends: Mesa does so for timelines that the
    /// kernel does not know.
    pub(crate) fn polls_in_waits(&self) -> bool {
        self.driver_and_vendor().0 == Some(vk::DriverId::MESA_LLVMPIPE)
    }

    /// Reports whether the driver is NVIDIA's own. Mesa's NVK also drives NVIDIA devices.
    pub(crate) fn is_nvidia_driver(&self) -> bool {
        let (driver, vendor) = self.driver_and_vendor();
        is_nvidias_driver(driver, vendor)
    }

    /// The PCI vendor of the device.
    #[cfg(unix)]
    pub(crate) fn vendor(&self) -> u32 {
        self.driver_and_vendor().1
    }

    /// `true` for RADV, Mesa's driver for AMD GPUs.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_radv(&self) -> bool {
        self.driver_and_vendor().0 == Some(vk::DriverId::MESA_RADV)
    }

    fn driver_and_vendor(&self) -> (Option<vk::DriverId>, u32) {
        // SAFETY: as in `driver`.
        unsafe { driver_and_vendor(&self.shared.instance, self.shared.physical_device) }
    }

    /// The instance that was passed in.
    #[must_use]
    pub fn instance(&self) -> &ash::Instance {
        &self.shared.instance
    }

    /// The physical device that was passed in.
    #[must_use]
    pub fn physical_device(&self) -> vk::PhysicalDevice {
        self.shared.physical_device
    }

    /// The device that was passed in.
    #[must_use]
    pub fn device(&self) -> &ash::Device {
        &self.shared.device
    }

    /// The device's memory types, from `vkGetPhysicalDeviceMemoryProperties`.
    pub fn memory_types(&self) -> &[vk::MemoryType] {
        self.shared.memory_types.memory_types_as_slice()
    }

    /// The functions that export and import.
    pub(crate) fn functions(&self) -> &Functions {
        &self.shared.functions
    }

    /// The host operations on timeline semaphores, or an error that names what is missing.
    pub(crate) fn timeline(&self, operation: &'static str) -> Result<&ash::khr::timeline_semaphore::DeviceFn> {
        self.check_process(operation)?;
        self.shared.timeline.as_ref().ok_or_else(|| {
            let message = if self.has_timelines() {
                "the device was created without timeline semaphores; create instance and device for Vulkan 1.2, or the device \
                 with VK_KHR_timeline_semaphore, and the device with the feature timelineSemaphore"
            } else {
                "the physical device does not have the feature timelineSemaphore; use binary semaphores, or install a newer \
                 driver"
            };
            Error::unsupported(operation, message).with_device(self.identity())
        })
    }

    /// Reports whether the physical device supports timeline semaphores, enabled or not.
    pub(crate) fn has_timelines(&self) -> bool {
        self.shared.has_timelines
    }

    /// Reports whether both are the same `VkDevice`, so that one command buffer may use objects of both.
    pub(crate) fn is_same_device(&self, other: &Self) -> bool {
        self.device().handle() == other.device().handle()
    }
}

impl fmt::Debug for VulkanInterop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VulkanInterop")
            .field("device", &self.device().handle())
            .field("identity", self.identity())
            .finish_non_exhaustive()
    }
}

/// Functions of Vulkan 1.1 that this crate calls. Drivers may lack them for an instance of 1.0.
const CORE_1_1: [&CStr; 2] = [c"vkGetBufferMemoryRequirements2", c"vkGetImageMemoryRequirements2"];

/// The largest allocation, bytes. 0 if the driver does not fill the structures of Vulkan 1.1: for an instance of 1.0
/// the loader handles the call itself and fills none. Vulkan requires at least 2^30 bytes.
///
/// # Safety
/// `physical_device` must be a device of `instance`, of Vulkan 1.1 or later.
unsafe fn max_allocation_size(instance: &ash::Instance, physical_device: vk::PhysicalDevice) -> u64 {
    let mut limits = vk::PhysicalDeviceMaintenance3Properties::default();
    // SAFETY: the caller's promise; the structure is part of Vulkan 1.1.
    unsafe { query_properties(instance, physical_device, &mut limits) };
    limits.max_memory_allocation_size
}

/// Reports whether the physical device has a feature of Vulkan 1.2, or of an extension before it.
///
/// # Safety
/// `physical_device` must be a device of `instance`, both of Vulkan 1.1 or later, and `basic` its properties. Vulkan 1.2
/// and the extension have the structure `F`.
unsafe fn has_feature<F: vk::ExtendsPhysicalDeviceFeatures2 + Default>(
    instance: &ash::Instance,
    physical_device: vk::PhysicalDevice,
    basic: &vk::PhysicalDeviceProperties,
    extension: &CStr,
    feature: impl FnOnce(&F) -> vk::Bool32,
) -> bool {
    // SAFETY: the caller's promise.
    let is_listed = || unsafe { has_extension(instance, physical_device, extension) };
    if basic.api_version < vk::API_VERSION_1_2 && !is_listed() {
        return false;
    }
    let mut structure = F::default();
    let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut structure);
    // SAFETY: the caller's promise; the device supports the structure.
    unsafe { instance.get_physical_device_features2(physical_device, &mut features) };
    feature(&structure) == vk::TRUE
}

/// The host operations on timeline semaphores under their core names, or those of the extension.
///
/// # Safety
/// `device` must be a live device of `instance`.
unsafe fn load_timeline(
    instance: &ash::Instance,
    device: &ash::Device,
) -> Option<ash::khr::timeline_semaphore::DeviceFn> {
    let mut complete = true;
    let functions = ash::khr::timeline_semaphore::DeviceFn::load(|khr_name| {
        let core_name = match khr_name.to_bytes() {
            b"vkGetSemaphoreCounterValueKHR" => c"vkGetSemaphoreCounterValue",
            b"vkWaitSemaphoresKHR" => c"vkWaitSemaphores",
            b"vkSignalSemaphoreKHR" => c"vkSignalSemaphore",
            _ => khr_name,
        };
        // SAFETY: the caller promises a live device of this instance.
        let address = |name: &CStr| unsafe { instance.get_device_proc_addr(device.handle(), name.as_ptr()) };
        match address(core_name).or_else(|| address(khr_name)) {
            Some(function) => function as *const std::ffi::c_void,
            None => {
                complete = false;
                std::ptr::null()
            }
        }
    });
    complete.then_some(functions)
}

/// The limit of `vkGetPhysicalDeviceProperties2`, at least Vulkan's minimum.
///
/// # Safety
/// `physical_device` must be a device of `instance`, of Vulkan 1.1 or later and with timeline semaphores.
unsafe fn max_timeline_difference(instance: &ash::Instance, physical_device: vk::PhysicalDevice) -> u64 {
    const LEAST: u64 = i32::MAX as u64;
    let mut limits = vk::PhysicalDeviceTimelineSemaphoreProperties::default();
    // SAFETY: the caller's promise; the device has the structure with its timeline semaphores.
    unsafe { query_properties(instance, physical_device, &mut limits) };
    limits.max_timeline_semaphore_value_difference.max(LEAST)
}

/// Keeps objects until the work that uses them has finished.
pub(crate) trait PendingWork: Send + Sync {
    /// Drops the objects whose work has finished. Does not block, except in the destructors of owners.
    fn free_finished(&self);
}
