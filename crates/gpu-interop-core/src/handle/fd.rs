//! Classification of file descriptors by what the kernel reports.

/// Descriptor type of fd-based handles: [`std::os::fd::OwnedFd`].
#[cfg(unix)]
pub type FdHandle = std::os::fd::OwnedFd;

/// Uninhabited: there are no fd-based handles on systems without file descriptors.
#[cfg(not(unix))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FdHandle {}

#[cfg(unix)]
pub(crate) use kind::open_file;
#[cfg(unix)]
pub use kind::{FdKind, classify_fd};

/// Error of a descriptor that cannot be duplicated (`fcntl(F_DUPFD_CLOEXEC)`), with the system's reason, and the remedy if
/// the process is out of descriptors. For backends and exporters.
#[cfg(unix)]
#[must_use]
pub fn cannot_duplicate(operation: &'static str, source: std::io::Error) -> crate::Error {
    use rustix::io::Errno;

    let reason = match Errno::from_io_error(&source) {
        Some(Errno::MFILE) => {
            "the process has no free descriptor; raise its limit (`ulimit -n`), or share one allocation among many buffers \
             (gpu_interop::vulkan::SharedHeap)"
        }
        Some(Errno::NFILE) => "the system has no free descriptor; raise fs.file-max, or close files of other processes",
        Some(Errno::BADF) => "it is not open; it may have been closed elsewhere",
        _ => "see the system's error",
    };
    let message = format!("cannot duplicate the file descriptor: {source}: {reason}");
    crate::Error::new(crate::ErrorKind::System, operation, message).with_source(source)
}

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

    /// A file behind a descriptor.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct OpenFile {
        pub(crate) kind: FdKind,
        /// Length in bytes, if the file has one: that of [`FdKind::Memory`] and of named files.
        pub(crate) length: Option<u64>,
    }

    /// Classifies `fd` with `fstat`, and files and anonymous inodes also with `fstatfs`. Never blocks and never reads
    /// from it.
    #[must_use]
    pub fn classify_fd(fd: BorrowedFd<'_>) -> FdKind {
        open_file(fd).kind
    }

    /// As [`classify_fd`], with the length from the same `fstat`. Called for each import: a character device, as which
    /// NVIDIA's driver exports its objects, costs one system call.
    pub(crate) fn open_file(fd: BorrowedFd<'_>) -> OpenFile {
        let of = |kind| OpenFile { kind, length: None };
        let stat = match rustix::fs::fstat(fd) {
            Ok(stat) => stat,
            Err(Errno::BADF) => return of(FdKind::Closed),
            Err(_) => return of(FdKind::Other),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Fifo => of(FdKind::Pipe),
            FileType::Directory => of(FdKind::Directory),
            FileType::Socket => of(FdKind::Socket),
            FileType::BlockDevice => of(FdKind::BlockDevice),
            FileType::CharacterDevice if rustix::fs::major(stat.st_rdev) == MEM_MAJOR => of(FdKind::MemDevice),
            FileType::CharacterDevice => of(FdKind::CharDevice),
            // dma-bufs and anonymous inodes have no type in most kernels, and that of a regular file in some.
            other => {
                let is_regular = other == FileType::RegularFile;
                let kind = by_file_system(fd, is_regular, stat.st_nlink == 0);
                OpenFile { kind, length: if is_regular { u64::try_from(stat.st_size).ok() } else { None } }
            }
        }
    }

    /// Classifies a file that the kernel reports as regular or as of no known type.
    fn by_file_system(fd: BorrowedFd<'_>, is_regular: bool, is_unnamed: bool) -> FdKind {
        // The types of magic numbers differ between targets; i64 holds them all.
        #[allow(clippy::unnecessary_cast)]
        let magic = rustix::fs::fstatfs(fd).map_or(0, |fs| fs.f_type as i64);
        match magic {
            DMA_BUF_MAGIC => FdKind::DmaBuf,
            ANON_INODE_FS_MAGIC => anonymous_inode(fd),
            TMPFS_MAGIC | HUGETLBFS_MAGIC if is_regular && is_unnamed => FdKind::Memory,
            _ if is_regular => FdKind::RegularFile,
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
        fn a_failed_duplicate_has_the_systems_reason_and_the_remedy() {
            let error = |errno: Errno| super::super::cannot_duplicate("dup", errno.into()).to_string();
            for (errno, words) in [
                (Errno::MFILE, ["Too many open files", "ulimit -n", "SharedHeap"]),
                (Errno::NFILE, ["Too many open files in system", "fs.file-max", "dup"]),
                (Errno::BADF, ["Bad file descriptor", "closed elsewhere", "cannot duplicate"]),
            ] {
                let text = error(errno);
                assert!(words.iter().all(|word| text.contains(word)), "{text}");
            }
            assert!(!error(Errno::BADF).contains("ulimit"));
        }

        #[test]
        fn each_kind_is_recognised() {
            let memfd = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).expect("memfd");
            assert_eq!(classify_fd(memfd.as_fd()), FdKind::Memory);
            rustix::fs::ftruncate(&memfd, 12_345).expect("ftruncate");
            let expected = OpenFile { kind: FdKind::Memory, length: Some(12_345) };
            assert_eq!(open_file(memfd.as_fd()), expected);
            let (read, write) = rustix::pipe::pipe().expect("pipe");
            assert_eq!(classify_fd(read.as_fd()), FdKind::Pipe);
            assert_eq!(classify_fd(write.as_fd()), FdKind::Pipe);
            let eventfd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("eventfd");
            assert_eq!(classify_fd(eventfd.as_fd()), FdKind::EventFd);
            let open = |path: &str| OwnedFd::from(std::fs::File::open(path).expect(path));
            assert_eq!(classify_fd(open("/").as_fd()), FdKind::Directory);
            let unsized_device = OpenFile { kind: FdKind::MemDevice, length: None };
            assert_eq!(open_file(open("/dev/null").as_fd()), unsized_device);
            // A character device that is none of memory, where there are terminals.
            if let Ok(terminals) = std::fs::File::open("/dev/ptmx") {
                assert_eq!(classify_fd(terminals.as_fd()), FdKind::CharDevice);
            }
            assert_eq!(classify_fd(open("/proc/self/exe").as_fd()), FdKind::RegularFile);
            let (socket, _peer) = std::os::unix::net::UnixStream::pair().expect("socketpair");
            assert_eq!(classify_fd(socket.as_fd()), FdKind::Socket);
        }

        /// Classifies `fd` in a child process that the kernel kills at any system call other than these and its exit.
        /// Returns whether it was killed; `None` on a system without filters of system calls.
        #[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
        fn is_killed(fd: BorrowedFd<'_>, expected: FdKind, allowed: &[libc::c_long]) -> Option<bool> {
            const NO_FILTERS: libc::c_int = 77;
            let code = |code: u32| u16::try_from(code).expect("a code of 16 bits");
            let end = |action| libc::sock_filter { code: code(libc::BPF_RET | libc::BPF_K), jt: 0, jf: 0, k: action };
            // The first word of the filter's data is the call's number.
            let load = code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS);
            let mut program = vec![libc::sock_filter { code: load, jt: 0, jf: 0, k: 0 }];
            for call in allowed.iter().chain(&[libc::SYS_exit_group]) {
                let (code, k) =
                    (code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K), u32::try_from(*call).expect("a number"));
                program.extend([libc::sock_filter { code, jt: 0, jf: 1, k }, end(libc::SECCOMP_RET_ALLOW)]);
            }
            program.push(end(libc::SECCOMP_RET_KILL_PROCESS));
            let len = u16::try_from(program.len()).expect("a short program");
            let filter = libc::sock_fprog { len, filter: program.as_mut_ptr() };
            // SAFETY: the child calls only functions that are safe after a fork, and ends without destructors.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: the filter points to `len` initialised instructions, in the child's copy of `program`.
                let filters = unsafe {
                    libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                        && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
                };
                let status = if !filters { NO_FILTERS } else { libc::c_int::from(classify_fd(fd) != expected) };
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(status) };
            }
            let mut status = 0;
            // SAFETY: the status is a valid integer, and the child is this process's.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            if libc::WIFSIGNALED(status) {
                assert_eq!(libc::WTERMSIG(status), libc::SIGSYS);
                return Some(true);
            }
            let code = libc::WEXITSTATUS(status);
            assert!(code == 0 || code == NO_FILTERS, "{expected}: exit status {code}");
            (code == 0).then_some(false)
        }

        #[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
        #[test]
        fn only_files_and_anonymous_inodes_cost_a_second_system_call() {
            let open = |path: &str| OwnedFd::from(std::fs::File::open(path).expect(path));
            let (pipe, _write) = rustix::pipe::pipe().expect("pipe");
            let memfd = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).expect("memfd");
            for (fd, kind, second) in [
                (open("/dev/null"), FdKind::MemDevice, false),
                (open("/"), FdKind::Directory, false),
                (pipe, FdKind::Pipe, false),
                (memfd, FdKind::Memory, true),
                (open("/proc/self/exe"), FdKind::RegularFile, true),
            ] {
                let killed = |allowed: &[_]| is_killed(fd.as_fd(), kind, allowed);
                let Some(killed_at_second) = killed(&[libc::SYS_fstat]) else { return };
                assert_eq!(killed_at_second, second, "{kind}: fstat alone");
                assert_eq!(killed(&[libc::SYS_fstat, libc::SYS_fstatfs]), Some(false), "{kind}: fstat and fstatfs");
                assert_eq!(killed(&[]), Some(true), "{kind}: the filter has no effect");
            }
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
