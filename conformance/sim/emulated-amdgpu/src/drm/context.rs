//! Contexts: their rings, and whether they caused a fault.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;

use crate::abi::Result;
use crate::abi::drm::{
    CONTEXT_ALLOCATE, CONTEXT_FREE, CONTEXT_GET_PSTATE, CONTEXT_QUERY, CONTEXT_QUERY_2, CONTEXT_SET_PSTATE,
    ContextOperation, GUILTY_RESET, NO_RESET, QUERY_2_GUILTY, QUERY_2_RESET,
};
use crate::drm::Caller;
use crate::lock;
use crate::queue::ring::{Engine, Health, Ring};
use crate::report::say;

#[derive(Debug, Default)]
pub(crate) struct Context {
    /// Created at their first submission.
    rings: Mutex<BTreeMap<(Engine, u32), Arc<Ring>>>,
    health: Arc<Health>,
    /// The fault was reported to a query.
    reported: AtomicBool,
}

impl Context {
    pub(super) fn health(&self) -> &Health {
        &self.health
    }

    /// The ring of an engine, which must have one of this number.
    pub(super) fn ring(&self, caller: Caller<'_>, engine: u32, instance: u32, number: u32) -> Result<Arc<Ring>> {
        let engine = Engine::numbered(engine).filter(|engine| instance == 0 && number < engine.rings(caller.gpu));
        let key = (engine.ok_or(Errno::INVAL)?, number);
        let mut rings = lock(&self.rings);
        if let Some(ring) = rings.get(&key) {
            return Ok(Arc::clone(ring));
        }
        let ring = Ring::start(caller.emulation, caller.gpu.index, key.0, number, &self.health)?;
        rings.insert(key, Arc::clone(&ring));
        Ok(ring)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        lock(&self.rings).values().for_each(|ring| ring.close());
    }
}

pub(super) fn operation(caller: Caller<'_>, value: &mut ContextOperation) -> Result<()> {
    let [operation, _flags, id, _priority] = value.words;
    match operation {
        CONTEXT_ALLOCATE => {
            let id = lock(&caller.file.handles.contexts).insert(Arc::default())?;
            value.words = [id, 0, 0, 0];
            say!(1, "context {id}");
        }
        CONTEXT_FREE => {
            // Pending submissions are executed.
            let removed = lock(&caller.file.handles.contexts).remove(id);
            drop(removed.ok_or(Errno::INVAL)?);
        }
        CONTEXT_QUERY => {
            let context = caller.context(id)?;
            let fault = context.health.is_guilty() && !context.reported.swap(true, Ordering::AcqRel);
            let hangs = context.health.hangs.load(Ordering::Acquire);
            value.words = [0, 0, hangs, if fault { GUILTY_RESET } else { NO_RESET }];
        }
        CONTEXT_QUERY_2 => {
            let guilty = caller.context(id)?.health.is_guilty();
            value.words = [if guilty { QUERY_2_RESET | QUERY_2_GUILTY } else { 0 }, 0, 0, 0];
        }
        // Clocks are not emulated: the state is the default one.
        CONTEXT_GET_PSTATE => {
            caller.context(id)?;
            value.words = [0; 4];
        }
        CONTEXT_SET_PSTATE => drop(caller.context(id)?),
        _ => return Err(Errno::INVAL),
    }
    Ok(())
}
