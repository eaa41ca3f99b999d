//! Misused timelines, and the strategy selected by the environment.

use gpu_interop::{ErrorKind, TIMELINE_VARIABLE, Timeline, TimelineStrategy};

use super::super::expect_error;
use super::{Shared, Strategy, by_strategy};
use crate::context::Context;
use crate::outcome::{Verdict, WAIT_TIMEOUT};
use crate::peer::Channel;
use crate::scenario::{Role, Scenario, scenarios};
use crate::{ensure, ensure_eq};

by_strategy! {
    "misuse", "Values that do not increase and timelines of another device are rejected, and nothing is enqueued.", misuse;
}

/// Timelines that need no strategy.
pub(crate) const WITHOUT_DEVICE: &[Scenario] = {
    by_strategy! { native need [], bridge need [];
        "no_timeline", "A binary semaphore is rejected as a timeline.", no_timeline;
    }
    SCENARIOS
};

/// Scenarios of both strategies at once.
pub(crate) const OTHERS: &[Scenario] = {
    scenarios! {
        "timeline.environment", Any,
            "GPU_INTEROP_TIMELINE selects the strategy or fails; an unknown value is an error.", environment,
            signals_by_host, within(60);
    }
    SCENARIOS
};

pub(crate) const ROLES: &[(&str, Role)] = &[("timeline-strategy", tell_strategy)];

fn misuse<S: Strategy>(context: &Context) -> Verdict {
    const SIZE: usize = 256;
    let invalid = ErrorKind::InvalidArgument;
    let shared = Shared::new::<S>(context, 5)?;
    let (buffer, mapped) = context.zeroed(SIZE)?;
    let stream = context.stream()?;
    for value in [5, 3, 0] {
        expect_error(stream.signal_timeline(&shared.device, value), invalid, "a value below the exporter's")?;
        expect_error(shared.device.signal(value), invalid, "the host's signal of a value below the exporter's")?;
    }
    stream.fill(&mapped, 0x10)?;
    stream.signal_timeline(&shared.device, 10)?;
    for value in [10, 9, 0] {
        expect_error(stream.signal_timeline(&shared.device, value), invalid, "a step back")?;
        expect_error(shared.device.signal(value), invalid, "a step back of the host")?;
    }
    shared.device.wait(10, WAIT_TIMEOUT)?;
    expect_error(shared.exporter.signal(10), invalid, "a step back of the exporter")?;

    let other = context.open_again()?.create_stream()?;
    for (what, result) in [
        ("a wait for a timeline of another device", other.wait_timeline(&shared.device, 11)),
        ("a wait for a value that is reached, of another device", other.wait_timeline(&shared.device, 1)),
        ("a signal of a timeline of another device", other.signal_timeline(&shared.device, 11)),
    ] {
        let error = expect_error(result, invalid, what)?;
        ensure_eq!(error.code(), None, "the driver's code for {what}");
    }
    // No rejected call enqueued anything.
    ensure!(other.is_idle()?, "something was enqueued on the stream of another device");
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    ensure_eq!(shared.exporter.value()?, 10, "the exporter's value after the rejected calls");
    // The rejected signals did not reserve 11.
    stream.fill(&mapped, 0x11)?;
    stream.signal_timeline(&shared.device, 11)?;
    shared.exporter.wait(11, WAIT_TIMEOUT)?;
    buffer.verify_all(0x11, "the work after the rejected calls did not run")
}

fn no_timeline<S: Strategy>(context: &Context) -> Verdict {
    let binary = context.exporter()?.binary_as_timeline()?;
    let refused = Timeline::with_strategy(context.device(), binary, S::STRATEGY);
    expect_error(refused, ErrorKind::InvalidArgument, "a binary semaphore as a timeline").map(drop)
}

/// In other processes, because changing this one's environment would race with its threads.
fn environment(context: &Context) -> Verdict {
    let exporter = context.exporter()?.timeline(0)?;
    let capabilities = context.device().capabilities();
    let native = exporter.handle_kind().is_some_and(|kind| capabilities.semaphore(kind).is_supported());
    let bridge = capabilities.timeline(None);
    let works = |works: bool, strategy: TimelineStrategy| {
        if works { strategy.to_string() } else { ErrorKind::Unsupported.to_string() }
    };
    let [by_driver, by_host] =
        [works(native, TimelineStrategy::Native), works(bridge.is_supported(), TimelineStrategy::HostBridge)];
    let invalid = ErrorKind::InvalidArgument.to_string();
    let cases = [("native", &by_driver), ("bridge", &by_host), ("fast", &invalid)];
    // All at once, because drivers start slowly.
    let start = |(value, expected)| {
        Ok((context.spawn_peer_with("timeline-strategy", &[(TIMELINE_VARIABLE, value)])?, expected))
    };
    for (peer, expected) in cases.map(start).into_iter().collect::<Verdict<Vec<_>>>()? {
        peer.channel().receive(expected)?;
        peer.join()?;
    }
    Ok(())
}

/// Creates a timeline and reports its strategy, or the kind of error.
fn tell_strategy(context: &Context, channel: &Channel) -> Verdict {
    let exporter = context.exporter()?.timeline(0)?;
    let made = Timeline::new(context.device(), exporter.clone());
    match made {
        Ok(timeline) => {
            // The timeline also works.
            let stream = context.stream()?;
            stream.signal_timeline(&timeline, 1)?;
            exporter.wait(1, WAIT_TIMEOUT)?;
            channel.send(&timeline.strategy().to_string(), 0, &[])
        }
        Err(error) => channel.send(&error.kind().to_string(), 0, &[]),
    }
}
