//! Wakes sleeping queues when their doorbells ring. A doorbell is plain memory, so one thread polls all of them.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::{Queue, spawn};
use crate::abi::Result;

type Watched = Arc<Mutex<Vec<Weak<Queue>>>>;

#[derive(Debug, Default)]
pub(crate) struct Poller(OnceLock<Watched>);

impl Poller {
    /// Adds a queue to the polled ones. The first one starts the thread.
    pub(super) fn add(&self, queue: &Arc<Queue>) -> Result<()> {
        let mut started = Ok(());
        let watched = self.0.get_or_init(|| {
            let watched = Watched::default();
            let mine = Arc::clone(&watched);
            started = spawn("amdgpu-doorbells".to_owned(), move || poll(&mine)).map(drop);
            watched
        });
        started?;
        let mut queues = watched.lock().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(queue));
        Ok(())
    }
}

fn poll(watched: &Watched) {
    let mut last = Instant::now();
    loop {
        let queues: Vec<_> = {
            let queues = watched.lock().unwrap_or_else(PoisonError::into_inner);
            queues.iter().filter_map(Weak::upgrade).collect()
        };
        for queue in &queues {
            if queue.wake_if_rung() {
                last = Instant::now();
            }
        }
        drop(queues);
        std::thread::sleep(pause(last.elapsed()));
    }
}

/// Sleep time after no doorbell rang for this long.
fn pause(quiet: Duration) -> Duration {
    let micros = Duration::from_micros;
    match quiet {
        short if short < micros(10_000) => micros(50),
        medium if medium < micros(200_000) => micros(150),
        _ => micros(300),
    }
}
