//! The program `ffmpeg`: its software encoder, and its decoder.

use std::error::Error;
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use crate::Missing;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Colours of the picture, for players.
const COLOURS: &str = "-color_range tv -colorspace bt709 -color_primaries bt709 -color_trc bt709";

/// Encodes a tightly packed NV12 picture to a file of H.264 with libx264. Quantisation by 0 is lossless.
pub(crate) fn encode(program: &Path, file: &Path, [width, height]: [u32; 2], nv12: &[u8], qp: u32) -> Result<()> {
    let mut command = Command::new(program);
    command.args(["-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "nv12", "-video_size"]);
    command.arg(format!("{width}x{height}")).args(["-i", "-", "-c:v", "libx264", "-qp"]).arg(qp.to_string());
    command.args(COLOURS.split(' ')).args(["-f", "h264"]).arg(file);
    run(command, nv12).map(drop)
}

/// Decodes the frames of a file, to tightly packed NV12.
pub(crate) fn decode(program: &Path, file: &Path) -> Result<Vec<u8>> {
    let mut command = Command::new(program);
    command.args(["-v", "error", "-f", "h264", "-i"]).arg(file);
    command.args(["-f", "rawvideo", "-pix_fmt", "nv12", "-"]);
    run(command, &[])
}

/// Runs ffmpeg with this input. Returns its output.
fn run(mut command: Command, input: &[u8]) -> Result<Vec<u8>> {
    let name = command.get_program().display().to_string();
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => Missing::Ffmpeg(name.clone()).into(),
        _ => Box::<dyn Error>::from(format!("{name}: {error}")),
    })?;
    let stdin = child.stdin.take();
    let output = thread::scope(|scope| {
        // ffmpeg may end before it has read everything: then its message says why.
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input)));
        child.wait_with_output()
    })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let text = String::from_utf8_lossy(&output.stderr);
    if text.contains("Unknown encoder") {
        return Err(Missing::Libx264(name).into());
    }
    Err(format!("{name}: {}: {}", output.status, text.trim()).into())
}
