//! Classification of file descriptors by what the kernel reports.

/// Descriptor type of fd-based handles: [`std::os::fd::OwnedFd`].
#[cfg(unix)]
pub type FdHandle = std::os::fd::OwnedFd;

/// Uninhabited: there are no fd-based handles on systems without file descriptors.
#[cfg(not(unix))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FdHandle {}

#[cfg(unix)]
pub use kind::{FdKind, classify_fd};

#[cfg(unix)]
mod kind {
    use std::fmt;
    use std::os::fd::{AsRawFd, BorrowedFd};

    use rustix::fs::FileType;
    use rustix::io::Errno;

    /// Type of file behind a descriptor. Used to reject descriptors that no GPU API exports.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum FdKind {
        /// The number is not an open descriptor.
        Closed,
        /// A pipe or FIFO, on which lavapipe would block in `read`.
        Pipe,
        /// A directory.
        Directory,
        /// A socket.
        Socket,
        /// A block device.
        BlockDevice,
        /// A named file of a file system. GPU APIs export only unnamed memory.
        RegularFile,
        /// An unnamed file in memory: a memfd, or unlinked POSIX shared memory.
        Memory,
        /// A dma-buf.
        DmaBuf,
        /// A memory device of the kernel: `/dev/null`, `/dev/zero`, ...
        MemDevice,
        /// Another character device, such as NVIDIA's exported objects.
        CharDevice,
        /// An eventfd.
        EventFd,
        /// Another anonymous kernel object: a sync file, a DRM syncobj, an epoll, ...
        AnonymousInode,
        /// Anything else.
        Other,
    }

    impl fmt::Display for FdKind {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(match self {
                Self::Closed => "not an open file descriptor",
                Self::Pipe => "a pipe",
                Self::Directory => "a directory",
                Self::Socket => "a socket",
                Self::BlockDevice => "a block device",
                Self::RegularFile => "a regular file",
                Self::Memory => "anonymous memory",
                Self::DmaBuf => "a dma-buf",
                Self::MemDevice => "a memory device such as /dev/null",
                Self::CharDevice => "a character device",
                Self::EventFd => "an eventfd",
                Self::AnonymousInode => "an anonymous kernel object",
                Self::Other => "an unknown kind of file",
            })
        }
    }

    // linux/magic.h
    const DMA_BUF_MAGIC: i64 = 0x444d_4142;
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    const HUGETLBFS_MAGIC: i64 = 0x9584_58f6;
    const ANON_INODE_FS_MAGIC: i64 = 0x0904_1934;
    /// Major number of the kernel's memory devices (`/dev/null` is 1:3).
    const MEM_MAJOR: u32 = 1;

    /// Classifies `fd` with `fstat` and `fstatfs`. Never blocks and never reads from it.
    #[must_use]
    pub fn classify_fd(fd: BorrowedFd<'_>) -> FdKind {
        let stat = match rustix::fs::fstat(fd) {
            Ok(stat) => stat,
            Err(Errno::BADF) => return FdKind::Closed,
            Err(_) => return FdKind::Other,
        };
        // The mode and magic types differ between targets; i64 holds them all.
        #[allow(clippy::unnecessary_cast)]
        let magic = rustix::fs::fstatfs(fd).map_or(0, |fs| fs.f_type as i64);
        match magic {
            DMA_BUF_MAGIC => return FdKind::DmaBuf,
            ANON_INODE_FS_MAGIC => return anonymous_inode(fd),
            _ => {}
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Fifo => FdKind::Pipe,
            FileType::Directory => FdKind::Directory,
            FileType::Socket => FdKind::Socket,
            FileType::BlockDevice => FdKind::BlockDevice,
            FileType::CharacterDevice if rustix::fs::major(stat.st_rdev) == MEM_MAJOR => FdKind::MemDevice,
            FileType::CharacterDevice => FdKind::CharDevice,
            FileType::RegularFile if stat.st_nlink == 0 && matches!(magic, TMPFS_MAGIC | HUGETLBFS_MAGIC) => {
                FdKind::Memory
            }
            FileType::RegularFile => FdKind::RegularFile,
            _ => FdKind::Other,
        }
    }

    /// Only the link in `/proc` distinguishes an eventfd from a syncobj. Without `/proc` both are accepted.
    fn anonymous_inode(fd: BorrowedFd<'_>) -> FdKind {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
        match link {
            Ok(target) if target.to_string_lossy().contains("[eventfd]") => FdKind::EventFd,
            _ => FdKind::AnonymousInode,
        }
    }

    #[cfg(test)]
    mod tests {
        use std::os::fd::{AsFd, OwnedFd};

        use rustix::event::EventfdFlags;
        use rustix::fs::MemfdFlags;

        use super::*;

        #[test]
        fn each_kind_is_recognised() {
            let memfd = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).expect("memfd");
            assert_eq!(classify_fd(memfd.as_fd()), FdKind::Memory);
            let (read, write) = rustix::pipe::pipe().expect("pipe");
            assert_eq!(classify_fd(read.as_fd()), FdKind::Pipe);
            assert_eq!(classify_fd(write.as_fd()), FdKind::Pipe);
            let eventfd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("eventfd");
            assert_eq!(classify_fd(eventfd.as_fd()), FdKind::EventFd);
            let open = |path: &str| OwnedFd::from(std::fs::File::open(path).expect(path));
            assert_eq!(classify_fd(open("/").as_fd()), FdKind::Directory);
            assert_eq!(classify_fd(open("/dev/null").as_fd()), FdKind::MemDevice);
            assert_eq!(classify_fd(open("/proc/self/exe").as_fd()), FdKind::RegularFile);
            let (socket, _peer) = std::os::unix::net::UnixStream::pair().expect("socketpair");
            assert_eq!(classify_fd(socket.as_fd()), FdKind::Socket);
        }

        #[test]
        fn an_unlinked_file_on_disk_is_a_regular_file() {
            let directory = std::env::current_dir().expect("a current directory");
            let path = directory.join(format!("unlinked-{}", std::process::id()));
            let file = std::fs::File::create(&path).expect("create");
            std::fs::remove_file(&path).expect("unlink");
            assert_eq!(classify_fd(file.as_fd()), FdKind::RegularFile);
        }
    }
}
