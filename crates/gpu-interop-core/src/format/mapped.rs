//! Planes of imported memory.

use super::plane::PlaneLayout;
use crate::array::ArrayFormat;
use crate::backend::DevicePtr;
use crate::error::{Error, ImportError, Result};
use crate::import::MemoryImport;
use crate::object::{BufferSlice, Device, MappedBuffer, PitchedTexels, Stream};

/// The planes of a picture in imported and mapped memory. Keeps the mappings alive.
#[derive(Debug)]
pub struct MappedPlanes {
    memories: Vec<MappedBuffer>,
    /// Index of the memory, and the layout there.
    planes: Vec<(usize, PlaneLayout)>,
}

impl MappedPlanes {
    /// Imports memories, maps each as a whole, and checks the planes: index of the memory and layout in it.
    ///
    /// On success the mappings own the handles. On failure the requests that were not imported are returned; those imported
    /// before the failure are released, and their handles are closed.
    ///
    /// # Errors
    /// Those of [`Device::import_memory`] and [`ExternalMemory::map_buffer`](crate::ExternalMemory::map_buffer);
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument), before a driver is called, if there is no plane,
    /// a plane names a missing memory or goes past its end, or a memory contains an image of optimal tiling
    /// ([`MemoryImport::image`]).
    pub fn import(
        device: &Device,
        requests: Vec<MemoryImport>,
        planes: Vec<(usize, PlaneLayout)>,
    ) -> Result<Self, ImportError<Vec<MemoryImport>>> {
        const OPERATION: &str = "MappedPlanes::import";
        let sizes: Vec<_> = requests.iter().map(MemoryImport::size).collect();
        let no_image = |request: &MemoryImport| match request.image() {
            Some(_) => request.check_buffer(OPERATION, ..),
            None => Ok(()),
        };
        if let Err(error) = check(OPERATION, &sizes, &planes).and_then(|()| requests.iter().try_for_each(no_image)) {
            return Err(ImportError::new(error, requests));
        }
        let mut memories = Vec::with_capacity(requests.len());
        let mut remaining = requests.into_iter();
        while let Some(request) = remaining.next() {
            let memory = match device.import_memory(request) {
                Ok(memory) => memory,
                Err(failure) => {
                    let (error, request) = failure.into_parts();
                    return Err(ImportError::new(error, [request].into_iter().chain(remaining).collect()));
                }
            };
            match memory.map_buffer(..) {
                Ok(mapped) => memories.push(mapped),
                Err(error) => return Err(ImportError::new(error, remaining.collect())),
            }
        }
        Ok(Self { memories, planes })
    }

    /// Describes planes in memory that is already mapped; the offsets are relative to the mappings.
    ///
    /// # Errors
    /// As [`import`](Self::import), without those of a driver.
    pub fn new(memories: Vec<MappedBuffer>, planes: Vec<(usize, PlaneLayout)>) -> Result<Self> {
        let sizes: Vec<_> = memories.iter().map(MappedBuffer::size).collect();
        check("MappedPlanes::new", &sizes, &planes)?;
        Ok(Self { memories, planes })
    }

    /// Number of planes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.planes.len()
    }

    /// `true` if there is no plane. There is always one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.planes.is_empty()
    }

    /// The mapped memories, in the order of their import.
    #[must_use]
    pub fn memories(&self) -> &[MappedBuffer] {
        &self.memories
    }

    /// Layout of a plane in its memory.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the picture lacks the plane.
    pub fn layout(&self, plane: usize) -> Result<&PlaneLayout> {
        self.plane("MappedPlanes::layout", plane).map(|(_, layout)| layout)
    }

    /// Texel format of a plane.
    ///
    /// # Errors
    /// As [`layout`](Self::layout).
    pub fn texel(&self, plane: usize) -> Result<ArrayFormat> {
        self.plane("MappedPlanes::texel", plane).map(|(_, layout)| layout.texel)
    }

    /// Device address of a plane's first texel, valid while `self` lives. Kernels of the application may use it, with the
    /// [pitch](PlaneLayout::pitch).
    ///
    /// # Errors
    /// As [`layout`](Self::layout).
    pub fn as_raw(&self, plane: usize) -> Result<DevicePtr> {
        self.plane("MappedPlanes::as_raw", plane).map(|(memory, layout)| memory.as_raw().offset(layout.offset))
    }

    /// The bytes of a plane from the first row's start to the last row's end, with the padding between rows.
    ///
    /// # Errors
    /// As [`layout`](Self::layout).
    pub fn slice(&self, plane: usize) -> Result<BufferSlice<'_>> {
        const OPERATION: &str = "MappedPlanes::slice";
        let (memory, layout) = self.plane(OPERATION, plane)?;
        let end = layout.end().ok_or_else(|| missing(OPERATION, plane, self.planes.len()))?;
        memory.slice(layout.offset..end)
    }

    /// The bytes of a row, without padding.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the picture lacks the plane or the row.
    pub fn row(&self, plane: usize, row: u32) -> Result<BufferSlice<'_>> {
        const OPERATION: &str = "MappedPlanes::row";
        let (memory, layout) = self.plane(OPERATION, plane)?;
        let start = layout.row(row).ok_or_else(|| {
            Error::invalid(OPERATION, "the plane has no such row")
                .with_context("row", row)
                .with_context("rows", layout.extent[1])
        })?;
        memory.slice(start..start.saturating_add(layout.row_size()))
    }

    /// A plane as texels with a row pitch, for copies to and from arrays.
    ///
    /// # Errors
    /// As [`layout`](Self::layout).
    pub fn texels(&self, plane: usize) -> Result<PitchedTexels<'_>> {
        let layout = self.layout(plane)?;
        Ok(PitchedTexels::new(self.slice(plane)?, layout.pitch, layout.extent[1].into()))
    }

    /// Copies a plane to the host without padding, with one copy of the driver, and blocks until the copy and all work
    /// enqueued before have completed.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the picture lacks the plane, or `out` does not
    /// have the [size](PlaneLayout::size) of its texels; otherwise those of [`Stream::read`].
    pub fn read(&self, stream: &Stream, plane: usize, out: &mut [u8]) -> Result<()> {
        const OPERATION: &str = "MappedPlanes::read";
        let (layout, [row, pitch]) = self.host_side(OPERATION, plane, out.len())?;
        if row == pitch || layout.extent[1] == 1 {
            return stream.read(self.slice(plane)?, out);
        }
        let slice = self.slice(plane)?;
        let mut padded = vec![0; usize::try_from(slice.size()).map_err(|_| too_large(OPERATION))?];
        stream.read(slice, &mut padded)?;
        for (from, to) in padded.chunks(pitch).zip(out.chunks_mut(row)) {
            to.copy_from_slice(&from[..row]);
        }
        Ok(())
    }

    /// Copies host memory without padding to a plane, row by row if the rows have padding, which keeps its contents. Blocks
    /// until the copies and all work enqueued before have completed.
    ///
    /// # Errors
    /// As [`read`](Self::read), with those of [`Stream::write`].
    pub fn write(&self, stream: &Stream, plane: usize, data: &[u8]) -> Result<()> {
        let (layout, [row, pitch]) = self.host_side("MappedPlanes::write", plane, data.len())?;
        if row == pitch || layout.extent[1] == 1 {
            return stream.write(self.slice(plane)?, data);
        }
        (0..).zip(data.chunks(row)).try_for_each(|(nth, bytes)| stream.write(self.row(plane, nth)?, bytes))
    }

    /// The layout of a plane, and the sizes of a row and of the pitch, if host memory has the size of its texels.
    fn host_side(&self, operation: &'static str, plane: usize, length: usize) -> Result<(PlaneLayout, [usize; 2])> {
        let (_, layout) = self.plane(operation, plane)?;
        let size = layout.size().unwrap_or(u64::MAX);
        if size != length as u64 {
            return Err(Error::invalid(operation, "the host memory does not have the size of the plane's texels")
                .with_context("host memory", format_args!("{length} bytes"))
                .with_context("plane", format_args!("{size} bytes")));
        }
        let sizes = [layout.row_size(), layout.pitch].map(usize::try_from);
        let [Ok(row), Ok(pitch)] = sizes else { return Err(too_large(operation)) };
        Ok((*layout, [row, pitch]))
    }

    fn plane(&self, operation: &'static str, plane: usize) -> Result<(&MappedBuffer, &PlaneLayout)> {
        let found = self.planes.get(plane).and_then(|(memory, layout)| Some((self.memories.get(*memory)?, layout)));
        found.ok_or_else(|| missing(operation, plane, self.planes.len()))
    }
}

fn missing(operation: &'static str, plane: usize, planes: usize) -> Error {
    Error::invalid(operation, "the picture has no such plane")
        .with_context("plane", plane)
        .with_context("planes", planes)
}

fn too_large(operation: &'static str) -> Error {
    Error::invalid(operation, "the plane exceeds the address space of this process")
}

/// Checks planes against the sizes of the memories, bytes.
fn check(operation: &'static str, memories: &[u64], planes: &[(usize, PlaneLayout)]) -> Result<()> {
    if planes.is_empty() {
        return Err(Error::invalid(operation, "a picture has at least one plane"));
    }
    for (memory, layout) in planes {
        let size = memories.get(*memory).ok_or_else(|| {
            Error::invalid(operation, "a plane is in a memory that was not passed")
                .with_context("memory", memory)
                .with_context("memories", memories.len())
        })?;
        layout.check(operation, *size)?;
    }
    Ok(())
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::{ChannelType, ErrorKind};

    #[test]
    fn planes_need_a_memory_and_room() {
        let texel = ArrayFormat::of_table(ChannelType::Unorm8, 1);
        let plane = |offset| PlaneLayout::new(offset, 8, [8, 4], texel);
        check("op", &[32, 64], &[(0, plane(0)), (1, plane(32))]).expect("inside");
        for (planes, words) in [
            (vec![], "at least one plane"),
            (vec![(2, plane(0))], "memory that was not passed"),
            (vec![(0, plane(1))], "past the end"),
            (vec![(1, plane(33))], "past the end"),
        ] {
            let error = check("op", &[32, 64], &planes).expect_err("rejected");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.message().contains(words), "{error}");
        }
    }
}
