//! Signals and waits of several semaphores at once.

use std::sync::Arc;

use super::{Point, SEMAPHORES, Semaphore};
use crate::{code, die};

/// The flags of NvSci that signals and waits take, and that mean nothing to other semaphores.
const SIGNAL_FLAGS: u32 = 1;
const WAIT_FLAGS: u32 = 2;
/// `CUDA_ERROR_TIMEOUT`: what the real drivers answer when a key does not come in time was not seen.
const TIMEOUT: u32 = 909;

/// The semaphore of a handle. A driver that is given another follows it, and dies.
fn semaphore_of(handle: usize) -> Arc<Semaphore> {
    SEMAPHORES.get(handle).unwrap_or_else(|| die())
}

/// What a batch of signals does. `point` gives the point and the flags of each.
pub fn signals(
    semaphores: &[usize],
    point: &dyn Fn(usize) -> (Point, u32),
) -> Result<impl Fn() -> Result<(), u32> + Send + Sync + use<>, u32> {
    batch(semaphores, point, SIGNAL_FLAGS, |semaphore, point| {
        semaphore.signal(point);
        Ok(())
    })
}

/// What a batch of waits does. `point` gives the point and the flags of each.
pub fn waits(
    semaphores: &[usize],
    point: &dyn Fn(usize) -> (Point, u32),
) -> Result<impl Fn() -> Result<(), u32> + Send + Sync + use<>, u32> {
    batch(semaphores, point, WAIT_FLAGS, |semaphore, point| semaphore.wait(point).map_err(|_| TIMEOUT))
}

/// What a batch does: `act` with each semaphore and its point. Whoever destroys a semaphore before work that uses it has
/// run is found out then.
fn batch(
    semaphores: &[usize],
    point: &dyn Fn(usize) -> (Point, u32),
    known_flags: u32,
    act: fn(&Semaphore, Point) -> Result<(), u32>,
) -> Result<impl Fn() -> Result<(), u32> + Send + Sync + use<>, u32> {
    code::reject_if(semaphores.is_empty())?;
    let one = |(index, semaphore): (usize, &usize)| {
        semaphore_of(*semaphore);
        let (point, flags) = point(index);
        if flags & !known_flags == 0 { Ok((*semaphore, point)) } else { Err(code::INVALID_VALUE) }
    };
    let all = semaphores.iter().enumerate().map(one).collect::<Result<Vec<_>, u32>>()?;
    Ok(move || all.iter().try_for_each(|(semaphore, point)| act(&semaphore_of(*semaphore), *point)))
}
