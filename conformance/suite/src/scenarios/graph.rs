//! Graphs: recorded work with many launches.

use gpu_interop::{Device, ErrorKind, Graph, KernelArg, LaunchConfig, MappedBuffer, Result, Stream, WaitCondition};
use gpu_interop_kernels::INCREMENT;

use super::{expect_error, keeps_waiting};
use crate::context::{Context, import_on};
use crate::ensure_eq;
use crate::leak_check::leak_check;
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT, WATCH};
use crate::scenario::scenarios;

scenarios! {
    all need [Graphs];
    "graph.copies", Any, "Each launch of a recorded copy copies the exporter's current data.", copies;
    "graph.fills", Any, "Recorded fills take effect with each launch, and not before the first.", fills;
    "graph.kernel", Any, "Recorded kernels run once per launch, on one stream and alternating on two.", kernel,
        needs [GraphKernels, Kernels];
    "graph.words", Any,
        "A recorded wait for a word blocks the work behind it at each launch; a recorded write reports completion.", words,
        needs [StreamMemoryOperations32, GraphMemoryOperations];
    "graph.in_order", Any, "A launch runs after the work enqueued before it and before the work enqueued after it.", in_order;
    "graph.keeps_objects", Any, "A graph keeps the objects that it uses: launches write them after they were dropped.",
        keeps_objects;
    "graph.dropped_pending", Any, "A graph dropped with a pending launch runs as enqueued.", dropped_pending,
        needs [StreamMemoryOperations32];
    "graph.device_works_on", Any,
        "During a recording the device imports, maps, copies and frees, on this thread and others; the graph is intact.",
        device_works_on, mirrors("hip-tests: hipExternalMemoryGetMappedBuffer_Vulkan_Capture");
    "graph.refusals", Any,
        "Synchronisation, queries and one-time work are rejected on a recording stream; the graph is intact.", refusals;
    "graph.abandoned", Any, "A recording whose closure fails makes no graph; the next recording works.", abandoned;
    "graph.cycles", Any,
        "500 recordings, every other one abandoned, leave descriptors, mappings and memory as before.", cycles;
}

const SIZE: usize = 64 << 10;

fn record(device: &Device, work: impl FnOnce(&Stream) -> Result<()>) -> Verdict<Graph> {
    Ok(device.record(work)?)
}

fn copies(context: &Context) -> Verdict {
    let ((from_side, from), (to_side, to)) = (context.zeroed(SIZE)?, context.zeroed(SIZE)?);
    let middle = SIZE as u64 / 2;
    let graph = record(context.device(), |stream| {
        stream.copy(to.slice(..middle)?, from.slice(..middle)?)?;
        stream.copy(to.slice(middle..)?, from.slice(middle..)?)
    })?;
    let stream = context.stream()?;
    let mut pattern = context.pattern();
    for round in 0..5 {
        from_side.put(pattern)?;
        graph.launch(&stream)?;
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
        to_side.verify(pattern, &format!("launch {round}"))?;
        pattern = pattern.other();
    }
    Ok(())
}

fn fills(context: &Context) -> Verdict {
    let (buffer, mapped) = context.zeroed(SIZE)?;
    let byte = context.pattern().byte(0);
    let graph = record(context.device(), |stream| {
        stream.fill(&mapped, 0xff)?;
        stream.fill_u32(mapped.slice(..4096)?, u32::from_ne_bytes([byte; 4]))?;
        stream.fill(mapped.slice(4096..)?, byte)
    })?;
    buffer.verify_all(0, "recorded, and not launched")?;
    let stream = context.stream()?;
    for launch in 0..3 {
        graph.launch(&stream)?;
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
        buffer.verify_all(byte, &format!("launch {launch}"))?;
        buffer.write(0, &[0; SIZE])?;
    }
    Ok(())
}

fn kernel(context: &Context) -> Verdict {
    let module = context.kernels()?;
    let increment = module.kernel(INCREMENT.name)?;
    let (buffer, mapped) = context.zeroed(SIZE)?;
    let words = SIZE as u64 / 4;
    let args = [KernelArg::from(&mapped), KernelArg::U64(words)];
    let graph = record(context.device(), |stream| {
        for _ in 0..3 {
            // SAFETY: the arguments are those of the kernel, and the mapping outlives the graph.
            unsafe { stream.launch(&increment, &LaunchConfig::linear(words), &args) }?;
        }
        Ok(())
    })?;
    let streams = [context.stream()?, context.stream()?];
    let launches = 20;
    for launch in 0..launches {
        graph.launch(&streams[launch % 2])?;
    }
    streams.iter().try_for_each(|stream| stream.synchronize_timeout(WAIT_TIMEOUT))?;
    graph.close()?;
    let found = buffer.contents()?;
    let expected = u32::try_from(3 * launches).unwrap_or(0).to_ne_bytes();
    let wrong = found.chunks_exact(4).filter(|word| **word != expected).count();
    ensure_eq!(wrong, 0, "words that were not incremented by each of {launches} launches");
    Ok(())
}

fn words(context: &Context) -> Verdict {
    let ((buffer, mapped), (gate_side, gate)) = (context.zeroed(SIZE)?, context.zeroed(4096)?);
    let byte = context.pattern().byte(0);
    let recorded = context.device().record(|stream| {
        stream.wait_value_u32(gate.slice(..4)?, 1, WaitCondition::Equal)?;
        stream.fill(&mapped, byte)?;
        stream.write_value_u32(gate.slice(4..8)?, 0xd00d)
    });
    let graph = recorded?;
    let stream = context.stream()?;
    for launch in 0..3 {
        buffer.write(0, &[0; SIZE])?;
        gate_side.write(0, &[0; 8])?;
        graph.launch(&stream)?;
        keeps_waiting(&stream, WATCH, format_args!("launch {launch} did not wait for its word"))?;
        buffer.verify_all(0, "behind a wait that is not met")?;
        gate_side.write(0, &1_u32.to_ne_bytes())?;
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
        buffer.verify_all(byte, "behind the wait")?;
        let mut word = [0; 4];
        gate_side.read(4, &mut word)?;
        ensure_eq!(u32::from_ne_bytes(word), 0xd00d, "the word that the graph writes");
    }
    Ok(())
}

fn in_order(context: &Context) -> Verdict {
    let ((buffer, mapped), (copied_side, copied)) = (context.zeroed(SIZE)?, context.zeroed(SIZE)?);
    let graph = record(context.device(), |stream| stream.copy(&copied, &mapped))?;
    let stream = context.stream()?;
    for launch in 0..100_u64 {
        let byte = context.pattern().byte(launch);
        stream.fill(&mapped, byte)?;
        graph.launch(&stream)?;
        stream.fill(&mapped, !byte)?;
        if launch % 10 == 0 {
            stream.synchronize_timeout(WAIT_TIMEOUT)?;
            copied_side.verify_all(byte, "the graph's copy between two fills")?;
            buffer.verify_all(!byte, "the fill behind the graph")?;
        }
    }
    Ok(stream.synchronize_timeout(WAIT_TIMEOUT)?)
}

fn keeps_objects(context: &Context) -> Verdict {
    let ((from_side, from), (to_side, to)) = (context.zeroed(SIZE)?, context.zeroed(SIZE)?);
    let device = context.open_again()?;
    let (own_from, own_to) = (import_on(&device, &*from_side)?, import_on(&device, &*to_side)?);
    drop((from, to));
    let graph = record(&device, |stream| stream.copy(&own_to, &own_from))?;
    let stream = device.create_stream()?;
    own_from.close()?;
    own_to.close()?;
    drop(device);
    let mut pattern = context.pattern();
    for launch in 0..3 {
        from_side.put(pattern)?;
        graph.launch(&stream)?;
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
        to_side.verify(pattern, &format!("launch {launch} after all that the graph uses was dropped"))?;
        pattern = pattern.other();
    }
    Ok(())
}

fn dropped_pending(context: &Context) -> Verdict {
    let ((buffer, mapped), (gate_side, gate)) = (context.zeroed(SIZE)?, context.zeroed(4096)?);
    let byte = context.pattern().byte(1);
    let graph = record(context.device(), |stream| stream.fill(&mapped, byte))?;
    let stream = context.stream()?;
    stream.wait_value_u32(gate.slice(..4)?, 1, WaitCondition::Equal)?;
    graph.launch(&stream)?;
    drop((graph, mapped));
    context.device().collect();
    std::thread::sleep(WATCH);
    buffer.verify_all(0, "the launch is behind a wait")?;
    gate_side.write(0, &1_u32.to_ne_bytes())?;
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    buffer.verify_all(byte, "the launch of a graph that was dropped meanwhile")
}

fn device_works_on(context: &Context) -> Verdict {
    let device = context.device();
    let ((from_side, from), (to_side, to)) = (context.zeroed(SIZE)?, context.zeroed(SIZE)?);
    let pattern = context.pattern();
    let other_side = context.buffer(SIZE as u64)?;
    // Imports a buffer, writes it, and drops the objects.
    let works = || -> Verdict {
        let mapped = context.import(&*other_side)?;
        let stream = device.create_stream()?;
        stream.write(&mapped, &pattern.bytes(0, SIZE))?;
        pattern.verify(0, &context.read(&stream, &mapped)?, "the data written during a recording")
    };
    let mut worked = Ok(());
    let graph = record(device, |stream| {
        stream.copy(to.slice(..4096)?, from.slice(..4096)?)?;
        worked = works().and_then(|()| {
            // The device's objects may be used from any thread.
            std::thread::scope(|scope| match scope.spawn(works).join() {
                Ok(worked) => worked,
                Err(_) => Err(Stop::failed("the other thread panicked".into())),
            })
        });
        stream.copy(to.slice(4096..)?, from.slice(4096..)?)
    });
    worked?;
    let graph = graph?;
    other_side.verify(pattern, "the data written during the recording")?;
    from_side.put(pattern.other())?;
    let stream = device.create_stream()?;
    graph.launch(&stream)?;
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    to_side.verify(pattern.other(), "the graph's copy")
}

fn refusals(context: &Context) -> Verdict {
    let device = context.device();
    let (buffer, mapped) = context.zeroed(SIZE)?;
    let (event, byte) = (device.create_event()?, context.pattern().byte(2));
    let other = record(device, |_| Ok(()))?;
    let mut refused = Ok(());
    let graph = record(device, |stream| {
        let one = mapped.slice(..1)?;
        let all: [(&str, Result<()>); 9] = [
            ("a synchronisation", stream.synchronize()),
            ("a bounded synchronisation", stream.synchronize_timeout(WATCH)),
            ("asking whether it is idle", stream.is_idle().map(drop)),
            ("recording an event", stream.record(&event)),
            ("waiting for an event", stream.wait_event(&event)),
            ("a blocking read", stream.read(one, &mut [0])),
            ("a blocking write", stream.write(one, &[9])),
            ("a host function", stream.launch_host_function(|| ())),
            ("the launch of a graph", other.launch(stream)),
        ];
        refused = all
            .into_iter()
            .try_for_each(|(what, result)| expect_error(result, ErrorKind::InvalidArgument, what).map(drop));
        stream.fill(&mapped, byte)
    })?;
    refused?;
    buffer.verify_all(0, "nothing was launched")?;
    let stream = device.create_stream()?;
    graph.launch(&stream)?;
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    buffer.verify_all(byte, "the fill that was recorded behind the rejected calls")
}

/// Abandons a recording.
fn give_up(device: &Device, mapped: &MappedBuffer) -> Verdict {
    let given_up = device.record(|stream| {
        stream.fill(mapped, 0xee)?;
        stream.fill(mapped.slice(SIZE as u64..=SIZE as u64)?, 0)
    });
    expect_error(given_up, ErrorKind::InvalidArgument, "a slice past the end").map(drop)
}

fn abandoned(context: &Context) -> Verdict {
    let (buffer, mapped) = context.zeroed(SIZE)?;
    give_up(context.device(), &mapped)?;
    let stream = context.stream()?;
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    buffer.verify_all(0, "a recording that was given up")?;
    let byte = context.pattern().byte(3);
    let graph = record(context.device(), |stream| stream.fill(&mapped, byte))?;
    graph.launch(&stream)?;
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    buffer.verify_all(byte, "the recording after it")
}

fn cycles(context: &Context) -> Verdict {
    let (buffer, mapped) = context.zeroed(SIZE)?;
    let stream = context.stream()?;
    leak_check(500, |cycle| {
        if cycle % 2 == 1 {
            return give_up(context.device(), &mapped);
        }
        let byte = context.pattern().byte(u64::from(cycle));
        let graph = record(context.device(), |stream| stream.fill(&mapped, byte))?;
        graph.launch(&stream)?;
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
        if cycle % 100 == 0 {
            buffer.verify_all(byte, "the graph's fill")?;
        }
        Ok(())
    })
}
