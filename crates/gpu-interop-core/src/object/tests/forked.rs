//! Objects in a forked child process: each use is an error, and neither the driver nor the exporter is called.

use std::any::TypeId;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::exported::{memory_request, semaphore_request};
use super::recorder::{Recorder, everything, gpu};
use super::{SIZE, binary, exported, mapped, opaque, open_on, timeline};
use crate::PollingWaiter;
use crate::array::{ArrayFormat, ArrayShape, ArrayUsage, ChannelType, MipmappedArrayDesc};
use crate::backend::WaitCondition;
use crate::error::{ErrorKind, Result};
use crate::handle::NvSciSyncAttrList;
use crate::kernel::{LaunchConfig, ModuleImage};
use crate::nv_sci::NvSciSyncUse;
use crate::object::{PitchedTexels, SignalBatch, Timeline, WaitBatch};
use crate::texture::TextureDesc;
use crate::timeline::{ExporterTimeline, TimelineStrategy, TimelineWaiter};

/// Counts its calls.
#[derive(Debug, Default)]
struct Counter(AtomicUsize);

impl ExporterTimeline for Counter {
    fn value(&self) -> Result<u64> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(0)
    }

    fn signal(&self, _value: u64) -> Result<()> {
        self.value().map(drop)
    }

    fn wait(&self, _value: u64, _timeout: Duration) -> Result<()> {
        self.value().map(drop)
    }

    fn waiter(&self) -> Result<Box<dyn TimelineWaiter>> {
        Ok(Box::new(PollingWaiter::new(TypeId::of::<Self>())))
    }
}

const LONG: Duration = Duration::from_secs(20);
const FINE: i32 = 200;

#[test]
#[allow(clippy::too_many_lines)] // One row for each operation.
fn every_use_is_an_error_without_a_call() {
    let (recorder, device) = open_on(Recorder::with_capabilities(gpu(1), everything()));
    let stream = device.create_stream().expect("stream");
    let (buffer, event) = (mapped(&device), device.create_event().expect("event"));
    let (one, two) = (timeline(&device), binary(&device));
    let (mut signals, waits) = (SignalBatch::new([&one]).expect("batch"), WaitBatch::new([&one, &two]).expect("batch"));
    signals.fill(7);
    let graph = device.record(|stream| stream.signal(&[one.signal_value(5)])).expect("graph");
    let waiting = device.record(|stream| stream.wait(&[one.wait_value(5)])).expect("graph");
    let memory = device.import_memory(opaque(SIZE)).expect("import");
    let format = ArrayFormat::new(ChannelType::Uint8, 1).expect("one channel");
    let desc = MipmappedArrayDesc::new(ArrayShape::D2 { width: 16, height: 16 }, format);
    let desc = desc.with_usage(ArrayUsage::SURFACE_LOAD_STORE);
    let array = memory.map_mipmapped_array(&desc).expect("array");
    let region = array.level(0).expect("level");
    let texels = || PitchedTexels::new(buffer.slice(..256).expect("inside"), 16, 16);
    let module = device.load_module(ModuleImage::Builtin).expect("module");
    let kernel = module.kernel(c"fill").expect("kernel");
    let exportable = device.allocate_exportable(64).expect("memory");
    let exporter = Arc::new(Counter::default());
    let new = |strategy| Timeline::with_strategy(&device, exporter.clone(), strategy);
    let bridged = new(TimelineStrategy::HostBridge).expect("timeline");
    let word = || buffer.slice(..4).expect("inside");
    let wide = || buffer.slice(..8).expect("inside");
    let (request, semaphore) = (opaque(SIZE), semaphore_request(exported::binary("binary")));
    let equal = WaitCondition::Equal;
    let mut bytes = [0; 4];
    let mut square = [0; 256];
    let host = bytes.as_mut_ptr();
    // SAFETY: the recorder never dereferences it.
    let attributes = unsafe { NvSciSyncAttrList::from_raw(std::ptr::NonNull::dangling()) };
    let config = LaunchConfig::linear(1);
    let (before, asked) = (recorder.calls().len(), exporter.0.load(Ordering::SeqCst));

    // SAFETY: the child makes the calls under test, on objects whose locks no other thread has, and ends without
    // destructors.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let mut outcomes: Vec<Result<()>> = vec![
            stream.fill(&buffer, 1),
            stream.fill_u32(&buffer, 1),
            stream.copy(buffer.slice(..4).expect("inside"), buffer.slice(4..8).expect("inside")),
            stream.read(word(), &mut bytes),
            stream.write(word(), &[0; 4]),
            // SAFETY: nothing is enqueued.
            unsafe { stream.read_async(word(), host) },
            // SAFETY: as above.
            unsafe { stream.write_async(word(), host) },
            stream.wait_value_u32(word(), 1, equal),
            stream.wait_value_u64(wide(), 1, equal),
            stream.write_value_u32(word(), 1),
            stream.write_value_u64(wide(), 1),
            stream.signal(&[one.signal_value(1)]),
            stream.signal(&[one.signal_value(1), two.signal()]),
            stream.wait(&[one.wait_value(1)]),
            stream.wait(&[one.wait_value(1), two.wait()]),
            stream.signal_prepared(&mut signals),
            stream.wait_prepared(&waits),
            stream.record(&event),
            stream.wait_event(&event),
            // SAFETY: as above.
            unsafe { stream.launch(&kernel, &config, &[]) },
            stream.launch_host_function(|| ()),
            stream.copy_to_array(region, texels()),
            stream.copy_from_array(texels(), region),
            stream.copy_array(region, region),
            stream.read_array(region, &mut square),
            stream.write_array(region, &[0; 256]),
            stream.synchronize(),
            stream.synchronize_timeout(LONG),
            stream.is_idle().map(drop),
            event.is_complete().map(drop),
            graph.launch(&stream),
            graph.set_signals(0, &[one.signal_value(9)]),
            waiting.set_waits(0, &[one.wait_value(9)]),
            memory.map_buffer(..).map(drop),
            memory.map_image_bytes(..).map(drop),
            memory.map_mipmapped_array(&desc).map(drop),
            array.level(0).map(drop),
            array.surface(0).map(drop),
            array.texture(&TextureDesc::new().with_normalized_coordinates(true)).map(drop),
            array.texture_of_level(0, &TextureDesc::new()).map(drop),
            module.kernel(c"fill").map(drop),
            exportable.export().map(drop),
            exportable.import_request().map(drop),
            device.create_stream().map(drop),
            device.create_event().map(drop),
            device.record(|_| Ok(())).map(drop),
            device.load_module(ModuleImage::Builtin).map(drop),
            device.allocate_exportable(64).map(drop),
            device.fill_nv_sci_sync_attributes(attributes, NvSciSyncUse::SIGNAL),
            device.import_memory(request).map(drop).map_err(Into::into),
            device.import_semaphore(semaphore).map(drop).map_err(Into::into),
            new(TimelineStrategy::HostBridge).map(drop),
            new(TimelineStrategy::Native).map(drop),
            stream.wait_timeline(&bridged, 1),
            stream.signal_timeline(&bridged, 1),
            bridged.value().map(drop),
            bridged.is_reached(1).map(drop),
            bridged.wait(1, LONG),
            bridged.signal(1),
            bridged.watch_process(1),
            bridged.abandon("over"),
        ];
        device.collect();
        let refused = |outcome: &Result<()>| {
            outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::System && error.message().contains("forked"))
        };
        let accepted = outcomes.iter().position(|outcome| !refused(outcome));
        outcomes.clear();
        drop((graph, waiting, event, bridged, exportable));
        let called = recorder.calls().len() != before || exporter.0.load(Ordering::SeqCst) != asked;
        let status = accepted.map_or(if called { FINE + 1 } else { FINE }, |index| i32::try_from(index).unwrap_or(0));
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: the status is a valid integer, and the child is this process's.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "the child ended with {status:#x}");
    let status = libc::WEXITSTATUS(status);
    assert_eq!(status, FINE, "below {FINE}: the operation of this number was no error; above: something was called");
    // The parent continues.
    stream.fill(&buffer, 1).expect("fill");
    drop(memory_request(exported::memory("memory"), SIZE));
}
