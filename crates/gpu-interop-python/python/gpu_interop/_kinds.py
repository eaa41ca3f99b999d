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

#: A format of ``Context.image``.
ImageFormat = Union[
    Literal["r8_unorm"],
    Literal["rg8_unorm"],
    Literal["rgba8_unorm"],
    Literal["rgba8_srgb"],
    Literal["rgba8_uint"],
    Literal["bgra8_unorm"],
    Literal["r16_float"],
    Literal["rg16_float"],
    Literal["rgba16_float"],
    Literal["r32_float"],
    Literal["rg32_float"],
    Literal["rgba32_float"],
    Literal["r32_uint"],
    Literal["r16_uint"],
    Literal["r8_uint"],
]

__all__ = ["HandleKind", "ImageFormat"]
