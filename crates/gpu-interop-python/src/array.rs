//! Images of optimal tiling as arrays of the driver.

use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, MutexGuard};

use gpu_interop::sync::{lock, unpoisoned};
use gpu_interop::{
    ArrayFormat, ArrayRegion, ArrayShape, ArrayUsage, ChannelType, Error, MappedMipmappedArray, MipmappedArrayDesc,
    Result,
};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::convert::{detached_drop, items, natural};
use crate::device::{PyDevice, Shared};
use crate::error::{Raise, closed, exception};
use crate::memory::PyMemory;
use crate::tensor;

/// A mapped image. Arrays and their regions share it.
#[derive(Debug)]
pub(crate) struct Mapped {
    // Field order is drop order: the array, which keeps its memory, before the device.
    array: MappedMipmappedArray,
    device: Arc<Shared>,
}

impl Mapped {
    /// Shape of a box of texels as packed elements, slowest dimension first; the channels are the last dimension, if there
    /// are several elements in a texel.
    fn elements(&self, [width, height, depth]: [u64; 3]) -> Vec<u64> {
        let desc = self.array.desc();
        let (rows, slices) = match desc.shape {
            ArrayShape::D1 { .. } => (None, None),
            ArrayShape::D1Layered { .. } => (None, Some(depth)),
            ArrayShape::D2 { .. } => (Some(height), None),
            _ => (Some(height), Some(depth)),
        };
        let channels = Some(elements_of_texel(desc.format)).filter(|channels| *channels > 1);
        [slices, rows, Some(width), channels].into_iter().flatten().collect()
    }
}

/// Name of the type of elements that the texels' bytes have, and of the format.
fn names(channel: ChannelType) -> (&'static str, &'static str) {
    match channel {
        ChannelType::Uint8 => ("uint8", "uint8"),
        ChannelType::Uint16 => ("uint16", "uint16"),
        ChannelType::Uint32 => ("uint32", "uint32"),
        ChannelType::Sint8 => ("int8", "int8"),
        ChannelType::Sint16 => ("int16", "int16"),
        ChannelType::Sint32 => ("int32", "int32"),
        ChannelType::Float16 => ("float16", "float16"),
        ChannelType::Float32 => ("float32", "float32"),
        ChannelType::Unorm8 => ("uint8", "unorm8"),
        ChannelType::Unorm16 => ("uint16", "unorm16"),
        ChannelType::Snorm8 => ("int8", "snorm8"),
        ChannelType::Snorm16 => ("int16", "snorm16"),
        ChannelType::Unorm1010102 => ("uint32", "unorm10_10_10_2"),
        // Types of later versions.
        _ => ("uint8", "unknown"),
    }
}

/// Elements of the type of [`names`] in a texel.
fn elements_of_texel(format: ArrayFormat) -> u64 {
    match format.channel() {
        ChannelType::Unorm1010102 => 1,
        _ => u64::from(format.channels()),
    }
}

/// Layers, faces of cubes included; 1 for a shape without.
fn layers(shape: ArrayShape) -> u64 {
    match shape {
        ArrayShape::D1 { .. } | ArrayShape::D2 { .. } | ArrayShape::D3 { .. } => 1,
        layered => layered.level_extent(0)[2],
    }
}

/// Rejects uses of an array as a tensor.
fn without_addresses<T>() -> PyResult<T> {
    Err(PyBufferError::new_err(
        "optimal tiling has no addresses: stream.copy it to a tensor, which array.allocate_tensor() returns",
    ))
}

/// An image of optimal tiling that the device has mapped: ``CUmipmappedArray`` or ``hipMipmappedArray_t``.
///
/// Its texels have no addresses. Kernels read them through a texture or surface on :attr:`handle`; a stream copies them to
/// a tensor, and back: :meth:`Stream.copy`. The array keeps the memory alive. Work of other libraries that uses a handle
/// must have completed before the last reference to the array is dropped.
#[pyclass(frozen, module = "gpu_interop", name = "Array")]
#[derive(Debug)]
pub(crate) struct PyArray {
    mapped: Mutex<Option<Arc<Mapped>>>,
}

impl PyArray {
    /// Maps the image that an import declares.
    pub(crate) fn map(device: Arc<Shared>, memory: &gpu_interop::ExternalMemory, surface: bool) -> Result<Self> {
        let Some(image) = memory.image() else {
            let message = "the memory contains no declared image of optimal tiling; import the Export of such an image, or \
                           view the memory with Memory.tensor";
            return Err(Error::invalid("Memory.array", message));
        };
        let mut desc: MipmappedArrayDesc = *image;
        desc.usage.set(ArrayUsage::SURFACE_LOAD_STORE, surface);
        let array = memory.map_mipmapped_array(&desc)?;
        Ok(Self { mapped: Mutex::new(Some(Arc::new(Mapped { array, device }))) })
    }

    fn mapped(&self, operation: &'static str) -> PyResult<Arc<Mapped>> {
        // Unlocked before the exception is made, which may let other threads take the GIL.
        let mapped = self.lock().clone();
        mapped.ok_or_else(|| exception(&closed(operation, "array")))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Mapped>>> {
        lock(&self.mapped)
    }
}

#[pymethods]
impl PyArray {
    /// Lengths of level 0 as packed elements, as a tensor for copies has them: ``(depth or layers, height, width,
    /// channels)``, without the dimensions that the image lacks, and without the channels if a texel is one element.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let mapped = self.mapped("Array.shape")?;
        PyTuple::new(py, mapped.elements(mapped.array.desc().shape.level_extent(0)))
    }

    /// Name of the type of elements, as the bytes are: ``"uint8"`` for ``unorm8``. The texels of ``unorm10_10_10_2`` are
    /// one ``"uint32"`` each.
    #[getter]
    fn dtype(&self) -> PyResult<&'static str> {
        Ok(names(self.mapped("Array.dtype")?.array.desc().format.channel()).0)
    }

    /// Bytes of the texels of level 0 without gaps, all layers together: those of a tensor with :attr:`shape` and
    /// :attr:`dtype`.
    #[getter]
    fn nbytes(&self) -> PyResult<u64> {
        Ok(self.mapped("Array.nbytes")?.array.level(0).raised()?.size())
    }

    /// Allocates memory of the device, and views it as a packed tensor with :attr:`shape` and :attr:`dtype`, for
    /// :meth:`Stream.copy`. Copies nothing. ``stream`` is that of :meth:`Memory.tensor`: consumers wait for its work.
    #[pyo3(signature = (*, stream=None))]
    fn allocate_tensor<'py>(&self, py: Python<'py>, stream: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let device = self.mapped("Array.allocate_tensor")?.device.clone();
        let memory = Bound::new(py, PyMemory::allocate(py, device, self.nbytes()?)?)?;
        tensor::class(py)?.call1((memory, self.shape(py)?, self.dtype()?, py.None(), 0, false, stream))
    }

    /// Raises :class:`BufferError`: the texels have no addresses.
    #[pyo3(signature = (**_options))]
    fn __dlpack__(&self, _options: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        without_addresses()
    }

    /// Raises :class:`BufferError`: the texels have no addresses.
    fn __dlpack_device__(&self) -> PyResult<()> {
        without_addresses()
    }

    /// Raises :class:`BufferError`: the texels have no addresses.
    #[pyo3(signature = (*_arguments, **_options))]
    fn __array__(&self, _arguments: &Bound<'_, PyTuple>, _options: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        without_addresses()
    }

    /// Name of the channels' type: ``"unorm8"``, ``"float16"``, ``"uint32"`` and others.
    #[getter]
    fn format(&self) -> PyResult<&'static str> {
        Ok(names(self.mapped("Array.format")?.array.desc().format.channel()).1)
    }

    /// Number of channels: 1, 2 or 4.
    #[getter]
    fn channels(&self) -> PyResult<u8> {
        Ok(self.mapped("Array.channels")?.array.desc().format.channels())
    }

    /// Width, height and depth of level 0 in texels; 1 for a dimension that the image lacks. Layers are not its depth.
    #[getter]
    fn extent(&self) -> PyResult<(u64, u64, u64)> {
        let shape = self.mapped("Array.extent")?.array.desc().shape;
        let [width, height, depth] = shape.level_extent(0);
        Ok((width, height, if matches!(shape, ArrayShape::D3 { .. }) { depth } else { 1 }))
    }

    /// Number of mip levels.
    #[getter]
    fn levels(&self) -> PyResult<u32> {
        Ok(self.mapped("Array.levels")?.array.desc().levels)
    }

    /// Number of layers; six for each cube.
    #[getter]
    fn layers(&self) -> PyResult<u64> {
        Ok(layers(self.mapped("Array.layers")?.array.desc().shape))
    }

    /// True if kernels may access the array as a surface, too.
    #[getter]
    fn surface(&self) -> PyResult<bool> {
        Ok(self.mapped("Array.surface")?.array.desc().usage.contains(ArrayUsage::SURFACE_LOAD_STORE))
    }

    /// The driver's array of level 0 as an integer: ``CUarray``, ``cudaArray_t`` or ``hipArray_t``. This object owns it.
    #[getter]
    fn handle(&self) -> PyResult<usize> {
        Ok(self.mapped("Array.handle")?.array.level(0).raised()?.as_raw().get())
    }

    /// The driver's array with all levels as an integer: ``CUmipmappedArray`` or ``hipMipmappedArray_t``. This object owns
    /// it.
    #[getter]
    fn mipmapped_handle(&self) -> PyResult<usize> {
        Ok(self.mapped("Array.mipmapped_handle")?.array.as_raw().get())
    }

    /// The device of the array.
    #[getter]
    fn device(&self) -> PyResult<PyDevice> {
        Ok(PyDevice::of(&self.mapped("Array.device")?.device))
    }

    /// A mip level, or a box of its texels, for copies. ``offset`` and ``extent`` have up to three numbers, for the width,
    /// the height, and the depth, layers or faces; missing ones are 0, or the rest of the level.
    #[pyo3(signature = (level=0, offset=None, extent=None))]
    fn region(
        &self,
        #[pyo3(from_py_with = natural::<u32>)] level: u32,
        offset: Option<&Bound<'_, PyAny>>,
        extent: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyArrayRegion> {
        const OPERATION: &str = "Array.region";
        let mapped = self.mapped(OPERATION)?;
        let region = mapped.array.level(level).raised()?;
        let whole = region.extent();
        let offset = numbers(OPERATION, offset)?;
        let extent = numbers(OPERATION, extent)?;
        let offset = [0, 1, 2].map(|at| offset.get(at).copied().unwrap_or(0));
        let extent = [0, 1, 2].map(|at: usize| extent.get(at).copied().unwrap_or(whole[at].saturating_sub(offset[at])));
        let region = region.region(offset, extent).raised()?;
        let (handle, size) = (region.as_raw().get(), region.size());
        Ok(PyArrayRegion { level, offset, extent, handle, size, mapped: ManuallyDrop::new(mapped) })
    }

    /// Drops this reference to the array. It is unmapped with its last region.
    fn close(&self) {
        let mapped = self.lock().take();
        detached_drop(mapped);
    }

    /// True if ``close`` was called.
    #[getter]
    fn closed(&self) -> bool {
        self.lock().is_none()
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_arguments))]
    fn __exit__(&self, _arguments: &Bound<'_, PyTuple>) {
        self.close();
    }

    fn __repr__(&self) -> String {
        let Ok(mapped) = self.mapped("") else { return "<gpu_interop.Array closed>".into() };
        let (desc, device) = (mapped.array.desc(), &mapped.device.device);
        let (_, format) = names(desc.format.channel());
        let backend = &device.backend().name;
        format!(
            "<gpu_interop.Array {}, {} x {format}, {} levels, on {backend} {}>",
            desc.shape,
            desc.format.channels(),
            desc.levels,
            device.identity()
        )
    }
}

impl Drop for PyArray {
    fn drop(&mut self) {
        let mapped = unpoisoned(self.mapped.get_mut()).take();
        detached_drop(mapped);
    }
}

/// Up to three numbers.
fn numbers(operation: &'static str, given: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<u64>> {
    let Some(given) = given else { return Ok(Vec::new()) };
    let numbers: Vec<Py<PyAny>> = items(given, 4)?;
    if numbers.len() > 3 {
        return Err(exception(&Error::invalid(operation, "offset and extent have at most three numbers")));
    }
    numbers.iter().map(|number| natural(number.bind(given.py()))).collect()
}

/// A mip level of an :class:`Array`, or a box of its texels. Keeps the array.
#[pyclass(frozen, module = "gpu_interop", name = "ArrayRegion")]
#[derive(Debug)]
pub(crate) struct PyArrayRegion {
    level: u32,
    offset: [u64; 3],
    extent: [u64; 3],
    handle: usize,
    size: u64,
    /// Taken by `drop` only.
    mapped: ManuallyDrop<Arc<Mapped>>,
}

#[pymethods]
impl PyArrayRegion {
    /// Lengths as packed elements; see :attr:`Array.shape`.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.mapped.elements(self.extent))
    }

    /// The mip level.
    #[getter]
    fn level(&self) -> u32 {
        self.level
    }

    /// First texel in the level: width, height, and depth, layer or face.
    #[getter]
    fn offset(&self) -> (u64, u64, u64) {
        self.offset.into()
    }

    /// Texels in each dimension: width, height, and depth, layers or faces.
    #[getter]
    fn extent(&self) -> (u64, u64, u64) {
        self.extent.into()
    }

    /// Size of the texels in bytes, without gaps.
    #[getter]
    fn size(&self) -> u64 {
        self.size
    }

    /// The driver's array of the whole level as an integer; the :class:`Array` owns it.
    #[getter]
    fn handle(&self) -> usize {
        self.handle
    }

    fn __repr__(&self) -> String {
        let Self { level, offset, extent, .. } = self;
        format!("<gpu_interop.ArrayRegion of level {level}, {extent:?} texels at {offset:?}>")
    }
}

impl Drop for PyArrayRegion {
    fn drop(&mut self) {
        // SAFETY: the field is not used after this, the only call.
        let mapped = unsafe { ManuallyDrop::take(&mut self.mapped) };
        // The last reference unmaps the array.
        if let Some(last) = Arc::into_inner(mapped) {
            detached_drop(last);
        }
    }
}

/// An operand of copies with arrays.
#[derive(Debug)]
pub(crate) struct Texels {
    mapped: Arc<Mapped>,
    level: u32,
    /// `None` for the whole level.
    part: Option<([u64; 3], [u64; 3])>,
}

/// The shape and dtype of a packed tensor for texels.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) shape: Vec<u64>,
    pub(crate) dtype: &'static str,
    pub(crate) size: u64,
    /// Code of Python for the shape and dtype.
    pub(crate) names: &'static str,
}

impl Texels {
    /// Level 0 of an array, or a region; `None` for another object.
    pub(crate) fn of(operation: &'static str, object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        if let Ok(array) = object.cast::<PyArray>() {
            return Ok(Some(Self { mapped: array.get().mapped(operation)?, level: 0, part: None }));
        }
        Ok(object.cast::<PyArrayRegion>().ok().map(|region| {
            let region = region.get();
            let part = Some((region.offset, region.extent));
            Self { mapped: Arc::clone(&region.mapped), level: region.level, part }
        }))
    }

    pub(crate) fn packed(&self) -> Result<Packed> {
        let region = self.region()?;
        Ok(Packed {
            shape: self.mapped.elements(region.extent()),
            dtype: names(self.mapped.array.desc().format.channel()).0,
            size: region.size(),
            names: if self.part.is_some() { "region.shape, array.dtype" } else { "array.shape, array.dtype" },
        })
    }

    pub(crate) fn region(&self) -> Result<ArrayRegion<'_>> {
        let level = self.mapped.array.level(self.level)?;
        self.part.map_or(Ok(level), |(offset, extent)| level.region(offset, extent))
    }
}
