//! Another library of the process resets the device (`cudaDeviceReset`, `hipDeviceReset`).

use std::time::Instant;

use gpu_interop::{
    Device, ErrorKind, Event, ExportableMemory, ExternalMemory, Feature, Graph, MappedBuffer, Module, Stream,
    WaitCondition,
};

use super::expect_error;
use crate::backend_under_test::DriverApi;
use crate::context::{Context, import_on};
use crate::exporter::ExportedBuffer;
use crate::other_library::OtherLibrary;
use crate::outcome::{Verdict, WAIT_TIMEOUT};
use crate::scenario::scenarios;
use crate::{ensure, ensure_eq};

scenarios! {
    all need [exporter SurvivesReset, driver Reset];
    "reset.objects", Any,
        "After another library has reset the device, every call with an object of before returns a typed error, also once \
         that library uses the device again; dropping the objects leaves its memory, and a device opened again works.",
        objects, last_in_process;
    "reset.dropped", Any,
        "Objects dropped without a call between the reset by another library and its next use leave its memory.", dropped,
        last_in_process;
    "reset.pending", Any,
        "A reset while a stream waits for a word: the wait's device is lost, and dropping everything ends in bounded time.",
        pending, needs [StreamMemoryOperations32], last_in_process;
}

const SIZE: usize = 64 << 10;

/// Objects of a device that another library resets.
struct Objects {
    device: Device,
    memory: ExternalMemory,
    mapped: MappedBuffer,
    exportable: Option<ExportableMemory>,
    module: Option<Module>,
    graph: Option<Graph>,
    event: Event,
    stream: Stream,
}

impl Objects {
    fn new(context: &Context, buffer: &dyn ExportedBuffer) -> Verdict<Self> {
        let device = context.open_again()?;
        let (memory, mapped) = (device.import_memory(buffer.import_request()?)?, import_on(&device, buffer)?);
        let exportable = survives_reset(context)?.then(|| device.allocate_exportable(SIZE as u64)).transpose()?;
        let module = context.has(Feature::Kernels).then(|| context.kernels()).transpose()?;
        let fill = |stream: &Stream| stream.fill(&mapped, 0x11);
        let graph = context.has(Feature::Graphs).then(|| device.record(fill)).transpose()?;
        let (event, stream) = (device.create_event()?, device.create_stream()?);
        stream.fill(&mapped, 0x22)?;
        if let Some(exportable) = &exportable {
            stream.copy(exportable.slice(..SIZE as u64)?, &mapped)?;
        }
        stream.record(&event)?;
        stream.synchronize()?;
        buffer.verify_all(0x22, "the fill before the reset")?;
        Ok(Self { device, memory, mapped, exportable, module, graph, event, stream })
    }

    /// Checks that every call fails because of the reset.
    fn are_lost(&self, buffer: &dyn ExportedBuffer) -> Verdict {
        let (device, stream, mut bytes) = (&self.device, &self.stream, [0; 16]);
        let lost = |what: &str, result: gpu_interop::Result<()>| -> Verdict {
            let error = expect_error(result, ErrorKind::DeviceLost, what)?;
            ensure!(error.message().contains("reset"), "{what}: the error does not name the reset: {error}");
            Ok(())
        };
        lost("a query of a stream", stream.is_idle().map(drop))?;
        lost("a fill", stream.fill(&self.mapped, 0x33))?;
        lost("a read", stream.read(self.mapped.slice(..16)?, &mut bytes))?;
        lost("a write", stream.write(self.mapped.slice(..16)?, &bytes))?;
        lost("a copy", stream.copy(self.mapped.slice(..16)?, self.mapped.slice(16..32)?))?;
        lost("a synchronisation", stream.synchronize())?;
        lost("a record of an event", stream.record(&self.event))?;
        lost("a wait for an event", stream.wait_event(&self.event))?;
        lost("a mapping", self.memory.map_buffer(..).map(drop))?;
        lost("a new stream", device.create_stream().map(drop))?;
        lost("a new event", device.create_event().map(drop))?;
        lost("an import", device.import_memory(buffer.import_request()?).map(drop).map_err(|it| it.into_parts().0))?;
        if let Some(exportable) = &self.exportable {
            lost("an export", exportable.export().map(drop))?;
            lost("a new allocation", device.allocate_exportable(SIZE as u64).map(drop))?;
        }
        if let Some(module) = &self.module {
            lost("a look-up of a kernel", module.kernel(c"fill").map(drop))?;
        }
        self.graph.iter().try_for_each(|graph| lost("a launch of a graph", graph.launch(stream)))
    }
}

/// `true` if exportable memory is tested. AMD's runtime 6.4.3 crashes at the end of a process in which such memory is still
/// mapped, with and without a reset, and on machines with one device also when it is unmapped after a reset.
fn survives_reset(context: &Context) -> Verdict<bool> {
    let is_cuda = context.driver_api()? == DriverApi::Cuda;
    if !is_cuda {
        context.leave_out("exportable memory: some of AMD's runtimes crash with memory that was mapped before a reset");
    }
    Ok(is_cuda && context.has(Feature::ExportableMemory))
}

/// Checks that a device opened again shares data.
fn works_again(context: &Context) -> Verdict {
    let (device, buffer) = (context.open_again()?, context.buffer(SIZE as u64)?);
    let (mapped, stream) = (import_on(&device, &*buffer)?, device.create_stream()?);
    stream.fill(&mapped, 0x44)?;
    stream.synchronize()?;
    buffer.verify_all(0x44, "a fill by the device opened again")
}

fn objects(context: &Context) -> Verdict {
    let mut other = OtherLibrary::of(context)?;
    let buffer = context.buffer(SIZE as u64)?;
    let objects = Objects::new(context, &*buffer)?;
    other.reset()?;
    objects.are_lost(&*buffer)?;
    other.begin(context.pattern())?;
    objects.are_lost(&*buffer)?;
    buffer.verify_all(0x22, "the exporter's buffer after the reset")?;
    drop(objects);
    works_again(context)?;
    other.end(context.pattern())
}

fn dropped(context: &Context) -> Verdict {
    let mut other = OtherLibrary::of(context)?;
    let buffer = context.buffer(SIZE as u64)?;
    let objects = Objects::new(context, &*buffer)?;
    other.reset()?;
    other.begin(context.pattern())?;
    drop(objects);
    other.end(context.pattern())?;
    works_again(context)
}

fn pending(context: &Context) -> Verdict {
    let mut other = OtherLibrary::of(context)?;
    let (buffer, word) = (context.buffer(SIZE as u64)?, context.buffer(4096)?);
    word.write(0, &[0; 4096])?;
    let objects = Objects::new(context, &*buffer)?;
    let mapped = import_on(&objects.device, &*word)?;
    objects.stream.wait_value_u32(mapped.slice(..4)?, 1, WaitCondition::GreaterOrEqual)?;
    objects.stream.fill(&objects.mapped, 0x33)?;
    // A driver may wait for the stream when it resets the device.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(crate::outcome::WATCH);
            word.write(0, &1_u32.to_ne_bytes())
        });
        other.reset()
    })?;
    expect_error(objects.stream.synchronize_timeout(WAIT_TIMEOUT), ErrorKind::DeviceLost, "the wait")?;
    other.begin(context.pattern())?;
    let start = Instant::now();
    drop((mapped, objects));
    let taken = start.elapsed();
    ensure!(taken < WAIT_TIMEOUT, "dropping everything took {taken:?}");
    ensure_eq!(word.word(0)?, 1, "the exporter's word");
    works_again(context)?;
    other.end(context.pattern())
}
