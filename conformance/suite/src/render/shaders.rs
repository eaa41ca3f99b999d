//! Shaders, compiled from `shaders/*.wgsl` to SPIR-V in the same folder. A test compiles them again.

use gpu_interop::ChannelType;

use crate::exporter::ImageSpec;
use crate::outcome::{Stop, Verdict};

/// A compiled shader.
#[derive(Clone, Copy)]
pub(super) struct Shader {
    /// The name of its file in `shaders`, without the ending.
    pub(super) name: &'static str,
    spirv: &'static [u8],
    #[cfg(test)]
    source: Source,
}

/// The file of a source, and the words that are replaced in it.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Source {
    text: &'static str,
    replaced: &'static [(&'static str, &'static str)],
}

macro_rules! shader {
    ($name:literal from $file:literal $(, $word:ident = $by:literal)*) => {
        Shader {
            name: $name,
            spirv: include_bytes!(concat!("../../shaders/", $name, ".spv")),
            #[cfg(test)]
            source: Source {
                text: concat!(
                    include_str!("../../shaders/shared.wgsl"),
                    include_str!(concat!("../../shaders/", $file, ".wgsl"))
                ),
                replaced: &[$((stringify!($word), $by)),*],
            },
        }
    };
}

pub(super) const DRAW: Shader = shader!("draw" from "draw");
pub(super) const SAMPLE: Shader = shader!("sample" from "sample");
pub(super) const WORDS: Shader = shader!("words" from "words");
pub(super) const TEXELS: Shader = shader!("texels" from "texels");

/// The type of the channels that a shader sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channels {
    Float,
    Unsigned,
    Signed,
}

impl Channels {
    pub(super) fn of(spec: &ImageSpec) -> Self {
        match spec.format.array.channel() {
            ChannelType::Uint8 | ChannelType::Uint16 | ChannelType::Uint32 => Self::Unsigned,
            ChannelType::Sint8 | ChannelType::Sint16 | ChannelType::Sint32 => Self::Signed,
            _ => Self::Float,
        }
    }
}

/// The shader of [`DRAW`] with the colour of these channels.
pub(super) fn drawn(channels: Channels) -> &'static str {
    match channels {
        Channels::Float => "floats",
        Channels::Unsigned => "unsigned",
        Channels::Signed => "signed",
    }
}

/// One for images with layers, and one for volumes.
type ByDimensions = [Shader; 2];

macro_rules! by_dimensions {
    ($layered:literal, $volume:literal from $file:literal $(, $word:ident = $by:literal)*) => {
        [
            shader!($layered from $file, DIMENSIONS = "2d_array", COORDINATES = "at.xy, at.z" $(, $word = $by)*),
            shader!($volume from $file, DIMENSIONS = "3d", COORDINATES = "at" $(, $word = $by)*),
        ]
    };
}

/// Fetches, by the type of the channels.
const TEXTURES: [(Channels, ByDimensions); 3] = [
    (Channels::Float, by_dimensions!("texture_f32", "texture_f32_3d" from "texture", CHANNEL = "f32")),
    (Channels::Unsigned, by_dimensions!("texture_u32", "texture_u32_3d" from "texture", CHANNEL = "u32")),
    (Channels::Signed, by_dimensions!("texture_i32", "texture_i32_3d" from "texture", CHANNEL = "i32")),
];

/// Reads of an input attachment, by the type of the channels.
const INPUTS: [(Channels, Shader); 3] = [
    (Channels::Float, shader!("input_f32" from "input", CHANNEL = "f32")),
    (Channels::Unsigned, shader!("input_u32" from "input", CHANNEL = "u32")),
    (Channels::Signed, shader!("input_i32" from "input", CHANNEL = "i32")),
];

/// Storage images, by the format.
const STORAGE: [((ChannelType, u8), ByDimensions); 4] = [
    (
        (ChannelType::Unorm8, 4),
        by_dimensions!("storage_rgba8unorm", "storage_rgba8unorm_3d" from "storage", FORMAT = "rgba8unorm", CHANNEL = "f32"),
    ),
    (
        (ChannelType::Uint32, 1),
        by_dimensions!("storage_r32uint", "storage_r32uint_3d" from "storage", FORMAT = "r32uint", CHANNEL = "u32"),
    ),
    (
        (ChannelType::Sint16, 4),
        by_dimensions!("storage_rgba16sint", "storage_rgba16sint_3d" from "storage", FORMAT = "rgba16sint", CHANNEL = "i32"),
    ),
    (
        (ChannelType::Float32, 4),
        by_dimensions!("storage_rgba32float", "storage_rgba32float_3d" from "storage", FORMAT = "rgba32float", CHANNEL = "f32"),
    ),
];

/// The shader that fetches from such an image.
pub(super) fn texture(spec: &ImageSpec) -> Verdict<Shader> {
    let channels = Channels::of(spec);
    let found = TEXTURES.iter().find(|(of, _)| *of == channels);
    let (_, shaders) = found.ok_or_else(|| Stop::failed(format!("no shader fetches {channels:?}")))?;
    Ok(of_dimensions(*shaders, spec))
}

/// The shader that reads such an input attachment.
pub(super) fn input(spec: &ImageSpec) -> Verdict<Shader> {
    let channels = Channels::of(spec);
    let found = INPUTS.iter().find(|(of, _)| *of == channels);
    found.map(|(_, shader)| *shader).ok_or_else(|| Stop::failed(format!("no shader reads {channels:?}")))
}

/// The shader that stores to such an image and loads from it.
pub(super) fn storage(spec: &ImageSpec) -> Verdict<Shader> {
    let array = spec.format.array;
    let found = STORAGE.iter().find(|(format, _)| *format == (array.channel(), array.channels()));
    let (_, shaders) = found.ok_or_else(|| Stop::failed(format!("no shader stores {array}")))?;
    Ok(of_dimensions(*shaders, spec))
}

/// `true` if [`storage`] has a shader of the format.
pub(super) fn has_storage(spec: &ImageSpec) -> bool {
    storage(spec).is_ok()
}

fn of_dimensions([layered, volume]: ByDimensions, spec: &ImageSpec) -> Shader {
    if matches!(spec.shape, gpu_interop::ArrayShape::D3 { .. }) { volume } else { layered }
}

impl Shader {
    /// The words of the module.
    pub(super) fn words(&self) -> Vec<u32> {
        self.spirv.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gpu_interop_test_support::recording;
    use naga::back::spv;
    use naga::valid::{Capabilities, ValidationFlags, Validator};

    use super::*;

    fn all() -> Vec<Shader> {
        let mut all = vec![DRAW, SAMPLE, WORDS, TEXELS];
        all.extend(TEXTURES.iter().flat_map(|(_, shaders)| *shaders));
        all.extend(INPUTS.iter().map(|(_, shader)| *shader));
        all.extend(STORAGE.iter().flat_map(|(_, shaders)| *shaders));
        all
    }

    fn compiled(shader: &Shader) -> Vec<u8> {
        let mut text = shader.source.text.to_owned();
        for (word, by) in shader.source.replaced {
            text = text.replace(word, by);
        }
        let named = |error: String| format!("{}: {error}", shader.name);
        let module = naga::front::wgsl::parse_str(&text)
            .map_err(|error| named(error.emit_to_string(&text)))
            .unwrap_or_else(|error| panic!("{error}"));
        let info = Validator::new(ValidationFlags::all(), Capabilities::all())
            .validate(&module)
            .map_err(|error| named(error.emit_to_string(&text)))
            .unwrap_or_else(|error| panic!("{error}"));
        let options = spv::Options {
            lang_version: (1, 3),
            // For points.
            flags: spv::WriterFlags::FORCE_POINT_SIZE,
            ..spv::Options::default()
        };
        let words = spv::write_vec(&module, &info, &options, None)
            .unwrap_or_else(|error| panic!("{}", named(error.to_string())));
        let is_input = INPUTS.iter().any(|(_, input)| input.name == shader.name);
        let words = match is_input {
            true => changed(&words, input_attachment),
            false if shader.name == TEXELS.name => changed(&words, texel_buffer),
            false => words,
        };
        words.into_iter().flat_map(u32::to_le_bytes).collect()
    }

    // Numbers of SPIR-V.
    const CAPABILITY: u32 = 17;
    const TYPE_IMAGE: u32 = 25;
    const DECORATE: u32 = 71;
    const IMAGE_FETCH: u32 = 95;
    const IMAGE_READ: u32 = 98;

    /// The module with each instruction changed; others may follow it.
    fn changed(words: &[u32], change: impl Fn(u32, &mut Vec<u32>)) -> Vec<u32> {
        const HEADER: usize = 5;
        let (mut all, mut rest) = (words[..HEADER].to_vec(), &words[HEADER..]);
        while let Some(first) = rest.first() {
            let (instruction, later) = rest.split_at((first >> 16) as usize);
            let mut instruction = instruction.to_vec();
            change(first & 0xffff, &mut instruction);
            all.append(&mut instruction);
            rest = later;
        }
        all
    }

    /// Without the level of detail, which neither has.
    fn without_level(instruction: &mut Vec<u32>, code: u32) {
        instruction.truncate(5);
        instruction[0] = 5 << 16 | code;
    }

    /// One-dimensional images become buffers.
    fn texel_buffer(code: u32, instruction: &mut Vec<u32>) {
        match (code, &mut instruction[1..]) {
            // Sampled1D and Image1D become SampledBuffer and ImageBuffer.
            (CAPABILITY, [capability @ (43 | 44)]) => *capability += 3,
            (TYPE_IMAGE, [_, _, dimension @ 0, ..]) => *dimension = 5,
            (IMAGE_FETCH, _) => without_level(instruction, IMAGE_FETCH),
            _ => {}
        }
    }

    /// The image becomes an input attachment, the first one.
    fn input_attachment(code: u32, instruction: &mut Vec<u32>) {
        match (code, &mut instruction[1..]) {
            // After the capability Shader, InputAttachment.
            (CAPABILITY, [1]) => instruction.extend([2 << 16 | CAPABILITY, 40]),
            // Of the dimension SubpassData, and without a sampler.
            (TYPE_IMAGE, [_, _, dimension @ 1, _, _, _, sampled @ 1, ..]) => (*dimension, *sampled) = (6, 2),
            // After its binding, InputAttachmentIndex.
            (DECORATE, [variable, 33, 9]) => {
                let index = [4 << 16 | DECORATE, *variable, 43, 0];
                instruction.extend(index);
            }
            (IMAGE_FETCH, _) => without_level(instruction, IMAGE_READ),
            _ => {}
        }
    }

    #[test]
    fn the_committed_shaders_are_up_to_date() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders");
        for shader in all() {
            let bytes = compiled(&shader);
            if recording() {
                std::fs::write(folder.join(shader.name).with_extension("spv"), bytes).expect("a file");
            } else {
                assert!(shader.spirv == bytes, "{}.spv is out of date; `cargo xtask record` writes it", shader.name);
            }
        }
    }
}
