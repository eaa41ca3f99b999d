//! Pictures whose dma-bufs the compute device imports.

use gpu_interop_core::format::DrmModifier;
use gpu_interop_core::{Device, Error, Feature, IdentityMatch, MappedPlanes, MemoryHandleKind, Result};

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
    let interop = picture.image().interop();
    let same = device.identity().compare(interop.identity());
    // The frames of the feed are refused then, too; AMD's runtime crashes after a failed import (5.2, 5.7, 6.4, 7.2).
    if same == IdentityMatch::Different {
        return Err(Error::unsupported(OPERATION, "the compute device is another one than the picture's"));
    }
    let kind = if interop.vendor() != AMD {
        MemoryHandleKind::DmaBufFd
    } else if !device.capabilities().feature(Feature::HostFunctions).is_supported() {
        // HIP 5.2, the last version without these, crashes at the import of memory that AMD's drivers dedicated to an image.
        return Err(Error::unsupported(OPERATION, "HIP before 5.3 does not import the memory of images"));
    } else if picture.producer() == Producer::SameDriver && same == IdentityMatch::Same {
        // The opaque fds of AMD's drivers are dma-bufs.
        MemoryHandleKind::OpaqueFd
    } else {
        let message = "AMD's runtime imports memory of its own kernel driver only (PictureOptions::producer)";
        return Err(Error::unsupported(OPERATION, message));
    };
    match device.capabilities().memory(kind).unsupported_error(OPERATION, kind) {
        Some(unsupported) => Err(unsupported),
        None => Ok(kind),
    }
}
