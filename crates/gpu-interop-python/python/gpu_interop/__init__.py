"""Memory and timelines that Vulkan and others share with torch, CuPy, JAX and numpy, without copies.

A short script::

    import gpu_interop, numpy
    from gpu_interop import vulkan

    context = vulkan.Context()
    buffer = context.buffer(4096)
    context.fill(buffer, 7)
    context.release(buffer)                      # the other side may use it now
    device = gpu_interop.open(matching=context)  # the same hardware: CUDA, HIP or the CPU
    memory = device.import_memory(buffer.export())
    tensor = memory.tensor((1024,), "int32")
    numpy.from_dlpack(tensor)                    # torch.from_dlpack(tensor) on a GPU

The module needs no driver to be imported.
"""

from . import vulkan
from ._errors import (
    BackendFailedWarning,
    Cancelled,
    DeviceLost,
    DeviceMismatch,
    Driver,
    DriverNotFound,
    DriverTooOld,
    Error,
    HostFunctionPanicked,
    ImportRejected,
    InvalidArgument,
    NoDevice,
    OutOfMemory,
    Overtaken,
    ReconciliationFailed,
    SymbolMissing,
    System,
    Timeout,
    Unsupported,
)
from ._kinds import HandleKind
from ._native import (
    Array,
    ArrayRegion,
    Device,
    DeviceInfo,
    Export,
    Identity,
    Memory,
    Stream,
    Timeline,
    __version__,
    backends,
    devices,
    open,
)
from ._tensor import Tensor

__all__ = [
    "Array",
    "ArrayRegion",
    "BackendFailedWarning",
    "Cancelled",
    "Device",
    "DeviceInfo",
    "DeviceLost",
    "DeviceMismatch",
    "Driver",
    "DriverNotFound",
    "DriverTooOld",
    "Error",
    "Export",
    "HandleKind",
    "HostFunctionPanicked",
    "Identity",
    "ImportRejected",
    "InvalidArgument",
    "Memory",
    "NoDevice",
    "OutOfMemory",
    "Overtaken",
    "ReconciliationFailed",
    "Stream",
    "SymbolMissing",
    "System",
    "Tensor",
    "Timeline",
    "Timeout",
    "Unsupported",
    "__version__",
    "backends",
    "devices",
    "open",
    "vulkan",
]
