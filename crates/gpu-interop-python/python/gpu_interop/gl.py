"""OpenGL: buffers and images of Vulkan in a context of the application, without copies.

::

    from gpu_interop import gl, vulkan

    glfw.make_context_current(window)
    ours = gl.Context(glfw.get_proc_address, is_current=lambda: glfw.get_current_context() is window)
    texture = ours.import_texture(image)      # a vulkan.Image
    glBindTexture(GL_TEXTURE_2D, texture.name)

OpenGL has no timelines here: call ``glFinish`` before the other side goes on, and wait on the host for the other side.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from ._native import GlBuffer as Buffer
from ._native import GlContext as Context
from ._native import GlTexture as Texture


def _address(get_proc_address: Callable[[str], Any], name: str) -> int:
    """The address that a loader returned: an integer, a pointer of ctypes, or `None`."""
    found = get_proc_address(name)
    if isinstance(found, int):
        return int(found) & ((1 << 8 * ctypes.sizeof(ctypes.c_void_p)) - 1)
    return 0 if found is None else int(ctypes.cast(found, ctypes.c_void_p).value or 0)


__all__ = ["Buffer", "Context", "Texture"]
