//! Rings of the render node: a context's graphics, compute or copy engine. A thread executes the submissions in order,
//! each after its dependencies.
//!
//! A submission that cannot be executed makes its context guilty, as a hang does on a real machine, where the driver
//! resets the ring: its fence is done with an error, and so are those of all later submissions. Other contexts are not
//! affected.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use crate::abi::Result;
use crate::emulation::Emulation;
use crate::gpu::Gpu;
use crate::lock;
use crate::memory::{PageFault, Storage};
use crate::queue::pm4::Processor;
use crate::queue::{Stop, sdma, spawn};
use crate::report;
use crate::report::say;
use crate::sync::{CANCELLED, Deadline, Fence, JobFence};

/// An engine, by its number in the kernel's interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Engine {
    Graphics,
    Compute,
    Copy,
}

impl Engine {
    pub(crate) fn numbered(number: u32) -> Option<Self> {
        [Self::Graphics, Self::Compute, Self::Copy].get(number as usize).copied()
    }

    /// The number of its rings on a GPU.
    pub(crate) const fn rings(self, gpu: &Gpu) -> u32 {
        match self {
            Self::Graphics => gpu.model.graphics as u32,
            Self::Compute => 4,
            Self::Copy => 2,
        }
    }
}

/// State of a context.
#[derive(Debug, Default)]
pub(crate) struct Health {
    guilty: AtomicBool,
    /// Submissions that could not be executed.
    pub(crate) hangs: AtomicU32,
}

impl Health {
    pub(crate) fn is_guilty(&self) -> bool {
        self.guilty.load(Ordering::Acquire)
    }
}

/// Commands in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Commands {
    pub(crate) address: u64,
    pub(crate) words: u32,
}

/// A word that is set to the submission's number when it ends.
#[derive(Debug, Clone)]
pub(crate) struct UserFence {
    pub(crate) storage: Arc<Storage>,
    pub(crate) offset: u64,
}

/// A submission.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) dependencies: Vec<Fence>,
    pub(crate) commands: Vec<Commands>,
    pub(crate) user_fence: Option<UserFence>,
    /// The objects that it uses, which live until it ends.
    pub(crate) objects: Vec<Arc<Storage>>,
    pub(crate) fence: Arc<JobFence>,
}

#[derive(Debug, Default)]
struct Jobs {
    pending: VecDeque<(u64, Job)>,
    /// The fences of the last submissions, by number.
    fences: VecDeque<(u64, Arc<JobFence>)>,
    last: u64,
    closed: bool,
}

/// Number of fences of ended submissions that are kept.
const KEPT: usize = 32;

#[derive(Debug)]
pub(crate) struct Ring {
    gpu: usize,
    engine: Engine,
    number: u32,
    health: Arc<Health>,
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

impl Ring {
    /// Creates a ring and starts its thread.
    pub(crate) fn start(
        emulation: &'static Emulation,
        gpu: usize,
        engine: Engine,
        number: u32,
        health: &Arc<Health>,
    ) -> Result<Arc<Self>> {
        let health = Arc::clone(health);
        let ring = Arc::new(Self { gpu, engine, number, health, jobs: Mutex::default(), changed: Condvar::new() });
        let mine = Arc::clone(&ring);
        spawn(format!("amdgpu-ring-{number}"), move || mine.run(emulation))?;
        say!(1, "ring {number} of {engine:?} on GPU {gpu}");
        Ok(ring)
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        lock(&self.jobs)
    }

    /// Adds a submission and returns its number. `publish` runs before its execution may begin.
    pub(crate) fn submit(&self, job: Job, publish: impl FnOnce() -> Result<()>) -> Result<u64> {
        let mut jobs = self.jobs();
        publish()?;
        jobs.last += 1;
        let sequence = jobs.last;
        while jobs.fences.len() > KEPT && jobs.fences.front().is_some_and(|(_, fence)| fence.is_done()) {
            jobs.fences.pop_front();
        }
        jobs.fences.push_back((sequence, Arc::clone(&job.fence)));
        jobs.pending.push_back((sequence, job));
        self.changed.notify_all();
        Ok(sequence)
    }

    /// The fence of a submission; of the last one for `u64::MAX`. EINVAL for a number that was not used yet.
    pub(crate) fn fence(&self, sequence: u64) -> Result<Fence> {
        let jobs = self.jobs();
        let sequence = if sequence == u64::MAX { jobs.last } else { sequence };
        if sequence > jobs.last {
            return Err(Errno::INVAL);
        }
        let found = jobs.fences.iter().find(|(number, _)| *number == sequence);
        // An older one has ended.
        Ok(found.map_or(Fence::Signalled, |(_, fence)| Fence::Job(Arc::clone(fence))))
    }

    /// Ends the thread after the pending submissions.
    pub(crate) fn close(&self) {
        self.jobs().closed = true;
        self.changed.notify_all();
    }

    fn next(&self) -> Option<(u64, Job)> {
        let mut jobs = self.jobs();
        loop {
            if let Some(job) = jobs.pending.pop_front() {
                return Some(job);
            }
            if jobs.closed {
                return None;
            }
            jobs = self.changed.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run(&self, emulation: &'static Emulation) {
        let mut processor = Processor::new(emulation, self.gpu, self.engine);
        while let Some((sequence, job)) = self.next() {
            _ = emulation.signals.wait_all(&job.dependencies, Deadline::NEVER);
            let error = self.execute(emulation, &mut processor, sequence, &job);
            if let Some(UserFence { storage, offset }) = &job.user_fence {
                emulation.memory.write_object(storage, *offset, sequence);
            }
            drop(job.objects);
            job.fence.signal(error);
        }
    }

    /// Executes a submission. Returns the error of its fence.
    fn execute(
        &self,
        emulation: &'static Emulation,
        processor: &mut Processor,
        sequence: u64,
        job: &Job,
    ) -> Option<Errno> {
        if self.health.is_guilty() {
            return Some(CANCELLED);
        }
        let result = job.commands.iter().try_for_each(|commands| match self.engine {
            Engine::Copy => sdma::run_commands(emulation, self.gpu, *commands),
            Engine::Graphics | Engine::Compute => processor.run(*commands),
        });
        let stop = result.err()?;
        self.report(emulation, sequence, &stop);
        // The state of the ring before the fault is lost.
        processor.reset();
        self.health.hangs.fetch_add(1, Ordering::AcqRel);
        self.health.guilty.store(true, Ordering::Release);
        Some(CANCELLED)
    }

    fn report(&self, emulation: &Emulation, sequence: u64, stop: &Stop) {
        let name = format!("{:?} ring {}, submission {sequence}", self.engine, self.number);
        match stop {
            Stop::PageFault(PageFault { address, read_only, .. }) => {
                let why = if *read_only { "read-only" } else { "not mapped" };
                report::failure(format_args!("{name}: GPU page fault at {address:#x}, {why}; its context is lost"));
                emulation.counters.add("page_faults", why);
            }
            Stop::Invalid(why) => {
                report::failure(format_args!("{name}: {why}; its context is lost"));
                emulation.counters.add("queue_errors", why);
            }
            Stop::Hang | Stop::Reset | Stop::Destroyed => {
                report::failure(format_args!("{name}: it hangs; its context is lost"));
                emulation.counters.add("resets", "ring");
            }
        }
    }
}
