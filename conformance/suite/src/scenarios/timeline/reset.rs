//! Timelines of a device that another library resets.

use gpu_interop::{ErrorKind, Stream, Timeline};

use super::super::expect_error;
use super::{Shared, Strategy, by_strategy};
use crate::context::{Context, import_on};
use crate::other_library::OtherLibrary;
use crate::outcome::{Verdict, WAIT_TIMEOUT};

by_strategy! {
    native need [exporter SurvivesReset, driver Reset, native timelines],
    bridge need [exporter SurvivesReset, driver Reset, bridged timelines, word waits];
    "device_reset",
        "After another library has reset the device, its timelines fail with a typed error, and new ones work.",
        device_reset, last_in_process;
}

const SIZE: usize = 4096;

fn device_reset<S: Strategy>(context: &Context) -> Verdict {
    let mut other = OtherLibrary::of(context)?;
    exchange::<S>(context, |stream, timeline| {
        other.reset()?;
        // First, because these need no current context.
        expect_error(stream.signal_timeline(timeline, 3), ErrorKind::DeviceLost, "a signal")?;
        expect_error(stream.wait_timeline(timeline, 4), ErrorKind::DeviceLost, "a wait")?;
        expect_error(stream.is_idle(), ErrorKind::DeviceLost, "a query of the stream").map(drop)
    })?;
    other.begin(context.pattern())?;
    exchange::<S>(context, |stream, timeline| {
        other.reset()?;
        other.begin(context.pattern())?;
        expect_error(stream.wait_timeline(timeline, 3), ErrorKind::DeviceLost, "a wait beside the other library")?;
        expect_error(stream.signal_timeline(timeline, 4), ErrorKind::DeviceLost, "a signal").map(drop)
    })?;
    exchange::<S>(context, |_, _| Ok(()))?;
    other.end(context.pattern())
}

/// Hands a buffer over by a timeline of a device opened for this, and calls `then` with the timeline.
fn exchange<S: Strategy>(context: &Context, then: impl FnOnce(&Stream, &Timeline) -> Verdict) -> Verdict {
    let (buffer, device) = (context.buffer(SIZE as u64)?, context.open_again()?);
    let (mapped, stream) = (import_on(&device, &*buffer)?, device.create_stream()?);
    let Shared { exporter, device: timeline } = Shared::with::<S>(&device, context.exporter()?.timeline(0)?)?;
    stream.wait_timeline(&timeline, 1)?;
    stream.fill(&mapped, 0x55)?;
    stream.signal_timeline(&timeline, 2)?;
    exporter.signal(1)?;
    exporter.wait(2, WAIT_TIMEOUT)?;
    buffer.verify_all(0x55, "the fill between the wait and the signal")?;
    stream.synchronize()?;
    then(&stream, &timeline)
}
