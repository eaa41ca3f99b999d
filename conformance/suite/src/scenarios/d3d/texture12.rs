//! Textures of Direct3D 12.

use gpu_interop::d3d::d3d12::ExportableResource;
use gpu_interop::d3d::{DxgiFormat, ResourceFlags, SrvDimension, TextureSpec};
use gpu_interop::{MappedMipmappedArray, Stream};

use super::{map_array, open12};
use crate::direct3d::{Gpu12, Subresource};
use crate::scenario::scenarios;
use crate::{Context, Pattern, Verdict, ensure};

scenarios! {
    "d3d.texture_12", None,
        "Committed textures of Direct3D 12 of two and three dimensions, with layers and mip levels, map as arrays, every \
         texel in both directions, for the formats that the device supports.",
        textures, needs [memory D3d12Resource, MappedMipmappedArray],
        mirrors("CUDA C++ Programming Guide: Direct3D 12 interoperability, mapping mipmapped arrays");
}

/// Formats with the bytes of a texel.
const FORMATS: [(DxgiFormat, usize); 4] = [
    (DxgiFormat::R8G8B8A8_UNORM, 4),
    (DxgiFormat::R16_UINT, 2),
    (DxgiFormat::R32G32B32A32_FLOAT, 16),
    (DxgiFormat::R8_SINT, 1),
];

/// View dimension, width, height and depth or layers, and mip levels of a texture.
type Shape = (SrvDimension, (u32, u32, u16), u16);

const SHAPES: [Shape; 3] = [
    (SrvDimension::TEXTURE2D, (67, 45, 1), 3),
    (SrvDimension::TEXTURE2DARRAY, (33, 20, 3), 2),
    (SrvDimension::TEXTURE3D, (31, 17, 5), 1),
];

fn textures(context: &Context) -> Verdict {
    let gpu = open12(context)?;
    let stream = context.stream()?;
    let mut mapped_some = false;
    for (dimension, (width, height, depth), levels) in SHAPES {
        for (format, texel) in FORMATS {
            let what = format!("{dimension:?}, {format:?}");
            let spec = TextureSpec::new(dimension, (width.into(), height, depth), format).levels(levels);
            let texture = ExportableResource::texture(gpu.interop(), &spec, ResourceFlags::empty())?;
            let mapped = map_array(context, texture.import_request()?, &texture.array_desc()?, &what)?;
            let Some(array) = mapped else { continue };
            mapped_some = true;
            let both = Both { gpu: &gpu, texture: &texture, spec, texel, stream: &stream, array: &array };
            (0..levels)
                .try_for_each(|level| both.exchange(level, context.pattern(), &format!("{what}, level {level}")))?;
        }
    }
    ensure!(mapped_some, "the device maps none of these formats");
    Ok(())
}

/// A texture on both sides.
struct Both<'a> {
    gpu: &'a Gpu12,
    texture: &'a ExportableResource,
    spec: TextureSpec,
    texel: usize,
    stream: &'a Stream,
    array: &'a MappedMipmappedArray,
}

impl Both<'_> {
    /// The subresources of a level: its layers, or the one with all slices.
    fn subresources(&self, level: u16) -> Verdict<Vec<Subresource<'_>>> {
        let TextureSpec { dimension, width, height, depth_or_array_size, levels, format, .. } = self.spec;
        let shrunk = |n: u32| (n >> level).max(1);
        let depth = u32::from(depth_or_array_size);
        let (layers, slices) = if dimension == SrvDimension::TEXTURE3D { (1, shrunk(depth)) } else { (depth, 1) };
        let width = u32::try_from(width).map_err(|error| crate::outcome::Stop::failed(error.to_string()))?;
        let layer = |layer| Subresource {
            texture: self.texture.resource(),
            number: u32::from(level) + layer * u32::from(levels),
            format: format.into(),
            extent: [shrunk(width), shrunk(height), slices],
            texel: self.texel,
        };
        Ok((0..layers).map(layer).collect())
    }

    /// Every texel of a level, from Direct3D to the device and back.
    fn exchange(&self, level: u16, pattern: Pattern, what: &str) -> Verdict {
        let pattern = pattern.level(level.into());
        let subresources = self.subresources(level)?;
        let [width, height, slices] = subresources[0].extent.map(|n| n as usize);
        let size = width * height * slices * self.texel;
        let data = pattern.bytes(0, size * subresources.len());
        for (subresource, data) in subresources.iter().zip(data.chunks_exact(size)) {
            self.gpu.write_texture(*subresource, data)?;
        }
        let mut found = vec![0; data.len()];
        self.stream.read_array(self.array.level(level.into())?, &mut found)?;
        pattern.verify(0, &found, &format!("{what}: Direct3D's data"))?;

        self.stream.write_array(self.array.level(level.into())?, &pattern.other().bytes(0, data.len()))?;
        let mut found = Vec::with_capacity(data.len());
        for subresource in subresources {
            found.extend(self.gpu.read_texture(subresource)?);
        }
        pattern.other().verify(0, &found, &format!("{what}: the device's data"))
    }
}
