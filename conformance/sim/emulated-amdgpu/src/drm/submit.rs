//! Submissions: lists of objects, and commands with the fences that they wait for and signal.

use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use crate::abi::drm::{
    CHUNK_BO_HANDLES, CHUNK_DEPENDENCIES, CHUNK_FENCE, CHUNK_IB, CHUNK_SCHEDULED_DEPENDENCIES, CHUNK_SYNCOBJ_IN,
    CHUNK_SYNCOBJ_OUT, CHUNK_TIMELINE_SIGNAL, CHUNK_TIMELINE_WAIT, Chunk, ChunkCommands, ChunkDependency, ChunkFence,
    ChunkPoint, IB_CONSTANT_ENGINE, LIST_CREATE, LIST_DESTROY, LIST_UPDATE, ObjectEntry, ObjectList, Submission,
    WAIT_FOR_SUBMIT,
};
use crate::abi::{Plain, Result, read_array, read_user};
use crate::drm::Caller;
use crate::drm::syncobj::find;
use crate::lock;
use crate::memory::Storage;
use crate::queue::ring::{Commands, Job, UserFence};
use crate::report::say;
use crate::sync::{CANCELLED, Deadline, Fence, JobFence, Syncobj};

/// The objects of a list in the caller's memory.
fn objects(caller: Caller<'_>, value: &ObjectList) -> Result<Vec<Arc<Storage>>> {
    if value.size as usize != size_of::<ObjectEntry>() {
        return Err(Errno::INVAL);
    }
    // SAFETY: the caller of the ioctl passes an array of this many elements.
    let entries: Vec<ObjectEntry> = unsafe { read_array(value.objects, value.count)? };
    entries.iter().map(|entry| caller.object(entry.handle)).collect()
}

pub(super) fn list(caller: Caller<'_>, value: &mut ObjectList) -> Result<()> {
    let lists = &caller.file.handles.lists;
    match value.operation {
        LIST_CREATE => {
            let objects = objects(caller, value)?;
            value.operation = lock(lists).insert(objects)?;
            value.list = 0;
        }
        LIST_DESTROY => drop(lock(lists).remove(value.list)),
        LIST_UPDATE => {
            let objects = objects(caller, value)?;
            *lock(lists).get_mut(value.list).ok_or(Errno::NOENT)? = objects;
        }
        _ => return Err(Errno::INVAL),
    }
    Ok(())
}

/// The parts of a submission.
#[derive(Debug, Default)]
struct Parts {
    /// Engine, its instance, and the ring.
    target: Option<[u32; 3]>,
    commands: Vec<Commands>,
    dependencies: Vec<Fence>,
    user_fence: Option<UserFence>,
    objects: Vec<Arc<Storage>>,
    /// What is signalled, at a point or at 0.
    signals: Vec<(Arc<Syncobj>, u64)>,
}

/// Longest wait for a point that is not submitted.
const SUBMIT_LIMIT: Duration = Duration::from_secs(5);

/// Elements of a chunk.
fn elements<T: Plain>(chunk: &Chunk) -> Result<Vec<T>> {
    let bytes = u64::from(chunk.words) * 4;
    let count = u32::try_from(bytes / size_of::<T>() as u64).map_err(|_| Errno::INVAL)?;
    // SAFETY: the caller of the ioctl passes as many words as the chunk states.
    unsafe { read_array(chunk.data, count) }
}

/// The only element of a chunk.
fn element<T: Plain>(chunk: &Chunk) -> Result<T> {
    elements(chunk)?.first().copied().ok_or(Errno::INVAL)
}

impl Parts {
    fn add(&mut self, caller: Caller<'_>, chunk: &Chunk) -> Result<()> {
        match chunk.kind {
            CHUNK_IB => self.add_commands(element(chunk)?)?,
            CHUNK_FENCE => {
                let ChunkFence { handle, offset } = element(chunk)?;
                let storage = caller.object(handle)?;
                if u64::from(offset) + 8 > storage.size() || !offset.is_multiple_of(8) {
                    return Err(Errno::INVAL);
                }
                self.user_fence = Some(UserFence { storage, offset: offset.into() });
            }
            // A ring has one thread, so the start of a submission is its end.
            CHUNK_DEPENDENCIES | CHUNK_SCHEDULED_DEPENDENCIES => {
                for ChunkDependency { engine, instance, ring, context, sequence } in elements(chunk)? {
                    let ring = caller.context(context)?.ring(caller, engine, instance, ring)?;
                    self.dependencies.push(ring.fence(sequence)?);
                }
            }
            CHUNK_SYNCOBJ_IN => {
                for handle in elements::<u32>(chunk)? {
                    self.wait_for(caller, ChunkPoint { handle, flags: 0, point: 0 })?;
                }
            }
            CHUNK_SYNCOBJ_OUT => {
                for handle in elements::<u32>(chunk)? {
                    self.signals.push((caller.syncobj(handle)?, 0));
                    say!(2, "CS signals syncobj {handle}");
                }
            }
            CHUNK_TIMELINE_WAIT => {
                for point in elements::<ChunkPoint>(chunk)? {
                    self.wait_for(caller, point)?;
                }
            }
            CHUNK_TIMELINE_SIGNAL => {
                for ChunkPoint { handle, point, .. } in elements(chunk)? {
                    self.signals.push((caller.syncobj(handle)?, point));
                    say!(2, "CS signals syncobj {handle} at {point}");
                }
            }
            CHUNK_BO_HANDLES => self.objects.extend(objects(caller, &element(chunk)?)?),
            other => {
                say!(1, "CS: unknown chunk {other}");
                return Err(Errno::INVAL);
            }
        }
        Ok(())
    }

    fn add_commands(&mut self, chunk: ChunkCommands) -> Result<()> {
        let ChunkCommands { flags, address, bytes, engine, instance, ring, .. } = chunk;
        let target = [engine, instance, ring];
        if flags & IB_CONSTANT_ENGINE != 0 || !bytes.is_multiple_of(4) || self.target.is_some_and(|it| it != target) {
            say!(1, "CS: commands for ring {ring} of engine {engine} with flags {flags:#x} are not emulated");
            return Err(Errno::INVAL);
        }
        self.target = Some(target);
        self.commands.push(Commands { address, words: bytes / 4 });
        Ok(())
    }

    /// Waits for a point to be submitted, if the caller wishes, and depends on its fence.
    fn wait_for(&mut self, caller: Caller<'_>, point: ChunkPoint) -> Result<()> {
        let limit = if point.flags & WAIT_FOR_SUBMIT == 0 { None } else { Some(Deadline::after(SUBMIT_LIMIT)) };
        let syncobj = caller.syncobj(point.handle)?;
        let fence = find(caller, &syncobj, point.point, limit)?;
        say!(2, "CS waits for syncobj {} at {}: {:?}", point.handle, point.point, fence.state());
        if !fence.is_done() {
            self.dependencies.push(fence);
        }
        Ok(())
    }
}

pub(super) fn submit(caller: Caller<'_>, value: &mut Submission) -> Result<()> {
    let context = caller.context(value.context)?;
    if context.health().is_guilty() {
        return Err(CANCELLED);
    }
    let mut parts = Parts::default();
    if value.list != 0 {
        parts.objects = lock(&caller.file.handles.lists).get(value.list).cloned().ok_or(Errno::NOENT)?;
    }
    // SAFETY: the caller of the ioctl passes an array of this many addresses of chunks.
    let chunks: Vec<u64> = unsafe { read_array(value.chunks, value.count)? };
    for chunk in chunks {
        // SAFETY: as above.
        parts.add(caller, &unsafe { read_user(chunk)? })?;
    }
    let Parts { target, commands, dependencies, user_fence, objects, signals } = parts;
    let [engine, instance, number] = target.ok_or(Errno::INVAL)?;
    let ring = context.ring(caller, engine, instance, number)?;
    let fence = JobFence::new(&caller.emulation.signals);
    let waits = dependencies.len();
    let job = Job { dependencies, commands, user_fence, objects, fence: Arc::clone(&fence) };
    let publish = || {
        signals.iter().try_for_each(|(syncobj, point)| {
            syncobj.edit(|payload| payload.set(*point, Fence::Job(Arc::clone(&fence))))
        })
    };
    job.objects.iter().for_each(|object| object.add_user(&fence));
    // After a failure nothing else would signal the fence, which objects and the first syncobjs have.
    let sequence = ring.submit(job, publish).inspect_err(|_| fence.signal(Some(CANCELLED)))?;
    say!(1, "CS {sequence} to ring {number} of engine {engine}: {waits} waits, {} signals", signals.len());
    let [a, b, c, d, e, f, g, h] = sequence.to_le_bytes();
    [value.context, value.list] = [[a, b, c, d], [e, f, g, h]].map(u32::from_le_bytes);
    Ok(())
}
