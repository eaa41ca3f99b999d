"""Vulkan: a context for scripts, and the application's own device by the integers of its handles."""

from ._kinds import ImageFormat
from ._native import Buffer, Context, Image, Picture, Recording, Submission
from ._native import VulkanDevice as Device
from ._native import vulkan_devices as devices

__all__ = ["Buffer", "Context", "Device", "Image", "ImageFormat", "Picture", "Recording", "Submission", "devices"]
