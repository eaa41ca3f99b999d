//! A queue for exporters without one: a host thread that uses a stream of the exporting device.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use gpu_interop::{BufferSlice, ErrorKind, ExportableMemory, ExporterTimeline, Stream};

use crate::ensure;
use crate::exporter::Exchange;
use crate::outcome::{PATIENCE, Stop, Verdict};

/// One exchange.
pub(super) struct Job {
    pub(super) memory: Arc<ExportableMemory>,
    pub(super) data: Vec<u8>,
    pub(super) wait: (Arc<dyn ExporterTimeline>, u64),
    pub(super) signal: (Arc<dyn ExporterTimeline>, u64),
}

/// The result of a job.
type Answer = Verdict<Vec<u8>>;

/// A job, and the channel for its result.
type Task = (Job, Sender<Answer>);

/// The queue. Dropping it cancels pending jobs.
pub(super) struct Queue {
    jobs: Mutex<Option<Sender<Task>>>,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Queue {
    pub(super) fn start(stream: Arc<Stream>) -> Verdict<Self> {
        let (jobs, incoming) = channel::<Task>();
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = stopped.clone();
        let thread = std::thread::Builder::new().name("exporter queue".into()).spawn(move || {
            for (job, answer) in incoming {
                // A dropped exchange has no receiver.
                let _ = answer.send(job.run(&stream, &stop));
            }
        })?;
        Ok(Self { jobs: Mutex::new(Some(jobs)), stopped, thread: Some(thread) })
    }

    pub(super) fn enqueue(&self, job: Job) -> Verdict<Enqueued> {
        let (answer, answers) = channel();
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = jobs.as_ref().map(|jobs| jobs.send((job, answer)).is_ok());
        if sent == Some(true) { Ok(Enqueued(answers)) } else { Err(Stop::failed("the exporter's queue ended".into())) }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        *self.jobs.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Job {
    fn run(self, stream: &Stream, stopped: &AtomicBool) -> Answer {
        let (timeline, value) = &self.wait;
        wait(&**timeline, *value, stopped)?;
        let mut found = vec![0; self.data.len()];
        read(stream, (&*self.memory).into(), 0, &mut found)?;
        write(stream, (&*self.memory).into(), 0, &self.data)?;
        let (timeline, value) = &self.signal;
        timeline.signal(*value)?;
        Ok(found)
    }
}

fn wait(timeline: &dyn ExporterTimeline, value: u64, stopped: &AtomicBool) -> Verdict {
    /// Maximum delay until the queue's end is noticed.
    const SLICE: Duration = Duration::from_millis(50);
    loop {
        match timeline.wait(value, SLICE) {
            Err(error) if error.kind() == ErrorKind::Timeout => {
                ensure!(!stopped.load(Ordering::Relaxed), "the exporter's queue ended before the value {value}");
            }
            waited => return Ok(waited?),
        }
    }
}

/// A copy through the exporting device's stream.
pub(super) fn write(stream: &Stream, target: BufferSlice<'_>, offset: u64, data: &[u8]) -> Verdict {
    Ok(stream.write(target.slice(offset..offset + data.len() as u64)?, data)?)
}

/// As [`write`], in the other direction.
pub(super) fn read(stream: &Stream, source: BufferSlice<'_>, offset: u64, data: &mut [u8]) -> Verdict {
    Ok(stream.read(source.slice(offset..offset + data.len() as u64)?, data)?)
}

/// An enqueued job.
pub(super) struct Enqueued(Receiver<Answer>);

impl Exchange for Enqueued {
    fn finish(self: Box<Self>) -> Answer {
        self.0
            .recv_timeout(PATIENCE)
            .map_err(|_| Stop::failed("the exporter's queue timed out waiting for the device".into()))?
    }
}
