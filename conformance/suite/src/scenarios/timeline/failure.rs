//! An exporter that fails during a wait of the device.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use gpu_interop::{Error, ErrorKind, ExporterTimeline, Result, TimelineWaiter};

use super::super::{expect_error, keeps_waiting};
use super::{Bridge, Shared};
use crate::context::Context;
use crate::exporter::{Unwrapping, Wrapper};
use crate::outcome::{Verdict, WAIT_TIMEOUT, WATCH};
use crate::scenario::scenarios;
use crate::{ensure, ensure_eq};

scenarios! {
    "timeline.failing_exporter.bridge", Any,
        "A failing or panicking exporter timeline is an error of the stream and of the timeline, not a hang; other timelines \
         still work.",
        failing_exporter, needs [bridged timelines, word waits], signals_by_host;
}

/// Behaviour of a timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behaviour {
    Sound,
    Fails,
    Panics,
    FailsToSignal,
}

const ALL: [Behaviour; 4] = [Behaviour::Sound, Behaviour::Fails, Behaviour::Panics, Behaviour::FailsToSignal];

/// A timeline of the exporter that fails on demand.
#[derive(Debug)]
struct Failing {
    timeline: Arc<dyn ExporterTimeline>,
    behaviour: AtomicU8,
}

impl Failing {
    fn behave(&self, behaviour: Behaviour) {
        self.behaviour.store(behaviour as u8, Ordering::SeqCst);
    }

    fn check(&self, signals: bool) -> Result<()> {
        match ALL[usize::from(self.behaviour.load(Ordering::SeqCst))] {
            Behaviour::Fails => Err(lost()),
            Behaviour::FailsToSignal if signals => Err(lost()),
            // A panic without the panic hook, so that the log contains no message.
            Behaviour::Panics => resume_unwind(Box::new("on purpose")),
            _ => Ok(()),
        }
    }
}

fn lost() -> Error {
    Error::new(ErrorKind::Driver, "Failing::value", "the device is lost on purpose")
}

impl ExporterTimeline for Failing {
    fn value(&self) -> Result<u64> {
        self.check(false).and_then(|()| self.timeline.value())
    }

    fn signal(&self, value: u64) -> Result<()> {
        self.check(true).and_then(|()| self.timeline.signal(value))
    }

    fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        self.check(false).and_then(|()| self.timeline.wait(value, timeout))
    }

    fn waiter(&self) -> Result<Box<dyn TimelineWaiter>> {
        Ok(Box::new(Unwrapping::new(self)?))
    }
}

impl Wrapper for Failing {
    fn inner(&self) -> &dyn ExporterTimeline {
        &*self.timeline
    }
}

fn failing_exporter(context: &Context) -> Verdict {
    [Behaviour::Fails, Behaviour::Panics, Behaviour::FailsToSignal]
        .into_iter()
        .try_for_each(|behaviour| fails(context, behaviour).map_err(|stop| stop.during(format_args!("{behaviour:?}"))))
}

fn fails(context: &Context, behaviour: Behaviour) -> Verdict {
    let failing = Arc::new(Failing { timeline: context.exporter()?.timeline(0)?, behaviour: AtomicU8::new(0) });
    let shared = Shared::with::<Bridge>(context.device(), failing.clone())?;
    // Uses the same bridge, which must survive.
    let sound = Arc::new(Failing { timeline: context.exporter()?.timeline(0)?, behaviour: AtomicU8::new(0) });
    let sound = Shared::with::<Bridge>(context.device(), sound)?;
    let (buffer, mapped) = context.zeroed(4096)?;
    let (stream, other) = (context.stream()?, context.stream()?);
    other.wait_timeline(&sound.device, 1)?;
    other.fill(&mapped, 0x21)?;
    other.signal_timeline(&sound.device, 2)?;

    if behaviour == Behaviour::FailsToSignal {
        failing.behave(behaviour);
        stream.signal_timeline(&shared.device, 1)?;
        let start = Instant::now();
        let synchronized = loop {
            // The bridge carries the signal shortly after the stream has executed it.
            let synchronized = stream.synchronize_timeout(WAIT_TIMEOUT);
            if synchronized.is_err() {
                break synchronized;
            }
            ensure!(start.elapsed() < WAIT_TIMEOUT, "the failed signal is not an error of its stream");
            std::thread::sleep(Duration::from_millis(1));
        };
        let error = expect_error(synchronized, ErrorKind::Driver, "a signal that was not carried")?;
        ensure!(error.to_string().contains("lost on purpose"), "the stream's error lacks the reason: {error}");
    } else {
        stream.wait_timeline(&shared.device, 1)?;
        keeps_waiting(&stream, WATCH, "the stream did not wait")?;
        failing.behave(behaviour);
        // Vulkan's wait for a lost device would end. This one lasts until the next wait is added.
        other.wait_timeline(&sound.device, 1)?;
        let error =
            expect_error(stream.synchronize_timeout(WAIT_TIMEOUT), ErrorKind::Driver, "a wait for a failed timeline")?;
        let reason = if behaviour == Behaviour::Panics { "panicked" } else { "lost on purpose" };
        ensure!(error.to_string().contains(reason), "the stream's error lacks the reason: {error}");
    }
    // Later calls fail before anything is enqueued.
    expect_error(shared.device.value(), ErrorKind::Driver, "the value of a failed timeline")?;
    expect_error(shared.device.wait(1, WAIT_TIMEOUT), ErrorKind::Driver, "a wait of the host for a failed timeline")?;
    expect_error(shared.device.signal(9), ErrorKind::Driver, "a signal of the host")?;
    expect_error(stream.wait_timeline(&shared.device, 2), ErrorKind::Driver, "a wait for a failed timeline")?;
    expect_error(stream.signal_timeline(&shared.device, 9), ErrorKind::Driver, "a signal of a failed timeline")?;
    ensure!(stream.is_idle()?, "something was enqueued for a failed timeline");
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    ensure_eq!(failing.timeline.value()?, 0, "the value of the timeline that failed");

    buffer.verify_all(0, "the other stream proceeded, too")?;
    sound.exporter.signal(1)?;
    sound.exporter.wait(2, WAIT_TIMEOUT)?;
    buffer.verify_all(0x21, "the other timeline does not work any more")?;
    Ok(())
}
