"""Types of arguments."""

from typing import Literal, Union

#: A kind of memory handle: the argument ``kind`` of ``Device.import_memory`` and of Vulkan's functions.
HandleKind = Union[
    Literal["opaque_fd"],
    Literal["dma_buf_fd"],
    Literal["opaque_win32"],
    Literal["opaque_win32_kmt"],
    Literal["d3d12_heap"],
    Literal["d3d12_resource"],
    Literal["d3d11_resource"],
    Literal["d3d11_resource_kmt"],
]

__all__ = ["HandleKind"]
