"""Exceptions, one class per kind of failure."""

from __future__ import annotations


class Error(Exception):
    """A failed operation. The message names the function, the values involved and the next step."""

    #: The function that failed: the driver's function where a driver call was involved.
    operation: str = ""
    #: The driver's status code, if a driver returned one.
    code: int | None = None
    #: The driver's name of the code, if known.
    code_name: str | None = None
    #: The backend involved, if any.
    backend: str | None = None
    #: The device involved, if any.
    device: str | None = None


class DriverNotFound(Error):
    """No driver library could be loaded. The message lists every path tried."""


class DriverTooOld(Error):
    """The driver is older than the operation requires."""


class SymbolMissing(Error):
    """The driver library lacks a function that the operation requires."""


class NoDevice(Error):
    """The driver has no usable device."""


class DeviceMismatch(Error):
    """The handle was exported by another device than the importing one."""


class Unsupported(Error):
    """The operating system, backend or device lacks this feature. Retrying does not help."""


class InvalidArgument(Error, ValueError):
    """The request violates a documented rule. Detected before the driver is called."""


class ImportRejected(Error):
    """The request is valid, but the driver rejected the handle."""


class ReconciliationFailed(Error):
    """The requirements of several users of one object conflict."""


class OutOfMemory(Error, MemoryError):
    """Host or device memory ran out."""


class Timeout(Error, TimeoutError):
    """A bounded wait timed out. The wait may be repeated."""


class Cancelled(Error):
    """The work was abandoned because its device was closed or its timeline was abandoned."""


class Overtaken(Error):
    """A timeline had passed the value before the stream signalled it. Use one timeline for each direction."""


class HostFunctionPanicked(Error):
    """A host function enqueued on a stream panicked."""


class System(Error):
    """A call of the operating system failed."""


class DeviceLost(Error):
    """No work runs on the device any more. Most drivers require a new process."""


class Driver(Error):
    """A driver failure without a more specific kind; see :attr:`Error.code`."""


class BackendFailedWarning(RuntimeWarning):
    """A backend was passed over because its driver failed, not because it is absent or has no device."""


BackendFailedWarning.__module__ = "gpu_interop"

# Shown and pickled under the public name.
for _class in [Error, *Error.__subclasses__()]:
    _class.__module__ = "gpu_interop"
