//! Syncobjs: in this process, then in shared memory from the first export on.

use std::sync::{Arc, Mutex};

use rustix::fd::{BorrowedFd, OwnedFd};

use crate::abi::Result;
use crate::lock;
use crate::sync::shared::Shared;
use crate::sync::{Fence, Payload, Signals};

#[derive(Debug)]
enum Place {
    Own(Payload),
    Shared(Arc<Shared>),
}

#[derive(Debug)]
pub(crate) struct Syncobj {
    place: Mutex<Place>,
    signals: Arc<Signals>,
}

impl Syncobj {
    pub(crate) fn new(signals: &Arc<Signals>, fence: Option<Fence>) -> Arc<Self> {
        let payload = fence.map_or(Payload::Empty, Payload::Binary);
        Arc::new(Self { place: Mutex::new(Place::Own(payload)), signals: Arc::clone(signals) })
    }

    /// The syncobj of a descriptor that [`export`](Self::export) returned in this or another process. EINVAL for another
    /// file.
    pub(crate) fn import(signals: &Arc<Signals>, file: BorrowedFd<'_>) -> Result<Arc<Self>> {
        let place = Place::Shared(Shared::open(file, signals)?);
        Ok(Arc::new(Self { place: Mutex::new(place), signals: Arc::clone(signals) }))
    }

    /// A descriptor of the syncobj.
    pub(crate) fn export(&self) -> Result<OwnedFd> {
        let mut place = lock(&self.place);
        let shared = match &mut *place {
            Place::Shared(shared) => Arc::clone(shared),
            Place::Own(payload) => {
                let shared = Shared::new(&self.signals)?;
                shared.edit(&self.signals, |content| *content = std::mem::take(payload))?;
                *place = Place::Shared(Arc::clone(&shared));
                shared
            }
        };
        shared.descriptor()
    }

    /// Changes the content and wakes the waits for it.
    pub(crate) fn edit<R>(&self, function: impl FnOnce(&mut Payload) -> R) -> Result<R> {
        let result = {
            let mut place = lock(&self.place);
            match &mut *place {
                Place::Own(payload) => function(payload),
                Place::Shared(shared) => shared.edit(&self.signals, function)?,
            }
        };
        self.signals.notify();
        Ok(result)
    }

    /// Reads the content.
    pub(crate) fn read<R>(&self, function: impl FnOnce(&mut Payload) -> R) -> R {
        let mut place = lock(&self.place);
        match &mut *place {
            Place::Own(payload) => function(payload),
            Place::Shared(shared) => shared.read(function),
        }
    }

    /// `true` if other processes may change it.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(*lock(&self.place), Place::Shared(_))
    }
}
