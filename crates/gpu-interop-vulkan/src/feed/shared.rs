//! Pictures whose dma-bufs the compute device imports.

use gpu_interop_core::format::DrmModifier;
use gpu_interop_core::{Device, Error, IdentityMatch, MappedPlanes, MemoryHandleKind, Result};

use crate::picture::{ImportedPicture, Producer};

const OPERATION: &str = "PictureFeed::source";
/// The PCI vendor of AMD.
const AMD: u32 = 0x1002;

/// Imports the planes of a picture on the compute device.
pub(super) fn import(device: &Device, picture: &ImportedPicture) -> Result<MappedPlanes> {
    if picture.modifier() != DrmModifier::LINEAR {
        let message = format!("the modifier {} is not linear", picture.modifier());
        return Err(Error::unsupported(OPERATION, message));
    }
    let kind = kind(device, picture)?;
    let description = picture.description()?;
    // SAFETY: `ImportedPicture::new` was promised that the dma-bufs contain the picture as described, and that nothing
    // changes their size; the picture lives as long as the source. The driver imports dma-bufs as this kind (`kind`).
    unsafe { description.import_as(device, kind) }.map_err(|failure| failure.into_parts().0)
}

/// The kind as which the compute device imports the dma-bufs.
fn kind(device: &Device, picture: &ImportedPicture) -> Result<MemoryHandleKind> {
    let support = device.capabilities().memory(MemoryHandleKind::DmaBufFd);
    let Some(unsupported) = support.unsupported_error(OPERATION, "dma-bufs") else {
        return Ok(MemoryHandleKind::DmaBufFd);
    };
    // AMD's runtime imports dma-bufs of its own kernel driver as opaque fds.
    let interop = picture.image().interop();
    let is_own = interop.vendor() == AMD
        && picture.producer() == Producer::SameDriver
        && device.identity().compare(interop.identity()) == IdentityMatch::Same
        && device.capabilities().memory(MemoryHandleKind::OpaqueFd).is_supported();
    if is_own { Ok(MemoryHandleKind::OpaqueFd) } else { Err(unsupported) }
}
