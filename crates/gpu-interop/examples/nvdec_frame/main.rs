//! Example: a clip of H.264, decoded by the video engine of an NVIDIA GPU (NVDEC), in an NV12 image of Vulkan.
//!
//! The driver's `libnvcuvid` decodes to its own memory. The library borrows that memory, copies each picture to the planes
//! of the image on a stream, and orders the stream and Vulkan by two timelines. Vulkan copies the image to the host. Each
//! frame must have the SHA-256 of the same frame of ffmpeg's software decoder. The last frame is written as a PNG.
//!
//! ```sh
//! cargo run --release -p gpu-interop --features cudarc --example nvdec_frame -- --picture frame.png
//! ```
//!
//! | option | meaning |
//! |---|---|
//! | `--clip FILE` | elementary stream, H.264 4:2:0 of 8 bits (default: `clip.h264` of the example) |
//! | `--hashes FILE` | SHA-256 of each frame's NV12 bytes (default: `clip.sha256` of the example) |
//! | `--picture FILE` | the PNG (default: in the temporary folder) |
//! | `--library FILE` | NVIDIA's decoder library (default: `libnvcuvid.so.1`) |
//! | `--linear` | an image of linear tiling, row by row, also where optimal tiling is supported |
//! | `--verbose` | prints each call of the decoder |
//!
//! Exit status: 0 if all frames are equal, 77 without the decoder library or engine, otherwise 1. The script
//! `make_clip.sh` made the clip and its hashes.

mod abi;
mod decoder;
#[path = "../driver_library/mod.rs"]
mod driver_library;
mod library;
mod picture;
mod shared;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gpu_interop::cudarc::context_for;
use gpu_interop::vulkan::{HeadlessContext, HeadlessOptions};

use crate::decoder::{Gpu, decode};
use crate::library::{Missing, NAME, Nvcuvid};
use crate::shared::Shared;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// `true` with `--verbose`.
pub(crate) static VERBOSE: AtomicBool = AtomicBool::new(false);

/// Prints a line to the standard error, if that is wanted.
pub(crate) fn note(text: std::fmt::Arguments<'_>) {
    if VERBOSE.load(Ordering::Relaxed) {
        eprintln!("nvdec_frame: {text}");
    }
}

/// As of the tests that this project skips.
const WITHOUT_DECODER: u8 = 77;

struct Options {
    clip: PathBuf,
    hashes: PathBuf,
    picture: PathBuf,
    library: PathBuf,
    linear: bool,
}

impl Options {
    fn parse() -> Result<Self> {
        // Set by `cargo run`.
        let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
        let folder = package.join("examples/nvdec_frame");
        let mut options = Self {
            clip: folder.join("clip.h264"),
            hashes: folder.join("clip.sha256"),
            picture: std::env::temp_dir().join("nvdec_frame.png"),
            library: NAME.into(),
            linear: false,
        };
        let mut arguments = std::env::args_os().skip(1);
        while let Some(argument) = arguments.next() {
            let file = match argument.to_str() {
                Some("--clip") => &mut options.clip,
                Some("--hashes") => &mut options.hashes,
                Some("--picture") => &mut options.picture,
                Some("--library") => &mut options.library,
                Some("--linear") => {
                    options.linear = true;
                    continue;
                }
                Some("--verbose") => {
                    VERBOSE.store(true, Ordering::Relaxed);
                    continue;
                }
                _ => return Err(format!("unknown option {}", argument.display()).into()),
            };
            *file = arguments.next().ok_or_else(|| format!("{} needs a file", argument.display()))?.into();
        }
        Ok(options)
    }
}

fn run(options: &Options) -> Result<()> {
    let library = Arc::new(Nvcuvid::load(&options.library).map_err(Missing::from)?);
    let file = options.clip.display();
    let clip = std::fs::read(&options.clip).map_err(|error| format!("{file}: {error}; pass --clip"))?;
    let hashes = picture::hashes(&options.hashes)?;

    let vulkan = HeadlessContext::new(&HeadlessOptions::default())?;
    note(format_args!("Vulkan: {}", vulkan.identity()));
    // The primary context is current on this thread from here on, as the decoder requires.
    let (device, context) = context_for(vulkan.identity())?;
    note(format_args!("CUDA: {}", device.identity()));
    let gpu = Gpu { stream: device.create_stream()?, device, context };

    let (mut shared, mut last, mut frames, mut equal) = (None, None, 0, 0);
    decode(&library, &gpu, &clip, &mut |picture| {
        if shared.is_none() {
            shared = Some(Shared::new(&vulkan, &gpu, picture.extent, options.linear)?);
        }
        let Some(shared) = &mut shared else { return Ok(()) };
        let bytes = shared.show(&picture)?;
        let (found, expected) = (picture::hash(&bytes), hashes.get(frames));
        if expected == Some(&found) {
            equal += 1;
        } else {
            eprintln!("frame {frames}: {found} instead of {}", expected.map_or("no frame", String::as_str));
        }
        frames += 1;
        last = Some((picture.extent, bytes));
        Ok(())
    })?;
    gpu.stream.synchronize()?;

    if let Some((extent, bytes)) = last {
        picture::write_png(&options.picture, extent, &bytes)?;
    }
    let (total, shown) = (hashes.len().max(frames), options.picture.display());
    let how = shared.map(|shared| shared.describe()).unwrap_or_default();
    println!("{equal} of {total} frames equal the software decoder's, {how}, with {}: {shown}", gpu.device.identity());
    if equal == total && total > 0 { Ok(()) } else { Err("frames differ from the software decoder's".into()) }
}

fn main() -> ExitCode {
    match Options::parse().and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            if error.is::<Missing>() { ExitCode::from(WITHOUT_DECODER) } else { ExitCode::FAILURE }
        }
    }
}
