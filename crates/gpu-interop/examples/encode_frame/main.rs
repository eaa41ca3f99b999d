//! Example: a picture of Vulkan, converted to NV12 by the compute device, encoded as H.264, decoded again and compared.
//!
//! Vulkan's buffer is imported, and the kernel of `gpu_interop_kernels::convert` converts it on a stream that waits for
//! Vulkan by a timeline. The video engine of an NVIDIA GPU (NVENC) encodes the result from device memory, through the
//! driver's `libnvidia-encode`. Without that engine, ffmpeg's software encoder gets the bytes. ffmpeg decodes the file. The
//! picture is compared with the conversion on the CPU: lossless bytes must be equal, others have at least 40 dB.
//!
//! ```sh
//! cargo run --release -p gpu-interop --example encode_frame -- --output frame.h264
//! ```
//!
//! | option | meaning |
//! |---|---|
//! | `--encoder nvenc` | NVIDIA's video engine, without another encoder in its place |
//! | `--encoder ffmpeg` | ffmpeg's software encoder, also where a video engine is present |
//! | `--lossy` | ffmpeg encodes with loss, as the engine always does |
//! | `--output FILE` | the encoded picture (default: in the temporary folder) |
//! | `--library FILE` | NVIDIA's encoder library (default: `libnvidia-encode.so.1`) |
//! | `--ffmpeg FILE` | the program (default: `ffmpeg`) |
//!
//! Exit status: 0 if the pictures agree, 77 without the encoder that was asked for or without ffmpeg, otherwise 1. The part
//! for NVENC has run with a fake of the library only.

mod abi;
#[path = "../driver_library/mod.rs"]
mod driver_library;
mod ffmpeg;
mod nvenc;
mod picture;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use gpu_interop::vulkan::{HeadlessContext, HeadlessOptions};

use crate::nvenc::NoEncoder;
use crate::picture::{EXTENT, NV12_SIZE};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// As of the tests that this project skips.
const WITHOUT_ENCODER: u8 = 77;
/// Least ratio of the peak to the noise after a lossy encoding, in dB.
const LEAST_RATIO: f64 = 40.0;
/// Constant quantisation of lossy encodings.
const LOSSY: u32 = 10;

/// A program that the machine lacks.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Missing {
    #[error("the program {0} is not found; install ffmpeg (Debian: the package ffmpeg), or pass --ffmpeg")]
    Ffmpeg(String),
    #[error("{0} lacks the encoder libx264; install an ffmpeg that has it, as Debian's does, or pass --ffmpeg")]
    Libx264(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoder {
    Any,
    Nvenc,
    Ffmpeg,
}

struct Options {
    encoder: Encoder,
    lossy: bool,
    output: PathBuf,
    library: PathBuf,
    ffmpeg: PathBuf,
}

impl Options {
    fn parse() -> Result<Self> {
        let mut options = Self {
            encoder: Encoder::Any,
            lossy: false,
            output: std::env::temp_dir().join("encode_frame.h264"),
            library: nvenc::NAME.into(),
            ffmpeg: "ffmpeg".into(),
        };
        let mut arguments = std::env::args_os().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{} needs a value", argument.display()));
            match argument.to_str() {
                Some("--encoder") => {
                    options.encoder = match value()?.to_str() {
                        Some("nvenc") => Encoder::Nvenc,
                        Some("ffmpeg") => Encoder::Ffmpeg,
                        _ => return Err("--encoder takes nvenc or ffmpeg".into()),
                    }
                }
                Some("--lossy") => options.lossy = true,
                Some("--output") => options.output = value()?.into(),
                Some("--library") => options.library = value()?.into(),
                Some("--ffmpeg") => options.ffmpeg = value()?.into(),
                _ => return Err(format!("unknown option {}", argument.display()).into()),
            }
        }
        Ok(options)
    }
}

fn run(options: &Options) -> Result<()> {
    let vulkan = HeadlessContext::new(&HeadlessOptions::default())?;
    let device = gpu_interop::device_for(vulkan.identity())?;
    let stream = device.create_stream()?;
    let (_exported, nv12) = picture::converted(&vulkan, &device, &stream)?;

    let (program, file) = (&options.ffmpeg, &options.output);
    let by_engine = match options.encoder {
        Encoder::Ffmpeg => None,
        wanted => match nvenc::encode(&options.library, &device, &stream, (&nv12).into(), EXTENT, LOSSY) {
            Err(error) if wanted == Encoder::Any && error.is::<NoEncoder>() => {
                eprintln!("ffmpeg encodes: {error}");
                None
            }
            encoded => Some(encoded?),
        },
    };
    let (encoder, lossy) = match by_engine {
        Some(bytes) => {
            std::fs::write(file, bytes)?;
            ("NVENC", true)
        }
        None => {
            let mut bytes = vec![0; usize::try_from(NV12_SIZE)?];
            stream.read(&nv12, &mut bytes)?;
            ffmpeg::encode(program, file, EXTENT, &bytes, if options.lossy { LOSSY } else { 0 })?;
            ("libx264", options.lossy)
        }
    };

    let (different, ratio) = picture::compare(&picture::expected()?, &ffmpeg::decode(program, file)?)?;
    let size = std::fs::metadata(file)?.len();
    println!(
        "{} converted {NV12_SIZE} bytes, {encoder} encoded {size}: {different} differ after decoding, {ratio:.1} dB: {}",
        device.identity(),
        file.display()
    );
    match (lossy, different) {
        (false, 1..) => Err("a lossless picture differs".into()),
        (true, _) if ratio < LEAST_RATIO => Err(format!("the ratio is below {LEAST_RATIO} dB").into()),
        _ => Ok(()),
    }
}

fn main() -> ExitCode {
    match Options::parse().and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            let is_missing = error.is::<NoEncoder>() || error.is::<Missing>();
            if is_missing { ExitCode::from(WITHOUT_ENCODER) } else { ExitCode::FAILURE }
        }
    }
}
