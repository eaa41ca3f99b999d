//! Calls recorded by the mock backend; objects, descriptors and frees, modelled after drivers.

#[cfg(unix)]
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

use super::{Object, Recorder, next};
use crate::array::MipmappedArrayDesc;
use crate::backend::{
    ArrayCopySide, DevicePtr, RawAllocation, RawArray, RawEvent, RawGraph, RawGraphNode, RawKernel, RawMemory,
    RawMipmappedArray, RawModule, RawSemaphore, RawSignal, RawStream, RawSurface, RawTexture, RawWait, TextureSource,
    WaitCondition,
};
use crate::error::Result;
#[cfg(unix)]
use crate::handle::LentFd;
use crate::handle::{MemoryHandle, MemoryHandleKind, SemaphoreHandle, SemaphoreHandleKind};
use crate::kernel::LaunchConfig;
use crate::nv_sci::NvSciSyncUse;
use crate::texture::TextureDesc;

/// A side of a copy; of host memory the layout only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Side {
    Host { row_pitch: u64, rows: u64 },
    Linear { ptr: DevicePtr, row_pitch: u64, rows: u64 },
    Array { raw: RawArray, offset: [u64; 3] },
}

impl From<ArrayCopySide> for Side {
    fn from(side: ArrayCopySide) -> Self {
        match side {
            ArrayCopySide::Host { row_pitch, rows, .. } => Self::Host { row_pitch, rows },
            ArrayCopySide::Linear { ptr, row_pitch, rows } => Self::Linear { ptr, row_pitch, rows },
            ArrayCopySide::Array { raw, offset } => Self::Array { raw, offset },
        }
    }
}

/// One call of the backend with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) enum Call {
    CancelPendingWork,
    ImportMemory { kind: MemoryHandleKind, size: u64, dedicated: bool },
    DestroyMemory(RawMemory),
    MapBuffer { memory: RawMemory, offset: u64, size: u64 },
    FreeBuffer(DevicePtr),
    MapMipmappedArray { memory: RawMemory, desc: MipmappedArrayDesc },
    MipmappedArrayLevel { array: RawMipmappedArray, level: u32 },
    FreeMipmappedArray(RawMipmappedArray),
    FillNvSciSyncAttributes(NvSciSyncUse),
    CreateSurface(RawArray),
    DestroySurface(RawSurface),
    CreateTexture(TextureSource, TextureDesc),
    DestroyTexture(RawTexture),
    CopyArray { stream: RawStream, dst: Side, src: Side, extent: [u64; 3] },
    CreateExportable(u64),
    ExportAllocation(RawAllocation),
    DestroyExportable(RawAllocation),
    ImportSemaphore(SemaphoreHandleKind),
    DestroySemaphore(RawSemaphore),
    SignalSemaphores(RawStream, Vec<RawSignal>),
    WaitSemaphores(RawStream, Vec<RawWait>),
    CreateStream,
    DestroyStream(RawStream),
    SynchronizeStream(RawStream),
    QueryStream(RawStream),
    CreateEvent,
    DestroyEvent(RawEvent),
    RecordEvent(RawEvent, RawStream),
    QueryEvent(RawEvent),
    WaitEvent(RawStream, RawEvent),
    Copy { stream: RawStream, dst: DevicePtr, src: DevicePtr, size: u64 },
    CopyToHost { stream: RawStream, src: DevicePtr, size: u64 },
    CopyFromHost { stream: RawStream, dst: DevicePtr, bytes: Vec<u8> },
    FillU8 { stream: RawStream, dst: DevicePtr, value: u8, size: u64 },
    FillU32 { stream: RawStream, dst: DevicePtr, value: u32, count: u64 },
    WaitValueU32(RawStream, DevicePtr, u32, WaitCondition),
    WaitValueU64(RawStream, DevicePtr, u64, WaitCondition),
    WriteValueU32(RawStream, DevicePtr, u32),
    WriteValueU64(RawStream, DevicePtr, u64),
    AllocateSignalMemory,
    FreeSignalMemory(DevicePtr),
    LaunchHostFunction(RawStream),
    LoadModule(Vec<u8>),
    UnloadModule(RawModule),
    ModuleKernel(RawModule, String),
    LaunchKernel { stream: RawStream, kernel: RawKernel, config: LaunchConfig, args: Vec<String> },
    BeginCapture(RawStream),
    LastCaptured(RawStream),
    EndCapture(RawStream),
    SetCapturedSignals(RawGraph, RawGraphNode, Vec<RawSignal>),
    SetCapturedWaits(RawGraph, RawGraphNode, Vec<RawWait>),
    LaunchGraph(RawStream, RawGraph),
    DestroyGraph(RawGraph),
}

impl Call {
    /// The variant's name.
    pub(in super::super) fn name(&self) -> String {
        format!("{self:?}").chars().take_while(char::is_ascii_alphanumeric).collect()
    }

    pub(in super::super) fn frees(&self) -> bool {
        matches!(
            self,
            Self::DestroyMemory(_)
                | Self::FreeBuffer(_)
                | Self::FreeMipmappedArray(_)
                | Self::DestroySurface(_)
                | Self::DestroyTexture(_)
                | Self::DestroyExportable(_)
                | Self::DestroySemaphore(_)
                | Self::FreeSignalMemory(_)
                | Self::DestroyStream(_)
                | Self::UnloadModule(_)
                | Self::DestroyGraph(_)
        )
    }
}

/// A new value in both forms: the driver's and the recorder's.
pub(super) fn fresh() -> (usize, u64) {
    let value = next();
    (usize::try_from(value).expect("small"), value)
}

impl Recorder {
    /// Imports memory; the descriptor is closed or not, as by drivers.
    #[cfg(unix)]
    pub(super) fn lend_memory(&self, handle: &MemoryHandle, call: Call) -> Result<()> {
        self.lend(handle.as_fd(), call)
    }

    /// As [`Recorder::lend_memory`], for a semaphore.
    #[cfg(unix)]
    pub(super) fn lend_semaphore(&self, handle: &SemaphoreHandle, call: Call) -> Result<()> {
        self.lend(handle.as_fd(), call)
    }

    /// Imports memory. No driver closes a Windows handle.
    #[cfg(windows)]
    pub(super) fn lend_memory(&self, _handle: &MemoryHandle, call: Call) -> Result<()> {
        self.begin(call).map(drop)
    }

    /// As [`Recorder::lend_memory`], for a semaphore.
    #[cfg(windows)]
    pub(super) fn lend_semaphore(&self, _handle: &SemaphoreHandle, call: Call) -> Result<()> {
        self.begin(call).map(drop)
    }

    /// Treats the duplicate as drivers do: closes it on success and on every other failure.
    #[cfg(unix)]
    fn lend(&self, fd: Option<BorrowedFd<'_>>, call: Call) -> Result<()> {
        let loan = fd.map(LentFd::new).transpose()?;
        let outcome = self.begin(call).map(drop);
        let Some(loan) = loan else { return outcome };
        let close = outcome.is_ok() || {
            let mut state = self.lock();
            state.failed_imports += 1;
            state.failed_imports.is_multiple_of(2)
        };
        if close {
            // SAFETY: acts as the driver, which owns the number that it was given.
            drop(unsafe { OwnedFd::from_raw_fd(loan.as_raw_fd()) });
        }
        match outcome {
            Ok(()) => loan.consumed(),
            Err(_) => assert_eq!(loan.settle(), !close, "settling detects whether the driver closed the duplicate"),
        }
        outcome
    }

    /// Records a free. After a failure the object can be neither freed nor used.
    pub(super) fn free(&self, call: Call, object: Object) -> Result<()> {
        match self.begin(call) {
            Ok(mut state) => {
                state.free(object);
                Ok(())
            }
            Err(error) => {
                self.lock().live.remove(&object);
                Err(error)
            }
        }
    }
}
