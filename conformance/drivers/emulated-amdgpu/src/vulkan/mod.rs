//! The Vulkan layer.
