//! Signals and waits of several semaphores.

use std::sync::Arc;

use super::{Point, SEMAPHORES, Semaphore};
use crate::{code, die};

/// `CUDA_ERROR_TIMEOUT`. The real drivers' code for a timeout of a key is unknown.
const TIMEOUT: u32 = 909;

/// What a batch does with its semaphores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// Signals them.
    Signals,
    /// Waits for them.
    Waits,
}

impl Sort {
    /// The flag of NvSci that such a batch takes, and that means nothing to other semaphores.
    pub fn flag(self) -> u32 {
        match self {
            Self::Signals => 1,
            Self::Waits => 2,
        }
    }

    fn act(self, semaphore: &Semaphore, point: Point) -> Result<(), u32> {
        match self {
            Self::Signals => {
                semaphore.signal(point);
                Ok(())
            }
            Self::Waits => semaphore.wait(point).map_err(|_| TIMEOUT),
        }
    }
}

/// The semaphore of a handle. The driver dereferences an invalid handle and crashes.
fn semaphore_of(handle: usize) -> Arc<Semaphore> {
    SEMAPHORES.get(handle).unwrap_or_else(|| die())
}

/// The work of a batch. `point` gives the point and the flags of each semaphore. The work aborts the process when it runs
/// if one of them has been destroyed.
///
/// # Errors
/// [`code::INVALID_VALUE`] for no semaphores, and for other flags.
pub fn work(
    sort: Sort,
    semaphores: &[usize],
    point: &dyn Fn(usize) -> (Point, u32),
) -> Result<impl Fn() -> Result<(), u32> + Send + Sync + use<>, u32> {
    code::reject_if(semaphores.is_empty())?;
    let one = |(index, semaphore): (usize, &usize)| {
        semaphore_of(*semaphore);
        let (point, flags) = point(index);
        code::reject_if(flags & !sort.flag() != 0)?;
        Ok((*semaphore, point))
    };
    let all = semaphores.iter().enumerate().map(one).collect::<Result<Vec<_>, u32>>()?;
    Ok(move || all.iter().try_for_each(|(semaphore, point)| sort.act(&semaphore_of(*semaphore), *point)))
}
