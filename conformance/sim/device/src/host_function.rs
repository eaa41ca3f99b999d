//! Host functions of streams: one thread calls all of them in sequence. Drivers may do the same, so a function that
//! blocks delays those of all other streams.

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

/// A host function.
pub type HostFunction = unsafe extern "C" fn(*mut c_void);

/// A call, and the channel that reports its end.
struct Call {
    function: HostFunction,
    /// An address, because the data belongs to the function.
    data: usize,
    done: Sender<()>,
}

fn caller() -> Option<&'static Sender<Call>> {
    static CALLER: OnceLock<Option<Sender<Call>>> = OnceLock::new();
    let start = || {
        let (calls, incoming) = channel::<Call>();
        let call = move || {
            for Call { function, data, done } in incoming {
                // SAFETY: the caller of `call` guarantees it.
                unsafe { function(std::ptr::with_exposed_provenance_mut(data)) };
                let _ = done.send(());
            }
        };
        std::thread::Builder::new().name("sim host functions".into()).spawn(call).ok().map(|_| calls)
    };
    CALLER.get_or_init(start).as_ref()
}

/// Calls a function after the earlier calls of all streams, and waits for its end.
///
/// # Safety
/// The function accepts the data, whose provenance is exposed, and does not unwind.
pub(crate) unsafe fn call(function: HostFunction, data: usize) {
    let (done, end) = channel();
    if caller().is_some_and(|caller| caller.send(Call { function, data, done }).is_ok()) {
        let _ = end.recv();
    }
}
