//! Data in both directions, every byte checked.

use gpu_interop::{KernelArg, LaunchConfig};
use gpu_interop_kernels::{FILL_PATTERN, INCREMENT, VERIFY_PATTERN};

use crate::context::Context;
use crate::exporter::{BufferSpec, Placement};
use crate::image::for_each;
use crate::outcome::{Stop, Verdict};
use crate::pattern::compare;
use crate::scenario::scenarios;
use crate::system::handle_limit;
use crate::{ensure_eq, pattern};

scenarios! {
    "memory.read_device_local", Any, "The device reads the exporter's data in device-local memory.",
        |context| read_from(context, spec(Placement::DeviceLocal)), mirrors("hip-tests: hipExternalMemoryGetMappedBuffer_Vulkan_Positive_Read_Write_Device_Memory");
    "memory.write_device_local", Any, "The exporter reads the device's data in device-local memory.",
        |context| write_to(context, spec(Placement::DeviceLocal)), mirrors("hip-tests: hipExternalMemoryGetMappedBuffer_Vulkan_Positive_Read_Write_Device_Memory");
    "memory.read_host_visible", Any, "The device reads the exporter's data in host-visible memory.",
        |context| read_from(context, spec(Placement::HostVisible)), needs [exporter HostVisible], mirrors("hip-tests: hipExternalMemoryGetMappedBuffer_Vulkan_Positive_Read_Write");
    "memory.write_host_visible", Any, "The exporter reads the device's data in host-visible memory.",
        |context| write_to(context, spec(Placement::HostVisible)), needs [exporter HostVisible], mirrors("hip-tests: hipExternalMemoryGetMappedBuffer_Vulkan_Positive_Read_Write");
    "memory.round_trip", Any, "Data goes back and forth 20 times, changed by each side.", round_trip,
        mirrors("intel/llvm: vulkan_interop/buffer_usm");
    "memory.dedicated", Any, "A dedicated allocation works in both directions.", dedicated, needs [exporter Dedicated];
    "memory.fill", Any, "The exporter sees the device's fills with bytes and words.", fill;
    "memory.compressible", Any, "Data that GPUs compress goes both ways, in memory of every placement.", compressible;
    "memory.copy_between_imports", Any, "The device copies from one import to another.", copy_between_imports;
    "memory.kernel_reads", Any, "A kernel counts no mismatch in the exporter's data, and one after one byte is changed.",
        kernel_reads, needs [Kernels],
        mirrors("OpenCL-CTS: test_buffer_single_queue; intel/llvm: vulkan_interop/vulkan_sycl_buffer");
    "memory.kernel_writes", Any, "The exporter reads words that kernels wrote and incremented.", kernel_writes,
        needs [Kernels], mirrors("OpenCL-CTS: test_buffer_single_queue; intel/llvm: vulkan_interop/vulkan_sycl_buffer");
    "memory.import_twice", Any, "An allocation imported twice is the same memory.", import_twice,
        mirrors("OpenCL-CTS: test_buffer_multiImport_sameCtx");
    "memory.two_devices", Any, "An allocation imported by the device opened twice is the same memory.", two_devices,
        mirrors("OpenCL-CTS: test_buffer_multiImport_diffCtx");
    "memory.many_imports", Any, "200 imports are alive at once, each with its own data.", many_imports,
        mirrors("ONNX Runtime: MultipleMemoryImports");
}

const SIZE: usize = 1 << 20;

fn read_from(context: &Context, spec: BufferSpec) -> Verdict {
    let buffer = context.exporter()?.buffer(spec)?;
    let mapped = context.import(&*buffer)?;
    let stream = context.stream()?;
    for pattern in [context.pattern(), context.pattern().other()] {
        buffer.put(pattern)?;
        pattern.verify(0, &context.read(&stream, &mapped)?, "the exporter's data")?;
    }
    Ok(())
}

fn write_to(context: &Context, spec: BufferSpec) -> Verdict {
    let buffer = context.exporter()?.buffer(spec)?;
    let mapped = context.import(&*buffer)?;
    let stream = context.stream()?;
    for pattern in [context.pattern(), context.pattern().other()] {
        stream.write(&mapped, &pattern.bytes(0, SIZE))?;
        buffer.verify(pattern, "the device's data")?;
    }
    Ok(())
}

fn spec(placement: Placement) -> BufferSpec {
    BufferSpec { placement, ..BufferSpec::new(SIZE as u64) }
}

/// A side that compresses the memory of its writes must not read the other side's data as compressed.
fn compressible(context: &Context) -> Verdict {
    let stream = context.stream()?;
    let placed = [Placement::DeviceLocal, Placement::HostVisible].map(spec);
    let variants = [placed[0], BufferSpec { dedicated: true, ..placed[0] }, placed[1]];
    for_each(
        |what| context.leave_out(what),
        &variants,
        false,
        |spec| {
            let buffer = context.exporter()?.buffer(spec)?;
            let mapped = context.import(&*buffer)?;
            for round in 0..4 {
                let [sent, returned] = [2 * round, 2 * round + 3].map(|round| pattern::compressible(round, SIZE));
                buffer.write(0, &sent)?;
                let found = context.read(&stream, &mapped)?;
                compare(&found, &sent, format_args!("round {round} of {spec:?}: the exporter's data"))?;
                stream.write(&mapped, &returned)?;
                let found = buffer.contents()?;
                compare(&found, &returned, format_args!("round {round} of {spec:?}: the device's data"))?;
            }
            Ok(())
        },
    )
}

fn dedicated(context: &Context) -> Verdict {
    let spec = BufferSpec { dedicated: true, ..spec(Placement::DeviceLocal) };
    let probe = context.exporter()?.buffer(spec)?;
    ensure_eq!(probe.import_request()?.is_dedicated(), true, "the request's dedicated flag");
    read_from(context, spec)?;
    write_to(context, spec)
}

fn round_trip(context: &Context) -> Verdict {
    let (buffer, mapped) = context.shared(SIZE)?;
    let stream = context.stream()?;
    let mut pattern = context.pattern();
    for round in 0..10 {
        buffer.put(pattern)?;
        pattern.verify(0, &context.read(&stream, &mapped)?, format_args!("round {round}, to the device"))?;
        pattern = pattern.other();
        stream.write(&mapped, &pattern.bytes(0, SIZE))?;
        buffer.verify(pattern, &format!("round {round}, to the exporter"))?;
        pattern = pattern.other();
    }
    Ok(())
}

fn fill(context: &Context) -> Verdict {
    let (buffer, mapped) = context.shared(SIZE)?;
    let stream = context.stream()?;
    stream.fill(&mapped, 0xa5)?;
    stream.fill_u32(mapped.slice(4096..8192)?, 0x0102_0304)?;
    stream.fill(mapped.slice(10_001..10_004)?, 0x5a)?;
    stream.synchronize()?;
    let found = buffer.contents()?;
    let mut expected = vec![0xa5; SIZE];
    for word in expected[4096..8192].chunks_exact_mut(4) {
        word.copy_from_slice(&0x0102_0304_u32.to_ne_bytes());
    }
    expected[10_001..10_004].fill(0x5a);
    let differing = found.iter().zip(&expected).filter(|(found, expected)| found != expected).count();
    ensure_eq!(differing, 0, "bytes that differ from the fills");
    Ok(())
}

fn copy_between_imports(context: &Context) -> Verdict {
    let (source, target) = (context.buffer(SIZE as u64)?, context.buffer(SIZE as u64)?);
    let pattern = context.pattern();
    source.put(pattern)?;
    target.write(0, &vec![0; SIZE])?;
    let (from, to) = (context.import(&*source)?, context.import(&*target)?);
    let stream = context.stream()?;
    stream.copy(&to, &from)?;
    stream.synchronize()?;
    target.verify(pattern, "the copy")?;
    source.verify(pattern, "the source")
}

fn kernel_reads(context: &Context) -> Verdict {
    let module = context.kernels()?;
    let (buffer, counter) = (context.buffer(SIZE as u64)?, context.buffer(4096)?);
    let pattern = context.pattern();
    let (mapped, count) = (context.import(&*buffer)?, context.import(&*counter)?);
    let stream = context.stream()?;
    let verify = module.kernel(VERIFY_PATTERN.name)?;
    let words = SIZE as u64 / 4;
    for planted in [0_u8, 1] {
        let mut data = pattern.bytes(0, SIZE);
        data[SIZE / 2] ^= planted;
        buffer.write(0, &data)?;
        counter.write(0, &[0; 4096])?;
        let args =
            [KernelArg::from(&mapped), KernelArg::U64(words), KernelArg::U32(pattern.seed()), KernelArg::from(&count)];
        // SAFETY: the arguments are those of `verify_pattern`, and both mappings outlive the synchronisation.
        unsafe { stream.launch(&verify, &LaunchConfig::linear(words), &args) }?;
        stream.synchronize()?;
        let mut found = [0; 4];
        counter.read(0, &mut found)?;
        ensure_eq!(u32::from_ne_bytes(found), u32::from(planted), "mismatches that the kernel counted");
    }
    Ok(())
}

fn kernel_writes(context: &Context) -> Verdict {
    let module = context.kernels()?;
    let buffer = context.buffer(SIZE as u64)?;
    let pattern = context.pattern();
    let mapped = context.import(&*buffer)?;
    let stream = context.stream()?;
    let words = SIZE as u64 / 4;
    let config = LaunchConfig::linear(words);
    let args = [KernelArg::from(&mapped), KernelArg::U64(words), KernelArg::U32(pattern.seed())];
    // SAFETY: the arguments are those of the kernels, and the mapping outlives the synchronisation.
    unsafe { stream.launch(&module.kernel(FILL_PATTERN.name)?, &config, &args) }?;
    stream.synchronize()?;
    buffer.verify(pattern, "the kernel's data")?;
    // SAFETY: as above.
    unsafe { stream.launch(&module.kernel(INCREMENT.name)?, &config, &args[..2]) }?;
    stream.synchronize()?;
    let mut found = buffer.contents()?;
    for word in found.chunks_exact_mut(4) {
        let value = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
        word.copy_from_slice(&value.wrapping_sub(1).to_ne_bytes());
    }
    pattern.verify(0, &found, "the incremented words, less 1")
}

fn import_twice(context: &Context) -> Verdict {
    let buffer = context.buffer(SIZE as u64)?;
    let pattern = context.pattern();
    let (first, second) = (context.import(&*buffer)?, context.import(&*buffer)?);
    let stream = context.stream()?;
    stream.write(&first, &pattern.bytes(0, SIZE))?;
    drop(first);
    pattern.verify(0, &context.read(&stream, &second)?, "the first import's data")?;
    buffer.verify(pattern, "the first import's data, on the exporter's side")
}

fn two_devices(context: &Context) -> Verdict {
    let again = context.open_again()?;
    let buffer = context.buffer(SIZE as u64)?;
    let pattern = context.pattern();
    let here = context.import(&*buffer)?;
    let there = again.import_memory(buffer.import_request()?)?.map_buffer(0..SIZE as u64)?;
    let (stream_here, stream_there) = (context.stream()?, again.create_stream()?);
    stream_here.write(&here, &pattern.bytes(0, SIZE))?;
    pattern.verify(0, &context.read(&stream_there, &there)?, "the first device's data")?;
    // The two devices are the same hardware, but their objects must not be mixed.
    match stream_here.fill(&there, 0) {
        Err(error) if error.kind() == gpu_interop::ErrorKind::InvalidArgument => {}
        other => return Err(Stop::failed(format!("a stream took memory of another device: {other:?}"))),
    }
    buffer.verify(pattern, "the data after the rejected fill")
}

fn many_imports(context: &Context) -> Verdict {
    const COUNT: u32 = 200;
    let limit = handle_limit();
    if limit < 2000 {
        return Err(Stop::skipped(format!("needs about 1,000 descriptors; this process may have {limit} (ulimit -n)")));
    }
    let stream = context.stream()?;
    let mut live = Vec::new();
    for index in 0..COUNT {
        let buffer = context.buffer(4096)?;
        let pattern = crate::pattern::Pattern::new(context.pattern().seed().wrapping_add(index));
        buffer.put(pattern)?;
        live.push((context.import(&*buffer)?, buffer, pattern));
    }
    for (index, (mapped, _, pattern)) in live.iter().enumerate() {
        pattern.verify(0, &context.read(&stream, mapped)?, format_args!("import {index}"))?;
    }
    Ok(())
}
