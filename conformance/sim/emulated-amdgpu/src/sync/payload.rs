//! The rules of a syncobj: which fence it has at a point, and how points are added.

use std::collections::VecDeque;

use crate::sync::Fence;

/// Content of a syncobj.
#[derive(Debug, Default)]
pub(crate) enum Payload {
    #[default]
    Empty,
    /// One fence, of a syncobj used without points.
    Binary(Fence),
    Timeline(Timeline),
}

/// The points of a timeline in the order of their submission, with values that do not decrease. A point is signalled
/// when its fence and those of all earlier points are.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// The value of the last signalled point.
    pub(super) signalled: u64,
    /// Points that were not signalled when they were last looked at.
    pub(super) points: VecDeque<(u64, Fence)>,
}

impl Timeline {
    /// Removes signalled points.
    fn advance(&mut self) {
        while let Some((value, _)) = self.points.front().filter(|(_, fence)| fence.is_done()) {
            self.signalled = *value;
            self.points.pop_front();
        }
    }

    fn last(&self) -> u64 {
        self.points.back().map_or(self.signalled, |(value, _)| *value)
    }

    /// The fence of the first `count` points.
    fn prefix(&self, count: usize) -> Fence {
        match count {
            0 => Fence::Signalled,
            1 => self.points.front().map_or(Fence::Signalled, |(_, fence)| fence.clone()),
            _ => Fence::All(self.points.iter().take(count).map(|(_, fence)| fence.clone()).collect()),
        }
    }
}

impl Payload {
    /// Forgets signalled points.
    pub(crate) fn advance(&mut self) {
        if let Self::Timeline(timeline) = self {
            timeline.advance();
        }
    }

    /// The fence at a point; at point 0, that of the whole content. `None` if the point was not submitted.
    pub(crate) fn find(&mut self, point: u64) -> Option<Fence> {
        self.advance();
        match self {
            Self::Empty => None,
            Self::Binary(fence) => (point == 0).then(|| fence.clone()),
            Self::Timeline(timeline) if point == 0 => Some(timeline.prefix(timeline.points.len())),
            Self::Timeline(timeline) if point <= timeline.signalled => Some(Fence::Signalled),
            Self::Timeline(timeline) => {
                let at = timeline.points.iter().position(|(value, _)| *value >= point)?;
                Some(timeline.prefix(at + 1))
            }
        }
    }

    /// Replaces the content by one fence, or by nothing.
    pub(crate) fn replace(&mut self, fence: Option<Fence>) {
        *self = fence.map_or(Self::Empty, Self::Binary);
    }

    /// Adds a point. A value below the last one counts as the last one.
    pub(crate) fn add(&mut self, point: u64, fence: Fence) {
        let mut timeline = match std::mem::take(self) {
            Self::Empty => Timeline::default(),
            // The points follow the fence that was there, which has no value.
            Self::Binary(first) => Timeline { signalled: 0, points: VecDeque::from([(0, first)]) },
            Self::Timeline(timeline) => timeline,
        };
        let value = point.max(timeline.last());
        timeline.points.push_back((value, fence));
        timeline.advance();
        *self = Self::Timeline(timeline);
    }

    /// Sets the content at a point: adds the point, or replaces everything at point 0.
    pub(crate) fn set(&mut self, point: u64, fence: Fence) {
        match point {
            0 => self.replace(Some(fence)),
            _ => self.add(point, fence),
        }
    }

    /// The value of the last signalled point, or of the last submitted one; 0 without a timeline.
    pub(crate) fn value(&mut self, submitted: bool) -> u64 {
        self.advance();
        match self {
            Self::Timeline(timeline) if submitted => timeline.last(),
            Self::Timeline(timeline) => timeline.signalled,
            Self::Empty | Self::Binary(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::sync::{JobFence, State};

    fn jobs<const N: usize>() -> [Arc<JobFence>; N] {
        let signals = Arc::default();
        [(); N].map(|()| JobFence::new(&signals))
    }

    fn fence(job: &Arc<JobFence>) -> Fence {
        Fence::Job(Arc::clone(job))
    }

    /// The state at a point; `None` if it was not submitted.
    fn state(payload: &mut Payload, point: u64) -> Option<State> {
        payload.find(point).map(|fence| fence.state())
    }

    const DONE: Option<State> = Some(State::Done(None));
    const PENDING: Option<State> = Some(State::Pending);

    #[test]
    fn a_binary_syncobj_has_the_last_fence() {
        let [first, second] = jobs();
        let mut payload = Payload::default();
        assert_eq!(state(&mut payload, 0), None);
        payload.replace(Some(fence(&first)));
        assert_eq!((state(&mut payload, 0), state(&mut payload, 1)), (PENDING, None));
        first.signal(None);
        assert_eq!((state(&mut payload, 0), payload.value(false)), (DONE, 0));
        payload.replace(Some(fence(&second)));
        assert_eq!(state(&mut payload, 0), PENDING);
        payload.replace(None);
        assert_eq!(state(&mut payload, 0), None);
    }

    #[test]
    fn a_point_waits_for_all_earlier_ones() {
        let [first, second] = jobs();
        let mut payload = Payload::default();
        payload.add(3, fence(&first));
        payload.add(5, fence(&second));
        assert_eq!([2, 3, 4, 5, 6].map(|point| state(&mut payload, point)), [PENDING, PENDING, PENDING, PENDING, None]);
        second.signal(None);
        assert_eq!((payload.value(false), payload.value(true)), (0, 5));
        assert_eq!(state(&mut payload, 4), PENDING, "the first is pending");
        first.signal(None);
        assert_eq!((payload.value(false), payload.value(true)), (5, 5));
        assert_eq!([0, 1, 5, 6].map(|point| state(&mut payload, point)), [DONE, DONE, DONE, None]);
    }

    #[test]
    fn a_fence_taken_at_a_point_does_not_wait_for_later_ones() {
        let [first, second] = jobs();
        let mut payload = Payload::default();
        payload.add(1, fence(&first));
        let taken = payload.find(1).unwrap();
        payload.add(2, fence(&second));
        let [all, late] = [0, 1].map(|point| payload.find(point).unwrap());
        first.signal(None);
        assert_eq!([taken, late, all].map(|it| it.state()), [State::Done(None), State::Done(None), State::Pending]);
    }

    #[test]
    fn values_do_not_decrease_and_a_binary_fence_precedes_the_points() {
        let [first, second, third] = jobs();
        let mut payload = Payload::default();
        payload.replace(Some(fence(&first)));
        payload.add(4, fence(&second));
        payload.add(2, fence(&third));
        assert_eq!(payload.value(true), 4);
        second.signal(None);
        third.signal(None);
        assert_eq!((payload.value(false), state(&mut payload, 2)), (0, PENDING), "the binary fence is pending");
        first.signal(None);
        assert_eq!((payload.value(false), state(&mut payload, 4)), (4, DONE));
    }
}
