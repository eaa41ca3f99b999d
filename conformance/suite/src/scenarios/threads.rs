//! Concurrent use from many threads.

use crate::context::Context;
use crate::ensure_eq;
use crate::exporter::ExportedBuffer;
use crate::leak_check::ResourceSnapshot;
use crate::outcome::{Stop, Verdict};
use crate::pattern::Pattern;
use crate::scenario::scenarios;

scenarios! {
    "threads.import_map_free", Any,
        "8 threads import, map, write, verify and free 200 times each, beside a thread that opens and closes files.",
        import_map_free, counts_resources;
    "threads.other_thread", Any, "Objects created on one thread work and end on another.", other_thread;
    "threads.one_stream", Any, "8 threads enqueue on one stream, and all work arrives.", one_stream;
}

const SIZE: usize = 16 << 10;
const THREADS: u32 = 8;

fn import_map_free(context: &Context) -> Verdict {
    let buffers: Vec<Box<dyn ExportedBuffer>> =
        (0..THREADS).map(|_| context.buffer(SIZE as u64)).collect::<Verdict<_>>()?;
    for buffer in &buffers {
        drop(context.import(&**buffer)?);
    }
    let before = ResourceSnapshot::open_descriptors()?;
    let work = |buffer: &dyn ExportedBuffer, thread: u32| -> Verdict {
        let stream = context.stream()?;
        for round in 0..200 {
            let pattern = Pattern::new(context.pattern().seed() ^ (thread << 16) ^ round);
            // Created by the exporter, which may be slow with threads.
            let mapped = context.import(buffer)?;
            stream.write(&mapped, &pattern.bytes(0, SIZE))?;
            pattern.verify(0, &context.read(&stream, &mapped)?, format_args!("thread {thread}, round {round}"))?;
        }
        Ok(())
    };
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| -> Verdict {
        let churn = scope.spawn(|| -> Verdict {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let file = std::fs::File::open(std::env::current_exe()?)?;
                // Fails if this thread's descriptor or handle was closed elsewhere.
                file.metadata()?;
            }
            Ok(())
        });
        let workers: Vec<_> =
            buffers.iter().zip(0..).map(|(buffer, thread)| scope.spawn(move || work(&**buffer, thread))).collect();
        let results: Vec<_> = workers.into_iter().map(join).collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        join(churn)?;
        results.into_iter().collect()
    })?;
    ensure_eq!(ResourceSnapshot::open_descriptors()?, before, "open descriptors");
    Ok(())
}

/// The result of a thread; a panic is a failure.
pub(super) fn join<T>(handle: std::thread::ScopedJoinHandle<'_, Verdict<T>>) -> Verdict<T> {
    handle.join().unwrap_or_else(|_| Err(Stop::failed("a thread panicked".into())))
}

fn other_thread(context: &Context) -> Verdict {
    let (buffer, pattern) = (context.written(SIZE)?, context.pattern());
    let memory = context.import_memory(&*buffer)?;
    std::thread::scope(|scope| {
        join(scope.spawn(|| {
            let mapped = memory.map_buffer(0..SIZE as u64)?;
            let stream = context.stream()?;
            pattern.verify(0, &context.read(&stream, &mapped)?, "data on another thread")?;
            stream.write(&mapped, &pattern.other().bytes(0, SIZE))?;
            Ok(memory.close()?)
        }))
    })?;
    buffer.verify(pattern.other(), "the other thread's data")
}

fn one_stream(context: &Context) -> Verdict {
    const ROUNDS: u64 = 512;
    let (buffer, mapped) = context.zeroed(SIZE)?;
    let stream = context.stream()?;
    let (stream, mapped) = (&stream, &mapped);
    let part = SIZE as u64 / u64::from(THREADS);
    std::thread::scope(|scope| -> Verdict {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || -> Verdict {
                    let start = u64::from(thread) * part;
                    let value = u8::try_from(thread + 1).unwrap_or(0);
                    for index in 0..ROUNDS {
                        stream.fill(mapped.slice(start + index..start + part)?, value)?;
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(join)
    })?;
    stream.synchronize()?;
    let found = buffer.contents()?;
    let wrong = found.iter().zip(0_u64..).filter(|(byte, index)| u64::from(**byte) != index / part + 1).count();
    ensure_eq!(wrong, 0, "bytes that no thread's work reached");
    Ok(())
}
