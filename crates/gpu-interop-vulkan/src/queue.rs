//! Kinds of queues, and the order of their waits for binary semaphores.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use ash::vk;
use gpu_interop_core::Result;
use gpu_interop_core::sync::lock;

use crate::interop::VulkanInterop;

/// Kind of queue that work is handed over on.
///
/// A GPU runs one context at a time on its graphics and compute engine. Where Vulkan hands work over from a graphics or
/// compute queue to a compute API on the same GPU and gets a result back, the engine switches contexts twice. That
/// takes longer than the rest of the round trip, and no semaphore avoids it. Copies on a transfer-only queue run on
/// another engine. A round trip between Vulkan and CUDA on an H200 takes 325 to 351 µs on a graphics queue, and 29 to
/// 40 µs on a transfer-only one.
///
/// Data that is only copied, for example from or to host memory, is therefore best handed over on a transfer-only queue
/// ([`HeadlessContext::send`](crate::HeadlessContext::send),
/// [`HeadlessContext::receive`](crate::HeadlessContext::receive)). Copying the output of a graphics queue on another
/// queue gains nothing: the engine still switches contexts to render the next frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QueueKind {
    /// A compute queue, with graphics if the device has it. Every device has one.
    #[default]
    General,
    /// A compute queue without graphics, on which a device may compute while it draws. Copies, clears and dispatches are
    /// commands of such a queue; blits, resolves and draws are not. Not every device has one.
    ComputeOnly,
    /// A transfer-only queue. Not every device has one.
    TransferOnly,
}

impl QueueKind {
    /// Returns the first family of this kind in the list of `vkGetPhysicalDeviceQueueFamilyProperties`. For
    /// applications that select queues before they create the device.
    #[must_use]
    pub fn find_family(self, families: &[vk::QueueFamilyProperties]) -> Option<u32> {
        let general = vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE;
        let video =
            vk::QueueFlags::VIDEO_DECODE_KHR | vk::QueueFlags::VIDEO_ENCODE_KHR | vk::QueueFlags::OPTICAL_FLOW_NV;
        (0_u32..)
            .zip(families)
            .filter(|(_, family)| family.queue_count > 0)
            .filter(|(_, family)| match self {
                // Compute implies transfer, even if the driver does not list it.
                Self::General => family.queue_flags.contains(vk::QueueFlags::COMPUTE),
                Self::ComputeOnly => {
                    family.queue_flags.contains(vk::QueueFlags::COMPUTE)
                        && !family.queue_flags.intersects(vk::QueueFlags::GRAPHICS | video)
                }
                Self::TransferOnly => {
                    family.queue_flags.contains(vk::QueueFlags::TRANSFER)
                        && !family.queue_flags.intersects(general | video)
                }
            })
            .min_by_key(|(_, family)| !family.queue_flags.contains(vk::QueueFlags::GRAPHICS))
            .map(|(index, _)| index)
    }
}

impl VulkanInterop {
    /// The physical device's family of compute queues without graphics ([`QueueKind::ComputeOnly`]); `None` if it has
    /// none. Vulkan cannot report whether the device was created with a queue of that family.
    #[must_use]
    pub fn compute_only_queue_family(&self) -> Option<u32> {
        self.queue_family(QueueKind::ComputeOnly)
    }

    /// The physical device's family of transfer-only queues ([`QueueKind::TransferOnly`]); `None` if it has none.
    /// Vulkan cannot report whether the device was created with a queue of that family.
    #[must_use]
    pub fn transfer_only_queue_family(&self) -> Option<u32> {
        self.queue_family(QueueKind::TransferOnly)
    }

    fn queue_family(&self, kind: QueueKind) -> Option<u32> {
        // SAFETY: the creator of this object promised that both are live and belong together.
        let families = unsafe { self.instance().get_physical_device_queue_family_properties(self.physical_device()) };
        kind.find_family(&families)
    }
}

/// A timeline whose signals this crate knows.
pub(crate) trait Awaited: fmt::Debug + Send + Sync {
    /// `true` if the value is reached, or never will be because the device is lost.
    fn is_reached(self: Arc<Self>, value: u64) -> bool;

    /// A submission that signals `value` or a greater one.
    fn signalled_by(&self, value: u64) -> Option<Place>;

    /// Blocks until the value is reached.
    fn wait(self: Arc<Self>, value: u64, timeout: Duration) -> Result<()>;
}

/// A submission to a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    queue: vk::Queue,
    /// Greater than those of the queue's earlier submissions.
    number: u64,
}

/// A list of this length is not searched.
const SHORT: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct QueueWaits(Mutex<Waits>);

#[derive(Debug, Default)]
struct Waits {
    /// The number of the last submission.
    last: u64,
    list: Vec<Wait>,
    /// A longer list is searched for reached values, beyond [`SHORT`].
    limit: usize,
}

/// A submission's wait for a value.
#[derive(Debug)]
struct Wait {
    place: Place,
    /// Work that has not completed keeps its semaphores.
    timeline: Weak<dyn Awaited>,
    value: u64,
}

impl QueueWaits {
    fn lock(&self) -> MutexGuard<'_, Waits> {
        // The list is valid after every step, so a poisoned lock is usable.
        lock(&self.0)
    }

    /// Records the waits of a submission that was made.
    pub(crate) fn submitted(
        &self,
        queue: vk::Queue,
        submitted: impl IntoIterator<Item = (Arc<dyn Awaited>, u64)>,
    ) -> Place {
        // Dropped without the lock: an owner of a semaphore is code of the application.
        let mut seen = Vec::new();
        let mut waits = self.lock();
        waits.last += 1;
        let place = Place { queue, number: waits.last };
        for (timeline, value) in submitted {
            waits.list.push(Wait { place, timeline: Arc::downgrade(&timeline), value });
            seen.push(timeline);
        }
        if waits.list.len() > waits.limit.max(SHORT) {
            waits.list.retain(|wait| {
                let Some(timeline) = wait.timeline.upgrade() else { return false };
                seen.push(timeline.clone());
                !timeline.is_reached(wait.value)
            });
            waits.limit = 2 * waits.list.len();
        }
        drop(waits);
        place
    }

    /// The first value without a submitted signal, of those that these submissions depend on.
    pub(crate) fn unsubmitted(&self, mut places: Vec<Place>) -> Option<(Arc<dyn Awaited>, u64)> {
        let (mut open, mut next) = (Vec::new(), 0);
        loop {
            while let Some(place) = places.get(next) {
                let waits = self.lock();
                let before = |wait: &&Wait| wait.place.queue == place.queue && wait.place.number <= place.number;
                let before = waits.list.iter().filter(before);
                open.extend(before.filter_map(|wait| Some((wait.timeline.upgrade()?, wait.value))));
                next += 1;
            }
            let (timeline, value) = open.pop()?;
            if timeline.clone().is_reached(value) {
                continue;
            }
            let Some(place) = timeline.signalled_by(value) else { return Some((timeline, value)) };
            if !places.iter().any(|known| known.queue == place.queue && known.number >= place.number) {
                places.push(place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ash::vk::{Handle, QueueFlags as Flags};

    use super::*;

    #[test]
    fn families_are_selected_by_kind() {
        let family = |queue_flags| vk::QueueFamilyProperties { queue_flags, queue_count: 1, ..Default::default() };
        let families = [
            family(Flags::TRANSFER | Flags::VIDEO_DECODE_KHR),
            family(Flags::TRANSFER | Flags::SPARSE_BINDING),
            family(Flags::COMPUTE | Flags::TRANSFER),
            family(Flags::GRAPHICS | Flags::COMPUTE | Flags::TRANSFER),
        ];
        assert_eq!(QueueKind::General.find_family(&families), Some(3));
        assert_eq!(QueueKind::General.find_family(&families[..3]), Some(2));
        assert_eq!(QueueKind::ComputeOnly.find_family(&families), Some(2));
        assert_eq!(QueueKind::ComputeOnly.find_family(&families[3..]), None);
        assert_eq!(QueueKind::TransferOnly.find_family(&families), Some(1));
        assert_eq!(QueueKind::TransferOnly.find_family(&families[2..]), None);
        let empty = vk::QueueFamilyProperties { queue_count: 0, ..families[1] };
        assert_eq!(QueueKind::TransferOnly.find_family(&[empty]), None);
    }

    /// A timeline of the application, whose other owner drops it while its value is queried.
    #[derive(Debug)]
    struct Lent {
        is_reached: bool,
        other_owner: Mutex<Option<Arc<Self>>>,
        waits: Arc<QueueWaits>,
        dropped: Arc<Mutex<Vec<bool>>>,
    }

    impl Drop for Lent {
        fn drop(&mut self) {
            let is_unlocked = self.waits.0.try_lock().is_ok();
            self.dropped.lock().expect("no panic").push(is_unlocked);
        }
    }

    impl Awaited for Lent {
        fn is_reached(self: Arc<Self>, _: u64) -> bool {
            drop(self.other_owner.lock().expect("no panic").take());
            self.is_reached
        }

        fn signalled_by(&self, _: u64) -> Option<Place> {
            None
        }

        fn wait(self: Arc<Self>, _: u64, _: Duration) -> Result<()> {
            Ok(())
        }
    }

    fn lent(waits: &Arc<QueueWaits>, dropped: &Arc<Mutex<Vec<bool>>>, is_reached: bool) -> Arc<dyn Awaited> {
        let (waits, dropped, other_owner) = (waits.clone(), dropped.clone(), Mutex::default());
        let timeline = Arc::new(Lent { is_reached, other_owner, waits, dropped });
        *timeline.other_owner.lock().expect("no panic") = Some(timeline.clone());
        timeline
    }

    #[test]
    fn reached_values_are_forgotten_and_owners_dropped_without_the_lock() {
        let (waits, dropped, queue) = (Arc::<QueueWaits>::default(), Arc::default(), vk::Queue::from_raw(1));
        let first = waits.submitted(queue, [(lent(&waits, &dropped, false), 1)]);
        for value in 0..1000 {
            waits.submitted(queue, [(lent(&waits, &dropped, true), value)]);
            assert!(waits.lock().list.len() <= 2 * SHORT, "value {value}");
        }
        // The first list that was searched has dropped the timeline, which has no other owner.
        assert!(waits.unsubmitted(vec![first]).is_none());
        waits.submitted(queue, (0..=2 * SHORT).map(|_| (lent(&waits, &dropped, true), 0)));
        let dropped = dropped.lock().expect("no panic");
        assert!(dropped.len() > 1000 && dropped.iter().all(|is_unlocked| *is_unlocked), "{}", dropped.len());
    }
}
