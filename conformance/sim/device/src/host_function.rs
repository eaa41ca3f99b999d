//! Functions of the host that streams call: one thread calls them all, one after another. Drivers may do it so, and who
//! blocks in one keeps those of every other stream waiting.

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

/// A host function.
pub type HostFunction = unsafe extern "C" fn(*mut c_void);

/// A call, and who waits for its end.
struct Call {
    function: HostFunction,
    /// An address: the data is the function's own.
    data: usize,
    done: Sender<()>,
}

fn caller() -> Option<&'static Sender<Call>> {
    static CALLER: OnceLock<Option<Sender<Call>>> = OnceLock::new();
    let start = || {
        let (calls, incoming) = channel::<Call>();
        let call = move || {
            for Call { function, data, done } in incoming {
                // SAFETY: the promise of whoever called `call`.
                unsafe { function(std::ptr::with_exposed_provenance_mut(data)) };
                let _ = done.send(());
            }
        };
        std::thread::Builder::new().name("sim host functions".into()).spawn(call).ok().map(|_| calls)
    };
    CALLER.get_or_init(start).as_ref()
}

/// Has a function called, after those that other streams have called before, and waits for its end.
///
/// # Safety
/// The function fits its data, whose provenance is exposed, and does not unwind.
pub(crate) unsafe fn call(function: HostFunction, data: usize) {
    let (done, end) = channel();
    if caller().is_some_and(|caller| caller.send(Call { function, data, done }).is_ok()) {
        let _ = end.recv();
    }
}
