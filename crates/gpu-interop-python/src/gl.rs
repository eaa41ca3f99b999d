//! OpenGL: memory of Vulkan in a context of the application.

use std::cell::RefCell;
use std::ffi::{CStr, c_void};
use std::fmt;
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::thread::ThreadId;

use gpu_interop::gl::{
    ContextOwner, GlInterop, ImportedBuffer, ImportedTexture, TextureFormat, TextureSpec, TextureTiling,
};
use gpu_interop::vulkan::ash::vk::ImageTiling;
use gpu_interop::{Error, MemoryImport};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::convert::{natural, natural_or_none};
use crate::error::{Raise, closed, exception};
use crate::export::PyExport;
use crate::identity::PyIdentity;
use crate::vulkan::image::PyImage;

/// A value that only the thread that created it uses, as contexts of OpenGL are current on a thread.
struct OnThread<T> {
    value: ManuallyDrop<RefCell<Option<Rc<T>>>>,
    thread: ThreadId,
}

// SAFETY: each access to the value, its drop included, is on the thread that created it: `check` compares it. Elsewhere the
// value is leaked.
unsafe impl<T> Send for OnThread<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for OnThread<T> {}

impl<T> OnThread<T> {
    fn new(value: T) -> Self {
        let value = ManuallyDrop::new(RefCell::new(Some(Rc::new(value))));
        Self { value, thread: std::thread::current().id() }
    }

    fn is_here(&self) -> bool {
        self.thread == std::thread::current().id()
    }

    fn check(&self, operation: &'static str) -> PyResult<()> {
        if self.is_here() {
            return Ok(());
        }
        let message = "OpenGL objects are used on the thread that created them, where their context is current";
        Err(exception(&Error::invalid(operation, message)))
    }

    /// The value. Code of Python, such as `is_current`, may close it while it is used.
    fn get(&self, operation: &'static str, what: &str) -> PyResult<Rc<T>> {
        self.check(operation)?;
        let value = self.value.borrow().clone();
        value.ok_or_else(|| exception(&closed(operation, what)))
    }

    fn close(&self, operation: &'static str) -> PyResult<()> {
        self.check(operation)?;
        let value = self.value.take();
        drop(value);
        Ok(())
    }
}

impl<T> Drop for OnThread<T> {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: on the value's thread, and not used after this, the only call.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        } else {
            tracing::warn!("an OpenGL object was dropped on another thread; it stays until its context is destroyed");
        }
    }
}

impl<T> fmt::Debug for OnThread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnThread").field("thread", &self.thread).finish_non_exhaustive()
    }
}

/// The application's function that reports whether the context is current.
struct Owner(Py<PyAny>);

impl ContextOwner for Owner {
    fn is_current(&self) -> bool {
        Python::attach(|py| {
            let reported = self.0.bind(py).call0().and_then(|reported| reported.is_truthy());
            reported.unwrap_or_else(|error| {
                error.write_unraisable(py, Some(self.0.bind(py)));
                false
            })
        })
    }
}

/// The OpenGL context that is current on this thread. ``get_proc_address`` returns the address of the function of a name:
/// ``glfw.get_proc_address``, ``sdl2.SDL_GL_GetProcAddress`` and the like. ``is_current`` returns whether the context is current
/// on the calling thread: then methods fail while it is not, and objects dropped then stay until it is destroyed.
///
/// OpenGL cannot check this: ``get_proc_address`` must return that context's functions. Without ``is_current``, the context, or
/// one that shares its objects, must be current whenever a method is called or an object is closed or deleted. Objects belong
/// to the thread that created them.
#[pyclass(frozen, module = "gpu_interop.gl", name = "GlContext")]
#[derive(Debug)]
pub(crate) struct PyGlContext {
    interop: OnThread<GlInterop>,
}

impl PyGlContext {
    fn interop(&self, operation: &'static str) -> PyResult<Rc<GlInterop>> {
        self.interop.get(operation, "context")
    }
}

#[pymethods]
impl PyGlContext {
    #[new]
    #[pyo3(signature = (get_proc_address, *, is_current=None))]
    fn create(py: Python<'_>, get_proc_address: &Bound<'_, PyAny>, is_current: Option<Py<PyAny>>) -> PyResult<Self> {
        let address = py.import("gpu_interop.gl")?.getattr("_address")?;
        let mut failure = None;
        let load = |name: &CStr| -> *const c_void {
            if failure.is_some() {
                return std::ptr::null();
            }
            let found = address.call1((get_proc_address, name.to_string_lossy()));
            match found.and_then(|found| found.extract::<usize>()) {
                Ok(address) => std::ptr::with_exposed_provenance(address),
                Err(error) => {
                    failure = Some(error);
                    std::ptr::null()
                }
            }
        };
        // SAFETY: the class's documentation requires a current context, its functions, and that it stays current, or that
        // `is_current` reports it.
        let interop = unsafe {
            match is_current {
                None => GlInterop::new(load),
                Some(is_current) => GlInterop::with_owner(load, Rc::new(Owner(is_current))),
            }
        };
        match failure {
            Some(failure) => Err(failure),
            None => Ok(Self { interop: OnThread::new(interop.raised()?) }),
        }
    }

    /// Identity of the device, as far as the driver reports it.
    #[getter]
    fn identity(&self) -> PyResult<PyIdentity> {
        Ok(self.interop("Context.identity")?.identity().into())
    }

    /// Vendor, renderer and version.
    #[getter]
    fn driver(&self) -> PyResult<String> {
        Ok(self.interop("Context.driver")?.driver().to_owned())
    }

    /// Imports exported memory as a buffer of ``size`` bytes from ``offset`` on, by default all. On success the import owns the
    /// handle. A failed import leaves it with ``export``; if only the buffer fails, it is closed. Mesa's llvmpipe needs memory
    /// after the buffer: pass a smaller size there.
    #[pyo3(signature = (export, size=None, *, offset=0))]
    fn import_buffer(
        &self,
        export: &Bound<'_, PyExport>,
        #[pyo3(from_py_with = natural_or_none)] size: Option<u64>,
        #[pyo3(from_py_with = natural::<u64>)] offset: u64,
    ) -> PyResult<PyGlBuffer> {
        const OPERATION: &str = "Context.import_buffer";
        let interop = self.interop(OPERATION)?;
        let export = export.get();
        let left = export.bytes().saturating_sub(offset);
        let size = size.unwrap_or(left);
        if size == 0 || size > left {
            let error = Error::invalid(OPERATION, "the buffer is empty or goes past the end of the memory");
            let error = error.with_context("offset", offset).with_context("size", size);
            return Err(exception(&error.with_context("memory", format_args!("{} bytes", export.bytes()))));
        }
        let request = export.take(OPERATION)?;
        let memory = interop.import_memory(request).map_err(|failure| {
            let (error, request) = failure.into_parts();
            export.put(request);
            exception(&error)
        })?;
        let buffer = memory.map_buffer(offset..offset.saturating_add(size)).raised()?;
        Ok(PyGlBuffer { name: buffer.as_raw(), size: buffer.size(), buffer: OnThread::new(buffer) })
    }

    /// Imports an image of Vulkan as a texture. Red is first: the texture swaps the colours of a format with blue first.
    fn import_texture(&self, image: &Bound<'_, PyImage>) -> PyResult<PyGlTexture> {
        let interop = self.interop("Context.import_texture")?;
        let exportable = &image.get().image;
        let spec = exportable.image().spec();
        let describe = || {
            let format = TextureFormat::from_vulkan(spec.format.as_raw())?;
            let tiling =
                if spec.tiling == ImageTiling::LINEAR { TextureTiling::Linear } else { TextureTiling::Optimal };
            let offset = exportable.image().offset();
            Ok(TextureSpec::new(spec.shape()?, format).offset(offset).levels(spec.levels).tiling(tiling))
        };
        let described: gpu_interop::Result<TextureSpec> = describe();
        let described = described.raised()?;
        let request: MemoryImport = exportable.import_request().raised()?;
        // A failed import drops the request, and so closes the new handle.
        let memory = interop.import_memory(request).map_err(|failure| failure.into_parts().0).raised()?;
        let texture = memory.map_texture(&described).raised()?;
        Ok(PyGlTexture { name: texture.as_raw(), target: texture.target(), texture: OnThread::new(texture) })
    }

    /// Drops this reference to the context's functions. Buffers and textures keep theirs.
    fn close(&self) -> PyResult<()> {
        self.interop.close("Context.close")
    }

    fn __repr__(&self) -> String {
        let driver =
            self.interop("").map_or_else(|_| "closed, or of another thread".into(), |it| it.driver().to_owned());
        format!("<gpu_interop.gl.Context {driver}>")
    }
}

/// A buffer of OpenGL in imported memory. :meth:`close` deletes it, with the context current.
#[pyclass(frozen, module = "gpu_interop.gl", name = "GlBuffer")]
#[derive(Debug)]
pub(crate) struct PyGlBuffer {
    name: u32,
    size: u64,
    buffer: OnThread<ImportedBuffer>,
}

#[pymethods]
impl PyGlBuffer {
    /// OpenGL's name of the buffer, for ``glBindBuffer``. This object owns it.
    #[getter]
    fn name(&self) -> PyResult<u32> {
        self.buffer.get("Buffer.name", "buffer").map(|_| self.name)
    }

    /// Size in bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.size
    }

    /// Deletes the buffer.
    fn close(&self) -> PyResult<()> {
        self.buffer.close("Buffer.close")
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_arguments))]
    fn __exit__(&self, _arguments: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close()
    }

    fn __repr__(&self) -> String {
        format!("<gpu_interop.gl.Buffer {}, {} bytes>", self.name, self.size)
    }
}

/// A texture of OpenGL in imported memory. :meth:`close` deletes it, with the context current.
#[pyclass(frozen, module = "gpu_interop.gl", name = "GlTexture")]
#[derive(Debug)]
pub(crate) struct PyGlTexture {
    name: u32,
    target: u32,
    texture: OnThread<ImportedTexture>,
}

#[pymethods]
impl PyGlTexture {
    /// OpenGL's name of the texture, for ``glBindTexture``. This object owns it.
    #[getter]
    fn name(&self) -> PyResult<u32> {
        self.texture.get("Texture.name", "texture").map(|_| self.name)
    }

    /// The target, such as ``GL_TEXTURE_2D`` (0x0DE1).
    #[getter]
    fn target(&self) -> u32 {
        self.target
    }

    /// Deletes the texture.
    fn close(&self) -> PyResult<()> {
        self.texture.close("Texture.close")
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_arguments))]
    fn __exit__(&self, _arguments: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close()
    }

    fn __repr__(&self) -> String {
        format!("<gpu_interop.gl.Texture {}, target {:#x}>", self.name, self.target)
    }
}
