"""The machine under test, and limits."""

from __future__ import annotations

import os
from typing import Any

import gpu_interop
from gpu_interop import vulkan

Result = dict[str, Any]


class Failed(Exception):
    """A limit that does not hold; the first argument has the measured values."""


class Machine:
    def __init__(self) -> None:
        self.context = vulkan.Context()
        self.device = gpu_interop.open(matching=self.context)
        self.ordinal = self.device.ordinal or 0

    def shared(self, size: int, queue: vulkan.Context | None = None) -> tuple[vulkan.Buffer, gpu_interop.Memory]:
        """A buffer of Vulkan, released, and its import."""
        context = queue or self.context
        buffer = context.buffer(size)
        context.release(buffer)
        return buffer, self.device.import_memory(buffer.export())


def require(holds: bool, result: Result) -> Result:
    if not holds:
        raise Failed(result)
    return result


def resident() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
