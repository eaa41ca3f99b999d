//! Memory shared with other processes.

use crate::context::Context;
use crate::exporter::ExportedBuffer;
use crate::outcome::{Stop, Verdict};
use crate::peer::Channel;
use crate::scenario::{Role, scenarios};
use crate::{ensure_eq, system};

scenarios! {
    "process.import_sent_fd", Any,
        "Another process imports a descriptor that it was sent, verifies every byte and writes back.", import_sent_fd,
        mirrors("cuda-samples: dmabufInterop, between processes");
    "process.exporter_killed", Any,
        "The exporting process is killed during work on its memory: the data stays, reads and writes work.",
        exporter_killed;
    "process.importer_killed", Any,
        "The importing process is killed during its work: the exporter's memory stays usable.", importer_killed;
    "process.handles_not_inherited", Any, "Child processes do not inherit exported descriptors.", handles_not_inherited;
}

pub(super) const ROLES: &[(&str, Role)] = &[
    ("import-and-answer", import_and_answer),
    ("export-and-hang", export_and_hang),
    ("import-and-write-forever", import_and_write_forever),
];

const SIZE: usize = 1 << 20;

/// Sends a handle's descriptor with the size that the importer must use.
fn send_handle(channel: &Channel, what: &str, buffer: &dyn ExportedBuffer) -> Verdict {
    let request = buffer.import_request()?;
    let size = request.size();
    let handle = system::of_memory(request.handle())
        .ok_or_else(|| Stop::unsupported("handles of this exporter cannot be sent to another process".into()))?;
    channel.send(what, size, &[handle])
}

fn receive_memory(context: &Context, channel: &Channel, what: &str) -> Verdict<gpu_interop::MappedBuffer> {
    let (size, handle) = channel.receive_handle(what)?;
    let request = context.exporter()?.sent_memory(handle, size);
    Ok(context.device().import_memory(request)?.map_buffer(0..SIZE as u64)?)
}

fn import_sent_fd(context: &Context) -> Verdict {
    let (buffer, pattern) = (context.written(SIZE)?, context.pattern());
    let peer = context.spawn_peer("import-and-answer")?;
    send_handle(peer.channel(), "memory", &*buffer)?;
    peer.channel().receive("answered")?;
    buffer.verify(pattern.other(), "the other process's data")?;
    peer.join()
}

fn import_and_answer(context: &Context, channel: &Channel) -> Verdict {
    let mapped = receive_memory(context, channel, "memory")?;
    let stream = context.stream()?;
    let pattern = context.pattern();
    pattern.verify(0, &context.read(&stream, &mapped)?, "data in the other process")?;
    stream.write(&mapped, &pattern.other().bytes(0, SIZE))?;
    channel.send("answered", 0, &[])
}

fn exporter_killed(context: &Context) -> Verdict {
    let peer = context.spawn_peer("export-and-hang")?;
    let mapped = receive_memory(context, peer.channel(), "memory")?;
    let stream = context.stream()?;
    let pattern = context.pattern();
    pattern.verify(0, &context.read(&stream, &mapped)?, "data before the exporter is killed")?;
    // Work is pending when the exporter is killed.
    for _ in 0..50 {
        stream.fill(&mapped, 0)?;
    }
    peer.kill()?;
    stream.synchronize()?;
    let other = pattern.other();
    stream.write(&mapped, &other.bytes(0, SIZE))?;
    other.verify(0, &context.read(&stream, &mapped)?, "data written after the exporter was killed")
}

fn export_and_hang(context: &Context, channel: &Channel) -> Verdict {
    let buffer = context.buffer(SIZE as u64)?;
    buffer.put(context.pattern())?;
    send_handle(channel, "memory", &*buffer)?;
    hang()
}

/// Waits for its own termination, for a limited time.
fn hang() -> Verdict {
    std::thread::sleep(std::time::Duration::from_secs(60));
    Err(Stop::failed("this process was not killed".into()))
}

fn importer_killed(context: &Context) -> Verdict {
    let buffer = context.buffer(SIZE as u64)?;
    buffer.write(0, &[0; SIZE])?;
    let peer = context.spawn_peer("import-and-write-forever")?;
    send_handle(peer.channel(), "memory", &*buffer)?;
    peer.channel().receive("writing")?;
    peer.kill()?;
    let pattern = context.pattern();
    buffer.put(pattern)?;
    let mapped = context.import(&*buffer)?;
    let stream = context.stream()?;
    pattern.verify(0, &context.read(&stream, &mapped)?, "data after the other importer was killed")
}

fn import_and_write_forever(context: &Context, channel: &Channel) -> Verdict {
    let mapped = receive_memory(context, channel, "memory")?;
    let stream = context.stream()?;
    channel.send("writing", 0, &[])?;
    let start = std::time::Instant::now();
    while start.elapsed().as_secs() < 60 {
        stream.fill(&mapped, 0xee)?;
        stream.synchronize()?;
    }
    Err(Stop::failed("this process was not killed".into()))
}

fn handles_not_inherited(context: &Context) -> Verdict {
    let before = system::handles_in_a_program()?;
    let buffer = context.buffer(4096)?;
    let handles: Vec<_> = (0..16).map(|_| buffer.import_request()).collect::<Verdict<_>>()?;
    ensure_eq!(
        system::handles_in_a_program()?,
        before,
        "descriptors or handles in a started program while {} handles are open",
        handles.len()
    );
    Ok(())
}
