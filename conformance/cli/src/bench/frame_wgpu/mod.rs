//! An RGBA8 frame that graphics draws, compute reads and writes, and graphics composes: by wgpu and by Vulkan.
//!
//! Graphics copies a picture to the frame, two kernels verify all of its texels and write new ones, and graphics copies
//! the frame to a buffer. All pictures differ, and the texels that come back are verified, too. The variants:
//! * `wgpu`: the adapter `gpu-interop-wgpu`, with a `SharedTexture` of the device's preferred tiling, and the
//!   application's commands in the submissions of the hand-over;
//! * `ash`: Vulkan with this project's exporter, with an image of the same tiling and a timeline in each direction;
//! * `fence`: as `ash` with full synchronisation, as other libraries do it: the host waits for Vulkan, and then for the
//!   stream;
//! * `readback`: wgpu without interop. The frame is copied to a mapped buffer, from there to the device, back to the
//!   host, and by `Queue::write_texture` to the frame.
//!
//! The frame itself is measured from the first submission to the end of the last, alone, and as the time for each of
//! 30 frames of which three are in flight.
//!
//! Needs the feature `wgpu` of this crate, because wgpu would take the time of its build from 117 s to 189 s on one
//! core.

#[cfg(feature = "wgpu")]
mod numbers;
#[cfg(feature = "wgpu")]
mod readback;
#[cfg(feature = "wgpu")]
mod shared;
#[cfg(feature = "wgpu")]
mod texels;
#[cfg(feature = "wgpu")]
mod vulkan;
#[cfg(feature = "wgpu")]
mod way;
#[cfg(feature = "wgpu")]
mod wgpu_side;

use gpu_interop_conformance::Verdict;

use super::machine::Machine;
use super::record::Recorder;

/// The size of a frame, and whether it has limits.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "wgpu"), allow(dead_code, reason = "for the build with the feature"))]
pub(super) struct Frame {
    /// Width and height, texels.
    size: [u32; 2],
    is_judged: bool,
}

impl Frame {
    pub(super) const P720: Self = Self { size: [1280, 720], is_judged: false };
    pub(super) const K4: Self = Self { size: [3840, 2160], is_judged: true };
}

#[cfg(not(feature = "wgpu"))]
pub(super) fn run(_: &Machine, _: &mut Recorder, _: &str, _: Frame) -> Verdict {
    let reason = "this command was built without wgpu; build it with `--features gpu-interop-conformance-cli/wgpu`";
    Err(gpu_interop_conformance::Stop::unsupported(reason.into()))
}

#[cfg(feature = "wgpu")]
pub(super) use measured::run;

#[cfg(feature = "wgpu")]
mod measured {
    use std::time::Duration;

    use super::numbers::BATCH;
    use super::readback::Readback;
    use super::shared::Shared;
    use super::vulkan::{Order, Vulkan};
    use super::way::{Frames, Way};
    use super::wgpu_side::WgpuSide;
    use super::{Frame, Machine, Recorder, Verdict};
    use crate::bench::record::{Comparison, PEER, TIME};
    use crate::bench::report::Limit;
    use crate::bench::rounds::{Effort, Variant};

    /// Of wgpu's overhead over Vulkan.
    const OVERHEAD: Limit = Limit::AtMost(1.05);
    /// Of the gain over the way through the host.
    const GAIN: Limit = Limit::AtLeast(5.0);

    pub(in crate::bench) fn run(machine: &Machine, recorder: &mut Recorder, name: &str, frame: Frame) -> Verdict {
        let context = machine.graphics_queue()?;
        let side = WgpuSide::new(context, &machine.device, frame.size)?;
        let shared = Frames::new(Shared::new(machine, &side)?, frame.size)?;
        let vulkan = |order| Frames::new(Vulkan::new(machine, context, frame.size, order)?, frame.size);
        let (vulkan, fence) = (vulkan(Order::Timelines)?, vulkan(Order::Host)?);
        let readback = Frames::new(Readback::new(machine, &side)?, frame.size)?;
        // The limits are those of GPUs: on the CPU all ways copy in the same memory.
        let is_judged = frame.is_judged && machine.is_judged();
        let limit = |limit| Some(limit).filter(|_| is_judged);
        let comparisons = [
            Comparison { limit: limit(OVERHEAD), ..Comparison::new(0, "wgpu", "ash") },
            Comparison { limit: limit(PEER), ..Comparison::new(0, "wgpu", "fence") },
            Comparison { limit: limit(GAIN), ..Comparison::new(0, "readback", "wgpu") },
        ];
        let mut alone = variants(&shared, [&vulkan, &fence], &readback, 1);
        let effort = Effort { most: 400, ..Effort::within(Duration::from_millis(2000)) };
        recorder.measure(name, effort, &[TIME], &mut alone, &comparisons)?;
        let mut in_flight = variants(&shared, [&vulkan, &fence], &readback, BATCH);
        let effort = Effort { warm_up: 2, least: 9, budget: Duration::from_secs(3), ..Effort::exactly(100) };
        recorder.measure(&format!("{name}.in_flight"), effort, &[TIME], &mut in_flight, &comparisons)
    }

    /// Every way, with this number of frames in a round.
    fn variants<'a>(
        shared: &'a Frames<impl Way>,
        [vulkan, fence]: [&'a Frames<Vulkan<'a>>; 2],
        readback: &'a Frames<impl Way>,
        frames: u32,
    ) -> [Variant<'a>; 4] {
        [
            Variant::of_one("wgpu", move || shared.round(frames)),
            Variant::of_one("ash", move || vulkan.round(frames)),
            Variant::of_one("fence", move || fence.round(frames)),
            Variant::of_one("readback", move || readback.round(frames)),
        ]
    }
}
