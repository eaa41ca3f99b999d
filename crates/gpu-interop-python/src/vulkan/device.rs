//! The application's own Vulkan device, by the integers of its handles.

use std::sync::Arc;

use gpu_interop::vulkan::ash::vk::{self, Handle};
use gpu_interop::vulkan::{HeadlessContext, RawMemory, VulkanInterop, ash, load_entry};
use gpu_interop::{Error, Result};
use pyo3::prelude::*;

use super::Vulkan;
use super::buffer::PyBuffer;
use super::context::PyContext;
use crate::convert::natural;
use crate::device::PyDevice;
use crate::error::{Raise, exception};
use crate::export::{self, PyExport};
use crate::identity::PyIdentity;
use crate::timeline::PyTimeline;

const FROM_HANDLES: &str = "Device.from_handles";

/// A Vulkan device of the application or another library, taken over by address.
#[pyclass(frozen, module = "gpu_interop.vulkan", name = "VulkanDevice")]
#[derive(Debug)]
pub(crate) struct PyVulkanDevice {
    vulkan: Vulkan,
    queue_family: u32,
}

/// The handles of a device.
#[derive(Debug, Clone, Copy)]
struct Handles {
    instance: u64,
    physical_device: u64,
    device: u64,
    get_instance_proc_addr: Option<usize>,
}

impl Handles {
    fn interop(self, owner: Py<PyAny>) -> Result<VulkanInterop> {
        for (name, handle) in
            [("instance", self.instance), ("physical_device", self.physical_device), ("device", self.device)]
        {
            if handle == 0 {
                return Err(Error::invalid(FROM_HANDLES, "a handle is null; pass the application's own")
                    .with_context("handle", name));
            }
        }
        let entry = match self.get_instance_proc_addr {
            None => load_entry()?,
            Some(0) => {
                return Err(Error::invalid(FROM_HANDLES, "get_instance_proc_addr is null; pass None to load it"));
            }
            Some(address) => {
                let pointer: *const () = std::ptr::with_exposed_provenance(address);
                // SAFETY: the caller of `from_handles` promises that this is the address of vkGetInstanceProcAddr; it is not
                // null.
                let get_instance_proc_addr =
                    unsafe { std::mem::transmute::<*const (), vk::PFN_vkGetInstanceProcAddr>(pointer) };
                let functions = ash::StaticFn { get_instance_proc_addr };
                // SAFETY: as above.
                unsafe { ash::Entry::from_static_fn(functions) }
            }
        };
        // SAFETY: the caller of `from_handles` promises live handles that belong together, of Vulkan 1.1 or later with the
        // required extensions, and that `owner` keeps them alive.
        unsafe {
            let instance = ash::Instance::load(entry.static_fn(), vk::Instance::from_raw(self.instance));
            let device = ash::Device::load(instance.fp_v1_0(), vk::Device::from_raw(self.device));
            let physical_device = vk::PhysicalDevice::from_raw(self.physical_device);
            let owner = Arc::new((entry, owner));
            VulkanInterop::with_owner(&instance, physical_device, &device, owner)
        }
    }
}

fn queue_families(interop: &VulkanInterop) -> Vec<vk::QueueFamilyProperties> {
    // SAFETY: the instance is live, and the physical device one of it, by the contract of `from_handles`.
    unsafe { interop.instance().get_physical_device_queue_family_properties(interop.physical_device()) }
}

#[pymethods]
impl PyVulkanDevice {
    /// Takes over a device by the integers of its handles. ``owner``, any object, is kept until the last object made from
    /// the device is gone; it must not refer to any of these, because the garbage collector does not see the reference.
    ///
    /// The handles must be live and belong together, the instance of Vulkan 1.1 or later, and the device created with
    /// :meth:`required_extensions`: Vulkan cannot check integers, and a wrong one crashes the process.
    #[staticmethod]
    #[pyo3(signature = (*, instance, physical_device, device, queue_family, get_instance_proc_addr=None, owner=None))]
    fn from_handles(
        py: Python<'_>,
        instance: u64,
        physical_device: u64,
        device: u64,
        queue_family: u32,
        get_instance_proc_addr: Option<usize>,
        owner: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let owner = owner.unwrap_or_else(|| py.None());
        let handles = Handles { instance, physical_device, device, get_instance_proc_addr };
        let interop = py.detach(|| handles.interop(owner)).raised()?;
        let families = queue_families(&interop).len();
        if usize::try_from(queue_family).is_ok_and(|family| family >= families) {
            let error = Error::invalid(FROM_HANDLES, "the device has no such queue family")
                .with_context("queue_family", queue_family)
                .with_context("families", families);
            return Err(exception(&error));
        }
        Ok(Self { vulkan: Vulkan::new(interop), queue_family })
    }

    /// Extensions that the application must enable on the device.
    #[staticmethod]
    fn required_extensions() -> Vec<String> {
        let names = VulkanInterop::required_device_extensions();
        names.iter().map(|name| name.to_string_lossy().into_owned()).collect()
    }

    /// Extensions for semaphores and dma-bufs. Enable those that the device lists.
    #[staticmethod]
    fn optional_extensions() -> Vec<String> {
        let names = VulkanInterop::optional_device_extensions();
        names.iter().map(|name| name.to_string_lossy().into_owned()).collect()
    }

    /// Identity of the device, for :func:`gpu_interop.open`.
    #[getter]
    fn identity(&self) -> PyIdentity {
        self.vulkan.interop.identity().into()
    }

    /// The queue family that owns the buffers.
    #[getter]
    fn queue_family(&self) -> u32 {
        self.queue_family
    }

    /// Creates a buffer; see :meth:`Context.buffer`.
    #[pyo3(signature = (size, *, exportable=true, host_visible=false, dedicated=false, kind=None))]
    fn buffer(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = natural::<u64>)] size: u64,
        exportable: bool,
        host_visible: bool,
        dedicated: bool,
        kind: Option<&str>,
    ) -> PyResult<PyBuffer> {
        PyBuffer::create(py, &self.vulkan, size, exportable, host_visible, dedicated, kind)
    }

    /// Exports memory that the application allocated, for export, with this size and dedicated flag.
    #[pyo3(signature = (memory, size, *, dedicated=false, kind=None))]
    fn export_memory(
        &self,
        py: Python<'_>,
        memory: u64,
        #[pyo3(from_py_with = natural::<u64>)] size: u64,
        dedicated: bool,
        kind: Option<&str>,
    ) -> PyResult<PyExport> {
        let mut memory = RawMemory::new(vk::DeviceMemory::from_raw(memory), size).dedicated(dedicated);
        if let Some(kind) = kind {
            memory = memory.handle(export::kind("Device.export_memory", kind)?);
        }
        // SAFETY: the method's documentation passes the obligations on to its caller: live memory of this device, allocated
        // with this size and flag for export as this kind.
        let exported = py.detach(|| unsafe { self.vulkan.interop.export_memory(&memory) });
        exported.map(PyExport::new).raised()
    }

    /// Creates a timeline for this device and the streams of ``device``.
    #[pyo3(signature = (device, initial=0))]
    fn timeline(&self, py: Python<'_>, device: &Bound<'_, PyDevice>, initial: u64) -> PyResult<PyTimeline> {
        self.vulkan.timeline(py, device.get(), initial)
    }

    /// Shares a timeline semaphore of the application, a live one of this device, with the streams of ``device``.
    /// ``exportable`` declares that it was created for export as an opaque handle; otherwise a host thread transfers the
    /// values. ``owner``, any object, is kept as long as the semaphore is used.
    #[pyo3(signature = (device, semaphore, *, exportable=false, owner=None))]
    fn timeline_from_handle(
        &self,
        py: Python<'_>,
        device: &Bound<'_, PyDevice>,
        semaphore: u64,
        exportable: bool,
        owner: Option<Py<PyAny>>,
    ) -> PyResult<PyTimeline> {
        let owner = owner.unwrap_or_else(|| py.None());
        self.vulkan.adopt_timeline(py, device.get(), semaphore, exportable, owner)
    }

    /// A context on a queue of the device: ``queue``, a ``VkQueue`` of the device's queue family, or its queue 0. The
    /// application must not use that queue while a method of the context runs.
    #[pyo3(signature = (queue=None))]
    fn context(&self, queue: Option<u64>) -> PyResult<PyContext> {
        let interop = &self.vulkan.interop;
        let queue = match queue {
            Some(0) => {
                let error = Error::invalid("Device.context", "the queue is null; pass a VkQueue, or None for queue 0");
                return Err(exception(&error));
            }
            Some(queue) => vk::Queue::from_raw(queue),
            // SAFETY: the device was created with a queue of this family, by the contract of `from_handles`.
            None => unsafe { interop.device().get_device_queue(self.queue_family, 0) },
        };
        let families = queue_families(interop);
        // Those of graphics and compute support transfers, too.
        let usable = vk::QueueFlags::TRANSFER | vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE;
        let family = usize::try_from(self.queue_family).ok().and_then(|family| families.get(family));
        if !family.is_some_and(|family| family.queue_flags.intersects(usable)) {
            let message = "queues of this family support no transfers; create the device with one of another family";
            let error = Error::invalid("Device.context", message).with_context("queue_family", self.queue_family);
            return Err(exception(&error));
        }
        // SAFETY: a queue of this family, by the contracts of `from_handles` and this method; the owner keeps the device.
        let context = unsafe { HeadlessContext::on_queue(interop, self.queue_family, queue) };
        Ok(PyContext::on_queue(context, self.vulkan.clone()))
    }

    fn __repr__(&self) -> String {
        format!("<gpu_interop.vulkan.Device {}, queue family {}>", self.vulkan.interop.identity(), self.queue_family)
    }
}
