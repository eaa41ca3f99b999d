//! Threads of the emulation.

use std::thread::JoinHandle;

use rustix::io::Errno;

use crate::abi::Result;

/// Starts a thread with all signals blocked, so that the application's handlers do not run on it.
pub(super) fn spawn(name: String, function: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the calls write both sets before they are read; the thread's mask is restored below.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let thread = std::thread::Builder::new().name(name).spawn(function);
    // SAFETY: `before` was written above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    thread.map_err(|_| Errno::NOMEM)
}
