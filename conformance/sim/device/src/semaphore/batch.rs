//! Signals and waits of several semaphores.

use std::sync::Arc;

use super::{Point, SEMAPHORES, Semaphore};
use crate::{code, die};

/// NvSci flags of signals and waits, which have no effect on other semaphores.
const SIGNAL_FLAGS: u32 = 1;
const WAIT_FLAGS: u32 = 2;
/// `CUDA_ERROR_TIMEOUT`. The real drivers' code for a timeout of a key is unknown.
const TIMEOUT: u32 = 909;

/// The semaphore of a handle. The driver dereferences an invalid handle and crashes.
fn semaphore_of(handle: usize) -> Arc<Semaphore> {
    SEMAPHORES.get(handle).unwrap_or_else(|| die())
}

/// Enqueues a batch of signals. `point` returns the point and the flags of each.
///
/// # Errors
/// The status code of the failure.
pub fn signals(
    semaphores: &[usize],
    point: &dyn Fn(usize) -> (Point, u32),
) -> Result<impl Fn() -> Result<(), u32> + Send + Sync + use<>, u32> {
    batch(semaphores, point, SIGNAL_FLAGS, |semaphore, point| {
        semaphore.signal(point);
        Ok(())
    })
}

/// Enqueues a batch of waits. `point` returns the point and the flags of each.
///
/// # Errors
/// The status code of the failure.
pub fn waits(
    semaphores: &[usize],
    point: &dyn Fn(usize) -> (Point, u32),
) -> Result<impl Fn() -> Result<(), u32> + Send + Sync + use<>, u32> {
    batch(semaphores, point, WAIT_FLAGS, |semaphore, point| semaphore.wait(point).map_err(|_| TIMEOUT))
}

/// The work of a batch: `act` with each semaphore and its point. Detects semaphores destroyed before the work has run.
fn batch(
    semaphores: &[usize],
    point: &dyn Fn(usize) -> (Point, u32),
    known_flags: u32,
    act: fn(&Semaphore, Point) -> Result<(), u32>,
) -> Result<impl Fn() -> Result<(), u32> + Send + Sync + use<>, u32> {
    if semaphores.is_empty() {
        return Err(code::INVALID_VALUE);
    }
    let one = |(index, semaphore): (usize, &usize)| {
        semaphore_of(*semaphore);
        let (point, flags) = point(index);
        if flags & !known_flags == 0 { Ok((*semaphore, point)) } else { Err(code::INVALID_VALUE) }
    };
    let all = semaphores.iter().enumerate().map(one).collect::<Result<Vec<_>, u32>>()?;
    Ok(move || all.iter().try_for_each(|(semaphore, point)| act(&semaphore_of(*semaphore), *point)))
}
