//! Compute's work on a frame: verifies what graphics drew, and writes new texels.

use std::cell::Cell;

use gpu_interop::{BufferSlice, ExportableMemory, Feature, MappedMipmappedArray, Stream};
use gpu_interop_conformance::{Stop, Verdict, ensure};
use gpu_interop_kernels::{FILL_PATTERN, SURFACE_FILL, SURFACE_VERIFY, VERIFY_PATTERN};

use super::numbers::{PICTURES, answered, drawn, slot};
use crate::bench::machine::{Machine, too_much};
use crate::bench::sys::TexelKernels;

/// A frame in compute.
#[derive(Clone, Copy)]
pub(super) enum Mapping<'a> {
    Array(&'a MappedMipmappedArray),
    /// From the first texel, with the distance between rows in bytes.
    Linear(BufferSlice<'a>, u64),
}

/// The kernels, and the memory for what they find.
pub(super) struct Texels<'a> {
    stream: &'a Stream,
    kernels: TexelKernels<'a>,
    size: [u32; 2],
    /// The device's own memory: for copies of arrays without kernels for surfaces, and without interop.
    own: ExportableMemory,
    expects_another: Cell<bool>,
}

impl<'a> Texels<'a> {
    /// `arrays` are those of the frames, if they are arrays.
    pub(super) fn new(machine: &'a Machine, size: [u32; 2], arrays: &[&MappedMipmappedArray]) -> Verdict<Self> {
        let device = &machine.device;
        let module = device.load_module(machine.under_test.kernels(device)?)?;
        let linear = [module.kernel(VERIFY_PATTERN.name)?, module.kernel(FILL_PATTERN.name)?];
        let of_surfaces = if device.capabilities().feature(Feature::Surfaces).is_supported() && !arrays.is_empty() {
            let surfaces = arrays.iter().map(|array| array.surface(0)).collect::<gpu_interop::Result<_>>()?;
            Some(([module.kernel(SURFACE_VERIFY.name)?, module.kernel(SURFACE_FILL.name)?], surfaces))
        } else {
            None
        };
        let counter = device.allocate_exportable(4096).map_err(too_much)?;
        machine.stream.fill_u32(counter.slice(..)?, 0)?;
        let kernels = TexelKernels::new(&machine.stream, linear, of_surfaces, counter)?;
        let bytes = u64::from(size[0]) * u64::from(size[1]) * 4;
        let own = device.allocate_exportable(bytes).map_err(too_much)?;
        Ok(Self { stream: &machine.stream, kernels, size, own, expects_another: Cell::new(false) })
    }

    /// Enqueues the work on a frame.
    pub(super) fn work(&self, number: u32, mapping: Mapping<'_>) -> Verdict {
        let another = u32::from(self.expects_another.get());
        let seeds = [(drawn(number) + another) % PICTURES, answered(number)];
        let stream = self.stream;
        match mapping {
            Mapping::Array(_) if self.kernels.has_surfaces() => self.kernels.on_surface(slot(number), self.size, seeds),
            Mapping::Array(array) => {
                stream.copy_from_array(self.own()?, array.level(0)?)?;
                self.kernels.on_buffer(self.own()?, seeds)?;
                Ok(stream.copy_to_array(array.level(0)?, self.own()?)?)
            }
            Mapping::Linear(texels, pitch) => {
                if pitch != u64::from(self.size[0]) * 4 {
                    return Err(Stop::unsupported(format!("rows of {} texels have gaps: {pitch} bytes", self.size[0])));
                }
                ensure!(texels.size() >= self.size(), "the mapping is smaller than the frame");
                self.kernels.on_buffer(texels.slice(..self.size())?, seeds)
            }
        }
    }

    /// The device's own memory for a frame.
    pub(super) fn own(&self) -> Verdict<BufferSlice<'_>> {
        Ok(self.own.slice(..self.size())?)
    }

    /// Bytes of a frame.
    pub(super) fn size(&self) -> u64 {
        u64::from(self.size[0]) * u64::from(self.size[1]) * 4
    }

    /// Makes the kernels expect a wrong picture, to verify that they detect it.
    pub(super) fn expect_another_picture(&self, another: bool) {
        self.expects_another.set(another);
    }

    /// The number of wrong texels so far.
    pub(super) fn mismatches(&self) -> Verdict<u32> {
        let mut word = [0; 4];
        self.stream.read(self.kernels.counter()?, &mut word)?;
        Ok(u32::from_ne_bytes(word))
    }

    /// The same, and starts from 0 again.
    pub(super) fn take_mismatches(&self) -> Verdict<u32> {
        let found = self.mismatches()?;
        self.stream.fill_u32(self.kernels.counter()?, 0)?;
        Ok(found)
    }
}
