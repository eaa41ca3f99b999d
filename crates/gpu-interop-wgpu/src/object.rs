//! What shared buffers and textures have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gpu_interop::{Error, Result};

use crate::native::Native;
use crate::native::objects::Resource;

/// The wgpu side of a shared object.
#[derive(Debug)]
pub(crate) enum Handle {
    Buffer(wgpu::Buffer),
    Texture(wgpu::Texture),
}

/// A shared object as a hand-over sees it. Public in a private module, for the sealed trait.
#[derive(Debug)]
pub struct Object {
    pub(crate) handle: Handle,
    pub(crate) resource: Resource,
    /// The [`Interop`](crate::Interop) that created it.
    interop: u64,
    /// Compute owns it.
    lent: AtomicBool,
}

impl Object {
    pub(crate) fn new(handle: Handle, resource: Resource, interop: u64) -> Arc<Self> {
        Arc::new(Self { handle, resource, interop, lent: AtomicBool::new(false) })
    }

    fn name(&self) -> &'static str {
        match self.handle {
            Handle::Buffer(_) => "buffer",
            Handle::Texture(_) => "texture",
        }
    }
}

mod sealed {
    pub trait Sealed {
        fn object(&self) -> &std::sync::Arc<crate::object::Object>;
    }
}
pub(crate) use sealed::Sealed;

/// A [`SharedBuffer`](crate::SharedBuffer) or a [`SharedTexture`](crate::SharedTexture): what
/// [`Interop::begin_compute`](crate::Interop::begin_compute) hands over.
pub trait Shared: Sealed {}

/// Objects that compute owns. They are wgpu's again when this is dropped.
#[derive(Debug)]
pub(crate) struct Lent {
    objects: Vec<Arc<Object>>,
}

impl Lent {
    /// Marks the objects as lent.
    ///
    /// # Errors
    /// `InvalidArgument` if one of them is lent already, or belongs to another `Interop`.
    pub(crate) fn new(operation: &'static str, interop: u64, objects: &[&dyn Shared]) -> Result<Self> {
        let mut lent = Self { objects: Vec::with_capacity(objects.len()) };
        for (index, object) in objects.iter().map(|shared| shared.object()).enumerate() {
            if object.interop != interop {
                let message = format!("the {} was created by another Interop; use one of this Interop", object.name());
                return Err(Error::invalid(operation, message).with_context("index", index));
            }
            if object.lent.swap(true, Ordering::AcqRel) {
                let message = format!(
                    "the {} is handed over already; end that hand-over first, and name each object once",
                    object.name()
                );
                return Err(Error::invalid(operation, message).with_context("index", index));
            }
            lent.objects.push(object.clone());
        }
        Ok(lent)
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = &Object> {
        self.objects.iter().map(|object| &**object)
    }

    pub(crate) fn resources(&self) -> Vec<&Resource> {
        self.objects.iter().map(|object| &object.resource).collect()
    }

    /// Records a use of the objects that wgpu tracks, in the state in which they change hands: it keeps them alive
    /// until its submission has completed, and brings textures to the layout of that state.
    pub(crate) fn record_use(&self, device: &wgpu::Device, native: &Native) -> wgpu::CommandBuffer {
        record_use(device, native, self.objects.iter().map(|object| &object.handle))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        for object in &self.objects {
            object.lent.store(false, Ordering::Release);
        }
    }
}

/// As [`Lent::record_use`].
pub(crate) fn record_use<'a>(
    device: &wgpu::Device,
    native: &Native,
    handles: impl Iterator<Item = &'a Handle> + Clone,
) -> wgpu::CommandBuffer {
    let label = Some("gpu-interop hand-over");
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label });
    let buffers = handles.clone().filter_map(|handle| match handle {
        Handle::Buffer(buffer) => Some(wgpu::BufferTransition { buffer, state: native.buffer_state() }),
        Handle::Texture(_) => None,
    });
    let textures = handles.filter_map(|handle| match handle {
        Handle::Texture(texture) => {
            Some(wgpu::TextureTransition { texture, selector: None, state: native.texture_state() })
        }
        Handle::Buffer(_) => None,
    });
    encoder.transition_resources(buffers, textures);
    encoder.finish()
}
