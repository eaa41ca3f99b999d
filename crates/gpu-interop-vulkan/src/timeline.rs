//! Timeline semaphores as the exporter's side of a [`Timeline`](gpu_interop_core::Timeline).

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ash::vk;
use gpu_interop_core::{
    Device, Error, ErrorKind, ExporterTimeline, Result, SemaphoreHandleKind, SemaphoreImport, SemaphorePayload,
    Timeline, TimelineWaiter,
};

use crate::export::ExportableSemaphore;
use crate::import::ImportedSemaphore;
use crate::interop::VulkanInterop;
use crate::semaphore::{OwnedSemaphore, nanoseconds};
use crate::wake::Wake;
use crate::{error, loader};

/// A timeline semaphore that need not be exportable; a bridge carries its values.
impl ExporterTimeline for OwnedSemaphore {
    fn value(&self) -> Result<u64> {
        Self::value(self)
    }

    fn signal(&self, value: u64) -> Result<()> {
        Self::signal(self, value)
    }

    fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        Self::wait(self, value, timeout)
    }

    fn max_difference(&self) -> u64 {
        self.interop().max_timeline_difference()
    }

    fn waiter(&self) -> Result<Box<dyn TimelineWaiter>> {
        Ok(Box::new(Waiter::new(self.interop())?))
    }

    fn bridged(&self) {
        self.bridge();
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "timeline {:#x} of Vulkan", vk::Handle::as_raw(self.as_raw()))
    }
}

/// Methods of [`ExporterTimeline`] that delegate to the type's [`OwnedSemaphore`].
macro_rules! delegate_to_semaphore {
    () => {
        fn value(&self) -> Result<u64> {
            self.semaphore().value()
        }

        fn signal(&self, value: u64) -> Result<()> {
            self.semaphore().signal(value)
        }

        fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
            self.semaphore().wait(value, timeout)
        }

        fn max_difference(&self) -> u64 {
            self.semaphore().max_difference()
        }

        fn waiter(&self) -> Result<Box<dyn TimelineWaiter>> {
            self.semaphore().waiter()
        }

        fn bridged(&self) {
            self.semaphore().bridge();
        }

        fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.semaphore().describe(f)
        }
    };
}

/// An exportable timeline semaphore.
impl ExporterTimeline for ExportableSemaphore {
    delegate_to_semaphore!();

    fn handle_kind(&self) -> Option<SemaphoreHandleKind> {
        (self.semaphore().payload() == SemaphorePayload::Timeline).then(|| Self::handle_kind(self))
    }

    fn export(&self) -> Result<SemaphoreImport> {
        self.import_request()
    }
}

/// An imported timeline of another process or API.
impl ExporterTimeline for ImportedSemaphore {
    delegate_to_semaphore!();
}

/// The semaphore of a timeline of this crate; `None` for other timelines.
fn semaphore(timeline: &dyn ExporterTimeline) -> Option<&OwnedSemaphore> {
    let timeline: &dyn Any = timeline;
    let exported = || timeline.downcast_ref().map(ExportableSemaphore::semaphore);
    let imported = || timeline.downcast_ref().map(ImportedSemaphore::semaphore);
    timeline.downcast_ref().or_else(exported).or_else(imported)
}

/// Waits for timeline semaphores of one `VkDevice`.
#[derive(Debug)]
struct Waiter {
    wake: Wake<OwnedSemaphore>,
    /// The longest wait of the driver; then the thread sleeps for a while.
    longest: Duration,
}

/// Timeout of a wait in a driver that polls. Such a wait occupies a CPU core.
const POLLING: Duration = Duration::from_micros(100);
/// The first nap between such waits, and the longest one.
const NAPS: [Duration; 2] = [Duration::from_micros(50), Duration::from_micros(500)];

impl Waiter {
    fn new(interop: &VulkanInterop) -> Result<Self> {
        // A layer is loaded before the device.
        if interop.begin_layer_check() {
            loader::warn_beside_bridge();
        }
        let longest = if interop.polls_in_waits() { POLLING } else { Duration::MAX };
        Ok(Self { wake: Wake::new(OwnedSemaphore::timeline(interop, 0)?), longest })
    }

    fn interop(&self) -> &VulkanInterop {
        self.wake.timeline().interop()
    }
}

impl TimelineWaiter for Waiter {
    fn serves(&self, timeline: &dyn ExporterTimeline) -> bool {
        semaphore(timeline).is_some_and(|semaphore| semaphore.interop().is_same_device(self.interop()))
    }

    fn wait_any(&self, waits: &[(&dyn ExporterTimeline, u64)], timeout: Duration) -> Result<()> {
        const OPERATION: &str = "TimelineWaiter::wait_any";
        let interop = self.interop();
        let mut semaphores = vec![self.wake.timeline().raw()];
        let mut values = vec![self.wake.next()];
        for (timeline, value) in waits {
            let own = semaphore(*timeline).filter(|semaphore| semaphore.payload() == SemaphorePayload::Timeline);
            let own = own.filter(|semaphore| semaphore.interop().is_same_device(interop));
            let foreign = || Error::invalid(OPERATION, "the timeline is not a timeline semaphore of this device");
            semaphores.push(own.ok_or_else(foreign)?.raw());
            values.push(*value);
        }
        let info =
            vk::SemaphoreWaitInfo::default().flags(vk::SemaphoreWaitFlags::ANY).semaphores(&semaphores).values(&values);
        let functions = interop.timeline(OPERATION)?;
        let device = interop.device().handle();
        let (start, mut left, [mut nap, longest_nap]) = (Instant::now(), timeout, NAPS);
        let waited = loop {
            let limit = nanoseconds(left.min(self.longest));
            // SAFETY: the device is live; all are live timeline semaphores of it, one value for each.
            let waited = unsafe { (functions.wait_semaphores_khr)(device, &raw const info, limit) };
            if waited != vk::Result::TIMEOUT || left <= self.longest {
                break waited;
            }
            self.wake.nap(nap.min(left));
            nap = longest_nap.min(2 * nap);
            left = timeout.saturating_sub(start.elapsed());
        };
        self.wake.ended();
        match waited {
            vk::Result::SUCCESS | vk::Result::TIMEOUT => Ok(()),
            code => Err(error::driver("vkWaitSemaphores", code)),
        }
    }

    fn interrupt(&self) {
        self.wake.interrupt();
    }
}

/// Creates a timeline semaphore at `initial` and the [`Timeline`] by which streams of `device` signal it and wait for
/// it. The semaphore is exportable where the Vulkan device exports timelines; elsewhere the host bridges the values.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if the Vulkan device has no timeline semaphores; otherwise as for [`Timeline::new`].
pub fn shared_timeline(interop: &VulkanInterop, device: &Device, initial: u64) -> Result<(OwnedSemaphore, Timeline)> {
    match ExportableSemaphore::timeline(interop, initial) {
        Ok(exported) => Ok((exported.semaphore().clone(), Timeline::new(device, Arc::new(exported))?)),
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            let semaphore = OwnedSemaphore::timeline(interop, initial)?;
            Ok((semaphore.clone(), Timeline::new(device, Arc::new(semaphore))?))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::ErrorKind;

    use super::*;

    #[derive(Debug)]
    struct Foreign;

    impl ExporterTimeline for Foreign {
        fn value(&self) -> Result<u64> {
            Ok(0)
        }

        fn signal(&self, _value: u64) -> Result<()> {
            Ok(())
        }

        fn wait(&self, _value: u64, _timeout: Duration) -> Result<()> {
            Err(Error::new(ErrorKind::Timeout, "Foreign::wait", "never"))
        }
    }

    #[test]
    fn foreign_timelines_are_not_downcast() {
        assert!(semaphore(&Foreign).is_none());
    }
}
