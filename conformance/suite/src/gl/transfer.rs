//! Reads and writes of OpenGL in imported buffers and textures.

use std::num::NonZeroU32;

use glow::{HasContext, PixelPackData, PixelUnpackData};
use gpu_interop::gl::{ImportedBuffer, ImportedTexture};
use gpu_interop::{ArrayShape, ChannelType};

use super::GlSide;
use crate::outcome::{Stop, Verdict};

pub(super) fn native(name: u32) -> Verdict<NonZeroU32> {
    NonZeroU32::new(name).ok_or_else(|| Stop::failed("an object of OpenGL has no name".into()))
}

fn narrow(n: impl TryInto<i32, Error: std::fmt::Display>) -> Verdict<i32> {
    n.try_into().map_err(|error| Stop::failed(error.to_string()))
}

/// An OpenGL buffer that is not shared and host-readable.
pub(crate) struct OwnBuffer<'a> {
    side: &'a GlSide<'a>,
    buffer: glow::NativeBuffer,
    size: usize,
}

impl GlSide<'_> {
    /// Creates an OpenGL buffer with this data.
    pub(crate) fn own_buffer(&self, data: &[u8]) -> Verdict<OwnBuffer<'_>> {
        // SAFETY: the context is current.
        unsafe {
            let buffer = self.gl.create_buffer().map_err(Stop::failed)?;
            self.gl.bind_buffer(glow::COPY_WRITE_BUFFER, Some(buffer));
            self.gl.buffer_data_u8_slice(glow::COPY_WRITE_BUFFER, data, glow::STREAM_COPY);
            self.succeeded("glBufferData")?;
            Ok(OwnBuffer { side: self, buffer, size: data.len() })
        }
    }

    /// Enqueues a copy between two buffers, by name. Does not wait.
    fn copy(&self, (from, from_offset): (u32, u64), (to, to_offset): (u32, u64), size: u64) -> Verdict {
        let (from, to) = (glow::NativeBuffer(native(from)?), glow::NativeBuffer(native(to)?));
        let [from_offset, to_offset, size] = [narrow(from_offset)?, narrow(to_offset)?, narrow(size)?];
        // SAFETY: the context is current, and OpenGL checks names and ranges.
        unsafe {
            self.gl.bind_buffer(glow::COPY_READ_BUFFER, Some(from));
            self.gl.bind_buffer(glow::COPY_WRITE_BUFFER, Some(to));
            let (read, write) = (glow::COPY_READ_BUFFER, glow::COPY_WRITE_BUFFER);
            self.gl.copy_buffer_sub_data(read, write, from_offset, to_offset, size);
        }
        self.succeeded("glCopyBufferSubData")
    }

    /// Enqueues a copy within an imported buffer. Does not wait.
    pub(crate) fn copy_within(&self, buffer: &ImportedBuffer, from: u64, to: u64, size: u64) -> Verdict {
        self.copy((buffer.as_raw(), from), (buffer.as_raw(), to), size)
    }

    pub(crate) fn read(&self, buffer: &ImportedBuffer) -> Verdict<Vec<u8>> {
        let own = self.own_buffer(&vec![0; usize::try_from(buffer.size())?])?;
        own.copy_from(buffer)?;
        own.read()
    }

    /// Enqueues a write to an imported buffer. Does not wait.
    pub(crate) fn write(&self, buffer: &ImportedBuffer, data: &[u8]) -> Verdict {
        let own = self.own_buffer(data)?;
        self.copy((own.buffer.0.get(), 0), (buffer.as_raw(), 0), data.len() as u64)
    }

    /// Reads all layers of one level of a texture in order, tightly packed.
    ///
    /// Uses a buffer, as [`GlSide::write_texture`] does: with host memory, NVIDIA's driver (580) caches the texels of
    /// `glTexSubImage` and returns them from `glGetTexImage`, even after another API has written others.
    pub(crate) fn read_texture(&self, texture: &ImportedTexture, level: u32, size: u64) -> Verdict<Vec<u8>> {
        let (format, ty) = transfer_format(texture)?;
        let (texture_name, level) = (glow::NativeTexture(native(texture.as_raw())?), narrow(level)?);
        let own = self.own_buffer(&vec![0; usize::try_from(size)?])?;
        let targets = parts(texture);
        let part = own.size / targets.len();
        // SAFETY: the context is current, and the buffer has space for the requested texels.
        unsafe {
            self.gl.bind_texture(texture.target(), Some(texture_name));
            self.gl.bind_buffer(glow::PIXEL_PACK_BUFFER, Some(own.buffer));
            self.gl.pixel_store_i32(glow::PACK_ALIGNMENT, 1);
            for (target, index) in targets.into_iter().zip(0..) {
                let offset = PixelPackData::BufferOffset(narrow(part * index)?.cast_unsigned());
                self.gl.get_tex_image(target, level, format, ty, offset);
            }
            self.gl.bind_buffer(glow::PIXEL_PACK_BUFFER, None);
        }
        self.succeeded("glGetTexImage")?;
        own.read()
    }

    /// Enqueues a write of all texels of one level of a texture of two or three dimensions. Does not wait.
    pub(crate) fn write_texture(&self, texture: &ImportedTexture, level: u32, data: &[u8]) -> Verdict {
        let (format, ty) = transfer_format(texture)?;
        let [width, height, depth] = texture.spec().shape.level_extent(level);
        let [width, height, depth] = [narrow(width)?, narrow(height)?, narrow(depth)?];
        let (texture_name, level) = (glow::NativeTexture(native(texture.as_raw())?), narrow(level)?);
        let own = self.own_buffer(data)?;
        let targets = parts(texture);
        let part = own.size / targets.len();
        let whole = matches!(texture.spec().shape, ArrayShape::D3 { .. } | ArrayShape::D2Layered { .. });
        // SAFETY: the context is current, and the buffer contains the texels.
        unsafe {
            self.gl.bind_texture(texture.target(), Some(texture_name));
            self.gl.bind_buffer(glow::PIXEL_UNPACK_BUFFER, Some(own.buffer));
            self.gl.pixel_store_i32(glow::UNPACK_ALIGNMENT, 1);
            for (target, index) in targets.into_iter().zip(0..) {
                let pixels = PixelUnpackData::BufferOffset(narrow(part * index)?.cast_unsigned());
                if whole {
                    self.gl.tex_sub_image_3d(target, level, 0, 0, 0, width, height, depth, format, ty, pixels);
                } else {
                    self.gl.tex_sub_image_2d(target, level, 0, 0, width, height, format, ty, pixels);
                }
            }
            self.gl.bind_buffer(glow::PIXEL_UNPACK_BUFFER, None);
        }
        self.succeeded("glTexSubImage")
    }
}

/// The targets whose texels in sequence are those of a level: the faces of a cube, or the texture.
fn parts(texture: &ImportedTexture) -> Vec<u32> {
    match texture.spec().shape {
        ArrayShape::Cube { .. } => (0..6).map(|face| glow::TEXTURE_CUBE_MAP_POSITIVE_X + face).collect(),
        _ => vec![texture.target()],
    }
}

/// The pixel format and type with which OpenGL transfers a texture's texels unchanged.
pub(super) fn transfer_format(texture: &ImportedTexture) -> Verdict<(u32, u32)> {
    let array = texture.spec().format.array();
    match (array.channel(), array.channels()) {
        (ChannelType::Unorm8, 4) => Ok((glow::RGBA, glow::UNSIGNED_BYTE)),
        (ChannelType::Uint32, 1) => Ok((glow::RED_INTEGER, glow::UNSIGNED_INT)),
        _ => Err(Stop::failed(format!("the suite does not transfer {array} by OpenGL"))),
    }
}

impl OwnBuffer<'_> {
    /// Enqueues a copy of as much of an imported buffer as fits. Does not wait.
    pub(crate) fn copy_from(&self, buffer: &ImportedBuffer) -> Verdict {
        let size = buffer.size().min(self.size as u64);
        self.side.copy((buffer.as_raw(), 0), (self.buffer.0.get(), 0), size)
    }

    /// Reads it, after OpenGL's earlier commands.
    pub(crate) fn read(&self) -> Verdict<Vec<u8>> {
        let mut found = vec![0; self.size];
        // SAFETY: the context is current, and the buffer has this size.
        unsafe {
            self.side.gl.bind_buffer(glow::COPY_READ_BUFFER, Some(self.buffer));
            self.side.gl.get_buffer_sub_data(glow::COPY_READ_BUFFER, 0, &mut found);
        }
        self.side.succeeded("glGetBufferSubData")?;
        Ok(found)
    }
}

impl Drop for OwnBuffer<'_> {
    fn drop(&mut self) {
        // SAFETY: the context is current; earlier commands that use the buffer complete first.
        unsafe { self.side.gl.delete_buffer(self.buffer) };
    }
}
