//! NvSciBuf and NvSciSync.

pub(super) mod memory;
pub(super) mod misuse;
pub(super) mod sync;

use gpu_interop::nvsci::{
    Buffer, BufferAttributeList, BufferAttributes, BufferModule, GpuAttributes, ImportedSync, NvSci, SyncAttributeList,
    SyncModule, SyncOptions,
};
use gpu_interop::{ErrorKind, MappedBuffer, NvSciSyncUse, Uuid};

use crate::context::Context;
use crate::outcome::{Stop, Verdict};

/// Open modules of both libraries, and the device's id.
struct Rig {
    buffers: BufferModule,
    syncs: SyncModule,
    gpu: Uuid,
}

impl Rig {
    /// Unsupported without the libraries, or if the device does not import their objects.
    fn open(context: &Context) -> Verdict<Self> {
        let nv_sci = NvSci::load().map_err(|error| match error.kind() {
            ErrorKind::DriverNotFound => Stop::unsupported(error.to_string()),
            _ => error.into(),
        })?;
        if nv_sci.is_simulated() && !context.device().backend().simulated {
            return Err(Stop::unsupported("NvSci is simulated here; a real driver does not import its objects".into()));
        }
        let uuid = context.device().identity().uuid;
        let gpu =
            uuid.ok_or_else(|| Stop::unsupported("the device has no UUID, by which NvSci identifies GPUs".into()))?;
        Ok(Self { buffers: nv_sci.open_buffers()?, syncs: nv_sci.open_syncs()?, gpu })
    }

    /// A raw buffer for the device, and for the CPU with its caches.
    fn shared(&self, size: u64) -> BufferAttributes {
        BufferAttributes::raw(size).cpu_access(true).cpu_cache(true).gpu(GpuAttributes::new(self.gpu))
    }

    fn list(&self, attributes: &BufferAttributes) -> Verdict<BufferAttributeList> {
        Ok(BufferAttributeList::new(&self.buffers, attributes)?)
    }

    /// Allocates a buffer from one list.
    fn allocate(&self, attributes: &BufferAttributes) -> Verdict<Buffer> {
        Ok(BufferAttributeList::reconcile(&[&self.list(attributes)?])?.allocate()?)
    }

    /// A list of the device.
    fn for_device(&self, context: &Context, uses: NvSciSyncUse, options: SyncOptions) -> Verdict<SyncAttributeList> {
        Ok(SyncAttributeList::for_device(&self.syncs, context.device(), uses, options)?)
    }

    /// An object with the device as signaller, and the device and the CPU as waiters.
    fn device_signals(&self, context: &Context, options: SyncOptions) -> Verdict<ImportedSync> {
        let signaller = self.for_device(context, NvSciSyncUse::SIGNAL, options)?;
        let waiter = self.for_device(context, NvSciSyncUse::WAIT, options)?;
        let cpu = SyncAttributeList::for_cpu(&self.syncs, NvSciSyncUse::WAIT, options)?;
        let object = SyncAttributeList::reconcile(&[&signaller, &waiter, &cpu])?.allocate()?;
        Ok(object.import(context.device())?)
    }
}

fn import(context: &Context, buffer: &Buffer) -> Verdict<MappedBuffer> {
    Ok(context.device().import_memory(buffer.import_request())?.map_buffer(..)?)
}
