//! The extensions of OpenGL that sharing rests on.

use std::fmt;

/// An extension that this crate uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Extension {
    /// Buffers and textures in memory of others.
    MemoryObject,
    /// Memory behind file descriptors.
    MemoryObjectFd,
    /// Memory behind handles and names of Windows.
    MemoryObjectWin32,
    /// Semaphores of others.
    Semaphore,
    /// Semaphores behind file descriptors.
    SemaphoreFd,
    /// Semaphores behind handles and names of Windows.
    SemaphoreWin32,
    /// Timeline semaphores: NVIDIA's.
    TimelineSemaphore,
}

impl Extension {
    /// Every one of them.
    pub const ALL: &'static [Self] = &[
        Self::MemoryObject,
        Self::MemoryObjectFd,
        Self::MemoryObjectWin32,
        Self::Semaphore,
        Self::SemaphoreFd,
        Self::SemaphoreWin32,
        Self::TimelineSemaphore,
    ];

    /// The name by which contexts list it.
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
