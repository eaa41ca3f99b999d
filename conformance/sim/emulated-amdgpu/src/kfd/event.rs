//! KFD's events, waits for them, and their ioctls.
//!
//! The rules are the kernel's. Setting an event activates all current waits for it; the event stays set if it has no
//! automatic reset, or if there are no waits. Each set increments its age, and a wait that states another age than the
//! event's is active at once.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::abi::kfd::{
    ById, CreateEvent, EVENT_HW_EXCEPTION, EVENT_LIMIT, EVENT_MEMORY, EVENT_SIGNAL, EventData, MMAP_TYPE_EVENTS,
    MMAP_TYPE_SHIFT, WAIT_RESULT_COMPLETE, WAIT_RESULT_FAIL, WAIT_RESULT_TIMEOUT, WaitEvents,
};
use crate::abi::{Result, read_user, write_user};
use crate::emulation::Emulation;
use crate::lock;
use crate::report::say;

pub(super) fn create(emulation: &Emulation, value: &mut CreateEvent) -> Result<()> {
    let id = emulation.events.create(value.event_type, value.auto_reset != 0)?;
    (value.event_id, value.slot_index, value.trigger_data) = (id, id, id);
    // Not 0, which the runtime interprets as "no mailbox". It is the offset of the page of slots, which ROCR allocates
    // itself.
    value.event_page_offset = MMAP_TYPE_EVENTS << MMAP_TYPE_SHIFT;
    say!(2, "event {id} of kind {}", value.event_type);
    Ok(())
}

pub(super) fn destroy(emulation: &Emulation, value: &mut ById) -> Result<()> {
    emulation.events.destroy(value.id)
}

pub(super) fn set(emulation: &Emulation, value: &mut ById) -> Result<()> {
    emulation.events.set(value.id)
}

pub(super) fn reset(emulation: &Emulation, value: &mut ById) -> Result<()> {
    emulation.events.reset(value.id)
}

pub(super) fn wait(emulation: &Emulation, value: &mut WaitEvents) -> Result<()> {
    if value.count > EVENT_LIMIT {
        return Err(Errno::INVAL);
    }
    let addresses = || (value.events..).step_by(size_of::<EventData>()).take(value.count as usize);
    // SAFETY: the caller of the ioctl passes an array of `count` events.
    let mut data = addresses().map(|at| unsafe { read_user(at) }).collect::<Result<Vec<EventData>>>()?;
    let timeout = (value.timeout != u32::MAX).then(|| Duration::from_millis(u64::from(value.timeout)));
    value.wait_result = WAIT_RESULT_FAIL;
    value.wait_result = emulation.events.wait(&mut data, value.wait_for_all != 0, timeout)?;
    for (at, data) in addresses().zip(data) {
        // SAFETY: as above.
        unsafe { write_user(at, data)? };
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
struct Event {
    kind: u32,
    auto_reset: bool,
    set: bool,
    waiters: u32,
    age: u64,
    data: [u64; 4],
}

/// The events of a process.
#[derive(Debug, Default)]
struct Table(BTreeMap<u32, Event>);

/// The state of an event in one wait.
#[derive(Debug, Clone, Copy)]
struct Waiter {
    id: u32,
    active: bool,
    /// The event's age when the wait began.
    age: u64,
    enqueued: bool,
}

impl Table {
    fn create(&mut self, kind: u32, auto_reset: bool) -> Result<u32> {
        let id = (1..EVENT_LIMIT).find(|id| !self.0.contains_key(id)).ok_or(Errno::NOSPC)?;
        let event = Event { kind, auto_reset, set: false, waiters: 0, age: 1, data: [0; 4] };
        self.0.insert(id, event);
        Ok(id)
    }

    fn set(&mut self, id: u32) -> Result<()> {
        let event = self.0.get_mut(&id).ok_or(Errno::INVAL)?;
        event.set = !event.auto_reset || event.waiters == 0;
        event.age += 1;
        Ok(())
    }

    fn begin(&mut self, data: &[EventData]) -> Result<Vec<Waiter>> {
        if data.iter().any(|data| !self.0.contains_key(&data.event_id)) {
            return Err(Errno::INVAL);
        }
        let begin = |data: &EventData| {
            let event = self.0.get_mut(&data.event_id).ok_or(Errno::INVAL)?;
            let stated = if event.kind == EVENT_SIGNAL { data.data[0] } else { 0 };
            let active = event.set || stated != 0 && stated != event.age;
            event.set &= !event.auto_reset;
            event.waiters += u32::from(!active);
            Ok(Waiter { id: data.event_id, active, age: event.age, enqueued: !active })
        };
        data.iter().map(begin).collect()
    }

    /// The result of the wait; `None` while it continues.
    fn poll(&self, waiters: &mut [Waiter], all: bool) -> Option<u32> {
        for waiter in &mut *waiters {
            match self.0.get(&waiter.id) {
                None => return Some(WAIT_RESULT_FAIL),
                Some(event) => waiter.active |= event.age != waiter.age,
            }
        }
        let over = if all { waiters.iter().all(|it| it.active) } else { waiters.iter().any(|it| it.active) };
        over.then_some(WAIT_RESULT_COMPLETE)
    }

    fn end(&mut self, waiters: &[Waiter], data: &mut [EventData]) {
        for (waiter, data) in waiters.iter().zip(data) {
            let Some(event) = self.0.get_mut(&waiter.id) else { continue };
            event.waiters -= u32::from(waiter.enqueued);
            match event.kind {
                EVENT_SIGNAL if waiter.active && data.data[0] != 0 => data.data[0] = event.age,
                EVENT_MEMORY | EVENT_HW_EXCEPTION if waiter.active => data.data = event.data,
                _ => {}
            }
        }
    }
}

/// The events of a process, and the waits for them.
#[derive(Debug, Default)]
pub(crate) struct Events {
    table: Mutex<Table>,
    changed: Condvar,
}

impl Events {
    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    pub(crate) fn create(&self, kind: u32, auto_reset: bool) -> Result<u32> {
        self.table().create(kind, auto_reset)
    }

    pub(crate) fn destroy(&self, id: u32) -> Result<()> {
        self.table().0.remove(&id).ok_or(Errno::INVAL)?;
        self.changed.notify_all();
        Ok(())
    }

    pub(crate) fn set(&self, id: u32) -> Result<()> {
        self.table().set(id)?;
        self.changed.notify_all();
        Ok(())
    }

    pub(crate) fn reset(&self, id: u32) -> Result<()> {
        self.table().0.get_mut(&id).ok_or(Errno::INVAL)?.set = false;
        Ok(())
    }

    /// Sets all events of a kind, with an exception's data for each.
    pub(crate) fn raise(&self, kind: u32, data: [u64; 4]) {
        let mut table = self.table();
        let ids: Vec<_> = table.0.iter().filter(|(_, event)| event.kind == kind).map(|(id, _)| *id).collect();
        for id in ids {
            if let Some(event) = table.0.get_mut(&id) {
                event.data = data;
            }
            _ = table.set(id);
        }
        drop(table);
        self.changed.notify_all();
    }

    /// Waits for one of the events, or for all, and returns the result.
    pub(crate) fn wait(&self, data: &mut [EventData], all: bool, timeout: Option<Duration>) -> Result<u32> {
        // `None` means no limit, also for a time that the clock cannot represent.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut table = self.table();
        let mut waiters = table.begin(data)?;
        let result = loop {
            if let Some(result) = table.poll(&mut waiters, all) {
                break result;
            }
            table = match deadline {
                None => self.changed.wait(table).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
                    else {
                        break WAIT_RESULT_TIMEOUT;
                    };
                    self.changed.wait_timeout(table, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        };
        table.end(&waiters, data);
        Ok(result)
    }

    pub(crate) fn len(&self) -> usize {
        self.table().0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(id: u32, age: u64) -> EventData {
        EventData { data: [age, 0, 0, 0], event_id: id, ..EventData::default() }
    }

    const NOW: Option<Duration> = Some(Duration::ZERO);

    #[test]
    fn an_event_that_resets_itself_stays_set_until_one_wait() {
        let events = Events::default();
        let (once, lasting) = (events.create(EVENT_SIGNAL, true).unwrap(), events.create(EVENT_SIGNAL, false).unwrap());
        for (id, expected) in [(once, [0, 1]), (lasting, [0, 0])] {
            assert_eq!(events.wait(&mut [data(id, 0)], false, NOW), Ok(WAIT_RESULT_TIMEOUT));
            events.set(id).unwrap();
            let results = [0, 1].map(|_| events.wait(&mut [data(id, 0)], false, NOW).unwrap());
            assert_eq!(results, expected, "event {id}");
        }
        events.reset(lasting).unwrap();
        assert_eq!(events.wait(&mut [data(lasting, 0)], false, NOW), Ok(WAIT_RESULT_TIMEOUT));
    }

    #[test]
    fn setting_activates_those_who_wait_and_leaves_nothing_behind() {
        let mut table = Table::default();
        let id = table.create(EVENT_SIGNAL, true).unwrap();
        let mut first = table.begin(&[data(id, 0)]).unwrap();
        let mut second = table.begin(&[data(id, 0)]).unwrap();
        table.set(id).unwrap();
        assert_eq!(table.poll(&mut first, true), Some(WAIT_RESULT_COMPLETE));
        assert_eq!(table.poll(&mut second, true), Some(WAIT_RESULT_COMPLETE));
        table.end(&first, &mut [data(id, 0)]);
        table.end(&second, &mut [data(id, 0)]);
        let mut third = table.begin(&[data(id, 0)]).unwrap();
        assert_eq!(table.poll(&mut third, true), None, "both got it while they waited");
    }

    #[test]
    fn a_stated_age_that_is_not_the_events_is_active_at_once() {
        let events = Events::default();
        let id = events.create(EVENT_SIGNAL, true).unwrap();
        let mut wait = [data(id, 1)];
        assert_eq!((events.wait(&mut wait, false, NOW), wait[0].data[0]), (Ok(WAIT_RESULT_TIMEOUT), 1));
        events.set(id).unwrap();
        events.reset(id).unwrap();
        assert_eq!((events.wait(&mut wait, false, NOW), wait[0].data[0]), (Ok(WAIT_RESULT_COMPLETE), 2));
        assert_eq!(events.wait(&mut wait, false, NOW), Ok(WAIT_RESULT_TIMEOUT));
    }

    #[test]
    fn waiting_for_all_needs_all_and_unknown_events_are_errors() {
        let events = Events::default();
        let ids = [0, 1].map(|_| events.create(EVENT_SIGNAL, false).unwrap());
        events.set(ids[0]).unwrap();
        let mut both = ids.map(|id| data(id, 0));
        assert_eq!(events.wait(&mut both, true, NOW), Ok(WAIT_RESULT_TIMEOUT));
        assert_eq!(events.wait(&mut both, false, NOW), Ok(WAIT_RESULT_COMPLETE));
        events.set(ids[1]).unwrap();
        assert_eq!(events.wait(&mut both, true, NOW), Ok(WAIT_RESULT_COMPLETE));
        assert_eq!(events.wait(&mut [data(77, 0)], false, NOW), Err(Errno::INVAL));
        assert_eq!((events.set(77), events.destroy(77)), (Err(Errno::INVAL), Err(Errno::INVAL)));
    }

    #[test]
    fn an_exception_reaches_its_kind_with_its_data() {
        let events = Events::default();
        let memory = events.create(EVENT_MEMORY, true).unwrap();
        let signal = events.create(EVENT_SIGNAL, true).unwrap();
        events.raise(EVENT_MEMORY, [1, 2, 3, 4]);
        let mut wait = [data(memory, 0), data(signal, 0)];
        assert_eq!(events.wait(&mut wait, false, NOW), Ok(WAIT_RESULT_COMPLETE));
        assert_eq!((wait[0].data, wait[1].data), ([1, 2, 3, 4], [0; 4]));
    }

    #[test]
    fn a_wait_ends_when_its_event_is_destroyed() {
        let events = Events::default();
        let id = events.create(EVENT_SIGNAL, true).unwrap();
        let result = std::thread::scope(|scope| {
            let waiter = scope.spawn(|| events.wait(&mut [data(id, 0)], false, None));
            while events.table().0.get(&id).is_some_and(|event| event.waiters == 0) {
                std::thread::yield_now();
            }
            events.destroy(id).unwrap();
            waiter.join().unwrap()
        });
        assert_eq!(result, Ok(WAIT_RESULT_FAIL));
    }
}
