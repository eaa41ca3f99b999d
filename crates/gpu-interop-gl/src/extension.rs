//! OpenGL extensions for sharing.

use std::fmt;

/// An extension that this crate uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Extension {
    /// Buffers and textures in imported memory.
    MemoryObject,
    /// Memory imported from file descriptors.
    MemoryObjectFd,
    /// Memory imported from Windows handles and names.
    MemoryObjectWin32,
    /// Imported semaphores.
    Semaphore,
    /// Semaphores imported from file descriptors.
    SemaphoreFd,
    /// Semaphores imported from Windows handles and names.
    SemaphoreWin32,
    /// Timeline semaphores (NVIDIA).
    TimelineSemaphore,
}

impl Extension {
    /// Every extension.
    pub const ALL: &'static [Self] = &[
        Self::MemoryObject,
        Self::MemoryObjectFd,
        Self::MemoryObjectWin32,
        Self::Semaphore,
        Self::SemaphoreFd,
        Self::SemaphoreWin32,
        Self::TimelineSemaphore,
    ];

    /// The name in a context's list of extensions.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MemoryObject => "GL_EXT_memory_object",
            Self::MemoryObjectFd => "GL_EXT_memory_object_fd",
            Self::MemoryObjectWin32 => "GL_EXT_memory_object_win32",
            Self::Semaphore => "GL_EXT_semaphore",
            Self::SemaphoreFd => "GL_EXT_semaphore_fd",
            Self::SemaphoreWin32 => "GL_EXT_semaphore_win32",
            Self::TimelineSemaphore => "GL_NV_timeline_semaphore",
        }
    }
}

impl fmt::Display for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
