//! Another library of the process, which has a context and streams of its own.

use gpu_interop::backend::RawStream;
use gpu_interop::{ErrorKind, Feature, KernelArg, LaunchConfig, Timeline};
use gpu_interop_kernels::INCREMENT;

use super::expect_error;
use super::timeline::need_waits;
use crate::context::Context;
use crate::other_library::OtherLibrary;
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT, join};
use crate::scenario::scenarios;
use crate::{ensure, ensure_eq};

scenarios! {
    "threads.context_restored", Any,
        "On threads where no context is current, another library's own, or the one that the library uses, every call works and \
         leaves the same current.",
        context_restored, needs [driver Contexts], signals_by_host;
    "stream.of_another_library", Any,
        "A stream that another library made for the device does the library's work in order, and is not destroyed with it.",
        of_another_library, needs [driver Streams];
    "stream.of_another_context", None,
        "A stream of another library's own context is refused.",
        of_another_context, needs [driver Contexts];
}

const SIZE: usize = 64 << 10;

/// The context that is current on a thread at first.
#[derive(Debug, Clone, Copy)]
enum Current {
    Nothing,
    Own,
    Shared,
}

fn context_restored(context: &Context) -> Verdict {
    let library = OtherLibrary::of(context)?;
    for at_first in [Current::Nothing, Current::Own, Current::Shared] {
        // The calling thread's own state is not changed.
        std::thread::scope(|scope| {
            join(scope.spawn(|| -> Verdict {
                let entered = match at_first {
                    Current::Nothing => 0,
                    Current::Own => library.create_context()?,
                    Current::Shared => library.enter_shared()?,
                };
                let verdict = all_calls(context, &library, entered)
                    .map_err(|stop| stop.during(format_args!("with the current context {at_first:?}")));
                let left = match at_first {
                    Current::Nothing => Ok(()),
                    Current::Own => library.destroy_context(entered),
                    Current::Shared => library.leave_shared(),
                };
                verdict.and(left)
            }))
        })?;
    }
    Ok(())
}

/// Calls of every kind, with the data verified; after each, `expected` must be current.
fn all_calls(context: &Context, library: &OtherLibrary, expected: usize) -> Verdict {
    let still = |what: &str| -> Verdict {
        ensure_eq!(library.current()?, expected, "the current context after {what}");
        Ok(())
    };
    still("the thread's beginning")?;
    let (pattern, mut found) = (context.pattern(), vec![0; SIZE]);
    let device = context.open_again()?;
    still("a device was opened")?;
    let buffer = context.written(SIZE)?;
    still("the exporter's write")?;
    let memory = device.import_memory(buffer.import_request()?)?;
    still("an import")?;
    let mapped = memory.map_buffer(0..SIZE as u64)?;
    still("a mapping")?;
    let (stream, event) = (device.create_stream()?, device.create_event()?);
    still("a stream and an event were created")?;
    stream.read(&mapped, &mut found)?;
    pattern.verify(0, &found, "what the device reads")?;
    still("a read")?;
    let middle = SIZE as u64 / 2;
    stream.write(&mapped, &pattern.other().bytes(0, SIZE))?;
    stream.fill(mapped.slice(..middle)?, 0x1d)?;
    stream.copy(mapped.slice(middle..)?, mapped.slice(..middle)?)?;
    still("a write, a fill and a copy")?;
    stream.record(&event)?;
    stream.wait_event(&event)?;
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    ensure!(stream.is_idle()?, "a synchronised stream has work pending");
    still("events, a synchronisation and a query")?;
    buffer.verify_all(0x1d, "what the device copied")?;
    if device.capabilities().feature(Feature::Kernels).is_supported() {
        let module = context.kernels()?;
        still("a module was loaded")?;
        // The context's device loaded the module.
        let (here, stream) = (context.import(&*buffer)?, context.stream()?);
        let words = SIZE as u64 / 4;
        let args = [KernelArg::from(&here), KernelArg::U64(words)];
        // SAFETY: the arguments are those of `increment`, and the mapping outlives the synchronisation.
        unsafe { stream.launch(&module.kernel(INCREMENT.name)?, &LaunchConfig::linear(words), &args) }?;
        stream.synchronize()?;
        still("a launch")?;
        let incremented = u32::from_ne_bytes([0x1d; 4]) + 1;
        ensure_eq!(buffer.word(middle)?, incremented, "a word that the kernel incremented");
        drop((module, here, stream));
        still("the module's end")?;
    }
    let exporter = context.exporter()?.timeline(0)?;
    let timeline = Timeline::new(&device, exporter.clone())?;
    still("a timeline was shared")?;
    if need_waits(&device, timeline.strategy()).is_ok() {
        stream.wait_timeline(&timeline, 1)?;
        stream.fill(&mapped, 0x2e)?;
        stream.signal_timeline(&timeline, 2)?;
        still("a wait and a signal of a timeline")?;
        exporter.signal(1)?;
        timeline.wait(2, WAIT_TIMEOUT)?;
        still("a signal and a wait of the host")?;
        buffer.verify_all(0x2e, "the fill between two values")?;
    }
    drop((timeline, event));
    still("a timeline's and an event's end")?;
    stream.fill(&mapped, 0x3f)?;
    drop((memory, mapped));
    still("an import and a mapping ended with work pending")?;
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    device.collect();
    still("a collection")?;
    drop((stream, device));
    still("a stream's and a device's end")?;
    buffer.verify_all(0x3f, "the last fill")
}

fn of_another_context(context: &Context) -> Verdict {
    let library = OtherLibrary::of(context)?;
    let own = library.create_context()?;
    let used = || -> Verdict {
        let raw = library.create_stream_here()?;
        // SAFETY: the stream is live, and the call is expected to refuse it for its context.
        let wrapped = unsafe { context.device().stream_from_raw(RawStream::new(raw)) };
        let refused = expect_error(wrapped, ErrorKind::InvalidArgument, "a stream of another context");
        library.destroy_stream_here(raw)?;
        let text = refused?.to_string();
        ensure!(text.contains("cuDevicePrimaryCtxRetain"), "the error does not name the remedy: {text}");
        Ok(())
    };
    let verdict = used();
    library.destroy_context(own).and(verdict)
}

fn of_another_library(context: &Context) -> Verdict {
    let library = OtherLibrary::of(context)?;
    let (buffer, mapped) = context.shared(SIZE)?;
    let raw = library.create_stream()?;
    let used = || -> Verdict {
        // SAFETY: the stream is of this device, captures nothing, and is destroyed below, after all its work has completed.
        let stream = unsafe { context.device().stream_from_raw(RawStream::new(raw)) }?;
        let (other, event) = (context.stream()?, context.device().create_event()?);
        let mut pattern = context.pattern();
        for round in 0..20 {
            let middle = SIZE as u64 / 2;
            buffer.put(pattern)?;
            stream.copy(mapped.slice(middle..)?, mapped.slice(..middle)?)?;
            stream.record(&event)?;
            other.wait_event(&event)?;
            other.fill(mapped.slice(..4)?, 0x4c)?;
            other.synchronize_timeout(WAIT_TIMEOUT)?;
            let half = pattern.bytes(0, SIZE / 2);
            let expected = [&[0x4c; 4][..], &half[4..], &half].concat();
            let wrong = buffer.contents()?.iter().zip(&expected).position(|(found, expected)| found != expected);
            ensure!(wrong.is_none(), "round {round}: byte {wrong:?} is wrong after the other library's stream");
            pattern = pattern.other();
        }
        stream.fill(&mapped, 0x5b)?;
        Ok(stream.synchronize_timeout(WAIT_TIMEOUT)?)
    };
    let verdict = used();
    context.device().collect();
    // The driver rejects a stream that is destroyed already.
    let destroyed = library.destroy_stream(raw).map_err(|stop: Stop| stop.during("the other library's stream"));
    verdict.and(destroyed)?;
    buffer.verify_all(0x5b, "the last fill of the other library's stream")
}
