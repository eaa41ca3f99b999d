//! A thread of the application that captures a stream by the driver's own functions, as PyTorch does. Unlike
//! [`Device::record`](gpu_interop::Device::record), it may use a capture mode that restricts the calls of other
//! threads.
//!
//! All unsafe code of this thread is in this file. It calls functions of the driver library that the backend under
//! test has loaded.

use std::ffi::c_int;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;

use gpu_interop::MappedBuffer;
use libloading::{Library, Symbol};

use crate::backend_under_test::DriverApi;
use crate::context::Context;
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT};

/// The capture modes, with the numbers of both vendors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Global = 0,
    ThreadLocal = 1,
    Relaxed = 2,
}

impl Mode {
    pub(crate) const ALL: [Self; 3] = [Self::Global, Self::ThreadLocal, Self::Relaxed];
}

type Function<A> = unsafe extern "system" fn(A) -> u32;
type Function2<A, B> = unsafe extern "system" fn(A, B) -> u32;
type Function3<A, B, C> = unsafe extern "system" fn(A, B, C) -> u32;

/// The names of the functions, CUDA's and HIP's.
#[derive(Debug, Clone, Copy)]
struct Names(usize);

impl Names {
    fn pick(self, names: [&'static str; 2]) -> &'static str {
        names[self.0]
    }
}

/// The driver's functions.
struct Api {
    library: Library,
    names: Names,
}

impl Api {
    fn symbol<F>(&self, names: [&'static str; 2]) -> Verdict<Symbol<'_, F>> {
        let name = self.names.pick(names);
        // SAFETY: each caller names a function with its type in the vendors' headers.
        unsafe { self.library.get(name.as_bytes()) }.map_err(|error| Stop::failed(format!("{name}: {error}")))
    }

    /// Makes the device current on this thread, for the thread's life.
    fn enter(&self, ordinal: usize) -> Verdict {
        let ordinal = c_int::try_from(ordinal)?;
        if self.names.0 == 1 {
            let set: Symbol<'_, Function<c_int>> = self.symbol(["", "hipSetDevice"])?;
            // SAFETY: the argument is a number.
            return check("hipSetDevice", unsafe { set(ordinal) });
        }
        let get: Symbol<'_, Function2<*mut c_int, c_int>> = self.symbol(["cuDeviceGet", ""])?;
        let retain: Symbol<'_, Function2<*mut usize, c_int>> = self.symbol(["cuDevicePrimaryCtxRetain", ""])?;
        let set: Symbol<'_, Function<usize>> = self.symbol(["cuCtxSetCurrent", ""])?;
        let release: Symbol<'_, Function<c_int>> = self.symbol(["cuDevicePrimaryCtxRelease_v2", ""])?;
        let (mut device, mut context) = (0, 0);
        // SAFETY: the pointers are valid for the calls. The context under test outlives the thread, so the reference
        // taken here may be released at once.
        unsafe {
            check("cuDeviceGet", get(&raw mut device, ordinal))?;
            check("cuDevicePrimaryCtxRetain", retain(&raw mut context, device))?;
            check("cuCtxSetCurrent", set(context))?;
            check("cuDevicePrimaryCtxRelease", release(device))
        }
    }

    /// The calling thread's capture mode.
    fn mode(&self) -> Verdict<u32> {
        let names = ["cuThreadExchangeStreamCaptureMode", "hipThreadExchangeStreamCaptureMode"];
        let exchange: Symbol<'_, Function<*mut u32>> = self.symbol(names)?;
        let mut mode = 0;
        // SAFETY: the pointer is valid for the calls, the second of which undoes the first.
        unsafe {
            check(self.names.pick(names), exchange(&raw mut mode))?;
            let found = mode;
            check(self.names.pick(names), exchange(&raw mut mode))?;
            Ok(found)
        }
    }
}

fn check(operation: &str, code: u32) -> Verdict {
    match code {
        0 => Ok(()),
        code => Err(Stop::failed(format!("the application's own {operation} failed with {code}"))),
    }
}

fn api(context: &Context) -> Verdict<Api> {
    let backend = context.device().backend();
    let names = match context.driver_api()? {
        DriverApi::Cuda => Names(0),
        DriverApi::Hip => Names(1),
    };
    let file = backend.library.as_deref().ok_or_else(|| Stop::failed("the backend names no library".into()))?;
    // SAFETY: loaded already, so no initialiser runs.
    let library = unsafe { Library::new(file) }?;
    Ok(Api { library, names })
}

/// Checks that the library has restored the calling thread's initial capture mode.
///
/// # Errors
/// If the mode differs.
pub(crate) fn check_own_mode(context: &Context) -> Verdict {
    match api(context)?.mode()? {
        0 => Ok(()),
        mode => Err(Stop::failed(format!("the library left this thread in capture mode {mode}"))),
    }
}

/// The capturing thread, until [`Capture::finish`].
#[derive(Debug)]
pub(crate) struct Capture {
    end: Sender<()>,
    thread: JoinHandle<Verdict>,
}

impl Capture {
    /// Starts the thread, and returns once it has captured a fill of `target`, which must live until
    /// [`Capture::finish`].
    ///
    /// # Errors
    /// The driver's error; [`Stop::unsupported`] for a backend without a known driver.
    pub(crate) fn start(context: &Context, mode: Mode, target: &MappedBuffer, value: u8) -> Verdict<Self> {
        let (api, ordinal) = (api(context)?, context.ordinal());
        let size = usize::try_from(target.size())?;
        let fill = Fill { address: target.as_raw().get(), value, size };
        let (begun, started) = channel();
        let (end, ended) = channel();
        let run = move || record(&api, ordinal, mode, fill, &begun, &ended);
        let thread = std::thread::Builder::new().name("capture".into()).spawn(run)?;
        match started.recv_timeout(WAIT_TIMEOUT) {
            Ok(()) => Ok(Self { end, thread }),
            // The thread has ended, or is about to.
            Err(RecvTimeoutError::Disconnected) => {
                Err(join(thread).err().unwrap_or_else(|| Stop::failed("nothing began".into())))
            }
            Err(RecvTimeoutError::Timeout) => Err(Stop::failed("the capture did not begin in time".into())),
        }
    }

    /// Ends the capture, and launches the graph.
    ///
    /// # Errors
    /// If the capture was invalidated: the driver's error.
    pub(crate) fn finish(self) -> Verdict {
        // The thread may have failed before.
        let _ = self.end.send(());
        join(self.thread)
    }
}

fn join(thread: JoinHandle<Verdict>) -> Verdict {
    thread.join().unwrap_or_else(|_| Err(Stop::failed("the capturing thread panicked".into())))
}

#[derive(Debug, Clone, Copy)]
struct Fill {
    address: u64,
    value: u8,
    size: usize,
}

fn record(api: &Api, ordinal: usize, mode: Mode, fill: Fill, begun: &Sender<()>, end: &Receiver<()>) -> Verdict {
    let create: Symbol<'_, Function2<*mut usize, u32>> = api.symbol(["cuStreamCreate", "hipStreamCreateWithFlags"])?;
    let destroy: Symbol<'_, Function<usize>> = api.symbol(["cuStreamDestroy_v2", "hipStreamDestroy"])?;
    let begin: Symbol<'_, Function2<usize, u32>> = api.symbol(["cuStreamBeginCapture_v2", "hipStreamBeginCapture"])?;
    let finish: Symbol<'_, Function2<usize, *mut usize>> = api.symbol(["cuStreamEndCapture", "hipStreamEndCapture"])?;
    let memset: Symbol<'_, unsafe extern "system" fn(u64, u8, usize, usize) -> u32> =
        api.symbol(["cuMemsetD8Async", "hipMemsetD8Async"])?;
    let instantiate: Symbol<'_, Function3<*mut usize, usize, u64>> =
        api.symbol(["cuGraphInstantiateWithFlags", "hipGraphInstantiateWithFlags"])?;
    let launch: Symbol<'_, Function2<usize, usize>> = api.symbol(["cuGraphLaunch", "hipGraphLaunch"])?;
    let synchronize: Symbol<'_, Function<usize>> = api.symbol(["cuStreamSynchronize", "hipStreamSynchronize"])?;
    let end_ready: Symbol<'_, Function<usize>> = api.symbol(["cuGraphExecDestroy", "hipGraphExecDestroy"])?;
    let end_graph: Symbol<'_, Function<usize>> = api.symbol(["cuGraphDestroy", "hipGraphDestroy"])?;
    api.enter(ordinal)?;
    let (mut stream, mut graph, mut ready) = (0, 0, 0);
    // SAFETY: the pointers are valid for the calls, the objects live, and the range is live until the thread is joined.
    unsafe {
        check("stream creation", create(&raw mut stream, 1))?;
        check("begin of a capture", begin(stream, mode as u32))?;
        check("fill", memset(fill.address, fill.value, fill.size, stream))?;
        let _ = begun.send(());
        if end.recv().is_err() {
            // `Capture` was dropped, so the range may be unmapped: the graph is not launched.
            check("end of a capture", finish(stream, &raw mut graph))?;
            check("end of a graph", end_graph(graph))?;
            return check("end of a stream", destroy(stream));
        }
        check("second fill", memset(fill.address, fill.value, fill.size, stream))?;
        check("end of a capture", finish(stream, &raw mut graph))?;
        check("instantiation", instantiate(&raw mut ready, graph, 0))?;
        check("launch", launch(ready, stream))?;
        check("synchronisation", synchronize(stream))?;
        check("end of a graph", end_ready(ready))?;
        check("end of a graph", end_graph(graph))?;
        check("end of a stream", destroy(stream))
    }
}
