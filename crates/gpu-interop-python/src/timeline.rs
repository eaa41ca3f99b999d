//! Timelines: counters that streams, the host and Vulkan share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpu_interop::host::HostSemaphore;
use gpu_interop::vulkan::OwnedSemaphore;
use gpu_interop::{Error, ErrorKind, Result, Timeline};
use pyo3::prelude::*;

use crate::convert::natural;
use crate::device::{PyDevice, Shared};
use crate::error::{Raise, exception};
use crate::watcher::{self, Notice, Watcher};
use crate::{error, stream};

/// A counter that only grows, shared by streams, the host and Vulkan.
///
/// Use one timeline for each direction if more than one frame is in flight.
#[pyclass(frozen, module = "gpu_interop", name = "Timeline")]
#[derive(Debug)]
pub(crate) struct PyTimeline {
    // Field order is drop order.
    timeline: Arc<Timeline>,
    /// The semaphore of Vulkan, if there is one.
    pub(crate) semaphore: Option<OwnedSemaphore>,
    watcher: Arc<Watcher>,
    shared: Arc<Shared>,
}

impl PyTimeline {
    /// A timeline of the host.
    pub(crate) fn host(shared: Arc<Shared>, initial: u64) -> Result<Self> {
        let timeline = Timeline::new(&shared.device, Arc::new(HostSemaphore::timeline(initial)?))?;
        Ok(Self { timeline: Arc::new(timeline), semaphore: None, watcher: Arc::default(), shared })
    }

    /// A timeline of Vulkan. `watcher` serves all timelines of one Vulkan device.
    pub(crate) fn vulkan(
        shared: Arc<Shared>,
        timeline: Timeline,
        semaphore: OwnedSemaphore,
        watcher: Arc<Watcher>,
    ) -> Self {
        Self { timeline: Arc::new(timeline), semaphore: Some(semaphore), watcher, shared }
    }
}

/// Waits for running notices of timelines, and prevents later ones. Called at the exit of the interpreter.
#[pyfunction]
pub(crate) fn _end_notices(py: Python<'_>) {
    py.detach(watcher::end_notices);
}

#[pymethods]
impl PyTimeline {
    /// The device whose streams use the timeline.
    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice::of(&self.shared)
    }

    /// ``"native"`` if the driver imported the timeline, ``"bridge"`` if a host thread transfers its values.
    #[getter]
    fn strategy(&self) -> String {
        self.timeline.strategy().to_string()
    }

    /// The current value.
    #[getter]
    fn value(&self, py: Python<'_>) -> PyResult<u64> {
        py.detach(|| self.timeline.value()).raised()
    }

    /// Makes later work on ``stream`` wait until the timeline has reached ``value``. The host does not wait.
    ///
    /// ``stream`` is a :class:`Stream`, a stream of torch or CuPy, the address of a driver's stream, which must live until
    /// its work has completed and :meth:`Device.collect` was called, or ``None`` for the device's default stream. A stream
    /// that says it is on another GPU raises :class:`DeviceMismatch`. The per-thread default stream (2,
    /// ``cupy.cuda.Stream.ptds``), which is another one on every thread, and a stream on which a graph is being captured
    /// raise :class:`InvalidArgument`. No graph is captured on the stream before its work has completed.
    fn wait(
        &self,
        py: Python<'_>,
        stream: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = natural::<u64>)] value: u64,
    ) -> PyResult<()> {
        let flow = stream::resolve("Timeline.wait", &self.shared, stream)?;
        py.detach(|| flow.stream.wait_timeline(&self.timeline, value)).raised()
    }

    /// Raises the timeline to ``value`` once all work enqueued on ``stream`` so far has completed. ``stream`` as for
    /// :meth:`wait`.
    fn signal(
        &self,
        py: Python<'_>,
        stream: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = natural::<u64>)] value: u64,
    ) -> PyResult<()> {
        let flow = stream::resolve("Timeline.signal", &self.shared, stream)?;
        py.detach(|| flow.stream.signal_timeline(&self.timeline, value)).raised()
    }

    /// Blocks until the timeline has reached ``value``, or raises :class:`Timeout` after ``timeout`` seconds. Releases the
    /// GIL and honours Ctrl-C.
    #[pyo3(signature = (value, timeout=None))]
    fn host_wait(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = natural::<u64>)] value: u64,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        const OPERATION: &str = "Timeline.host_wait";
        let timeout = checked_timeout(OPERATION, timeout)?;
        let expired = |_: &Error| {
            let error = Error::new(ErrorKind::Timeout, OPERATION, "the timeline has not reached the value");
            let current = self.timeline.value().map_or_else(|error| error.to_string(), |value| value.to_string());
            error.with_context("value", value).with_context("current value", current)
        };
        sliced(py, timeout, |slice| self.timeline.wait(value, slice), expired)
    }

    /// Raises the timeline to ``value`` from the host, now.
    fn host_signal(&self, py: Python<'_>, #[pyo3(from_py_with = natural::<u64>)] value: u64) -> PyResult<()> {
        py.detach(|| self.timeline.signal(value)).raised()
    }

    /// Releases pending waits and fails later uses with ``reason``: the timeline will not be signalled any more. Released
    /// streams continue without the data that they waited for, and their next :meth:`Stream.synchronize` raises
    /// :class:`Cancelled`. A native timeline reports it to streams of this module that waited for at most 3 other timelines
    /// since.
    fn abandon(&self, py: Python<'_>, reason: &str) -> PyResult<()> {
        py.detach(|| self.timeline.abandon(reason)).raised()
    }

    /// Fails the timeline once process ``pid``, which signals it, has ended: a killed process signals nothing. Waits of the
    /// host then raise :class:`Cancelled`, and pending waits of streams are released as by :meth:`abandon`.
    ///
    /// A bridge checks the process itself. With the strategy ``"native"`` only :meth:`host_wait` and :meth:`reached` check
    /// it. If only streams wait, call ``host_wait(value, timeout=0)`` after each timeout of
    /// :meth:`Stream.synchronize`, or :meth:`abandon`.
    fn watch_process(&self, py: Python<'_>, pid: u32) -> PyResult<()> {
        py.detach(|| self.timeline.watch_process(pid)).raised()
    }

    /// An awaitable that completes once the timeline has reached ``value``: ``await timeline.reached(value)``.
    fn reached<'py>(
        this: &Bound<'py, Self>,
        #[pyo3(from_py_with = natural::<u64>)] value: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("gpu_interop._reached")?.getattr("reached")?.call1((this, value))
    }

    /// Calls ``notice(error)`` on another thread once the value is reached or the timeline has failed. Returns a number
    /// for ``_forget``.
    fn _watch(&self, py: Python<'_>, value: u64, notice: Py<PyAny>) -> PyResult<u64> {
        let call: Notice = Box::new(move |error: Option<Error>| {
            watcher::unless_ended(|| {
                // During the exit of the interpreter there is nothing to notify.
                let _called = Python::try_attach(|py| {
                    let error = error.map(|error| exception(&error));
                    // Any exception, `SystemExit` included, is reported and ends nothing.
                    if let Err(failure) = notice.call1(py, (error,)) {
                        failure.write_unraisable(py, None);
                    }
                });
            });
        });
        py.detach(|| Watcher::watch(&self.watcher, self.timeline.clone(), value, call)).raised()
    }

    /// Cancels a call of ``_watch``.
    fn _forget(&self, py: Python<'_>, ticket: u64) {
        py.detach(|| self.watcher.forget(ticket));
    }

    /// Waits for value ``first`` on ``stream`` and signals the next one, ``count`` times, without Python in between.
    /// Returns the seconds, for measurements of Python's part.
    fn _cost(&self, py: Python<'_>, stream: &Bound<'_, PyAny>, first: u64, count: u64) -> PyResult<f64> {
        let flow = stream::resolve("Timeline._cost", &self.shared, stream)?;
        py.detach(|| {
            let start = Instant::now();
            for value in first..first.saturating_add(count) {
                flow.stream.wait_timeline(&self.timeline, value)?;
                flow.stream.signal_timeline(&self.timeline, value + 1)?;
            }
            Ok(start.elapsed().as_secs_f64())
        })
        .raised()
    }

    fn __repr__(&self) -> String {
        let failed = |error: Error| format!("failed: {}", error::in_python(&error.to_string()));
        let value = self.timeline.value().map_or_else(failed, |value| format!("at {value}"));
        let device = &self.shared.device;
        let origin = if self.semaphore.is_some() { "Vulkan" } else { "the host" };
        format!(
            "<gpu_interop.Timeline {value}, {} with {origin}, on {} {}>",
            self.timeline.strategy(),
            device.backend().name,
            device.identity()
        )
    }
}

/// Longest time until a signal of the process, such as Ctrl-C, is handled.
const SLICE: Duration = Duration::from_millis(50);

/// A timeout of Python: seconds, or `None` to wait without a bound.
pub(crate) fn checked_timeout(operation: &'static str, seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let invalid = || {
        Error::invalid(operation, "the timeout must be a number of seconds that is not negative, or None")
            .with_context("timeout", seconds.unwrap_or_default())
    };
    seconds.map(|seconds| Duration::try_from_secs_f64(seconds).map_err(|_| exception(&invalid()))).transpose()
}

/// Calls `wait` without the GIL, for slices of time, until it returns something else than `ErrorKind::Timeout`, the
/// timeout has elapsed, or a signal handler of Python raises.
pub(crate) fn sliced(
    py: Python<'_>,
    timeout: Option<Duration>,
    wait: impl Fn(Duration) -> Result<()> + Send + Sync,
    expired: impl FnOnce(&Error) -> Error,
) -> PyResult<()> {
    let start = Instant::now();
    loop {
        let left = timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
        let slice = left.map_or(SLICE, |left| left.min(SLICE));
        match py.detach(|| wait(slice)) {
            Err(error) if error.kind() == ErrorKind::Timeout => {
                py.check_signals()?;
                if let (Some(left), Some(timeout)) = (left, timeout)
                    && left <= slice
                {
                    return Err(exception(&expired(&error).with_context("timeout", format_args!("{timeout:?}"))));
                }
            }
            waited => return waited.raised(),
        }
    }
}
