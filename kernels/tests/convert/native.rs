//! The kernels' source, compiled for this machine.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use gpu_interop_kernels::convert::Conversion;

use crate::picture::{Direction, Picture};

/// The program, which is removed in the end.
pub(crate) struct Program(PathBuf);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A conversion, the picture before, and the number of threads.
pub(crate) type Case = (Direction, Conversion, Picture, u32);

/// Compiles the program. Prints the reason if there is no compiler.
pub(crate) fn build() -> Option<Program> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Program(std::env::temp_dir().join(format!("gpu-interop-convert-{}", std::process::id())));
    let mut compiler = Command::new("clang-19");
    compiler.args([
        "-std=c17",
        "-O2",
        "-fsanitize=undefined",
        "-fsanitize-trap=undefined",
        "-Wall",
        "-Wextra",
        "-Werror",
    ]);
    compiler.arg("-I").arg(folder.join("device")).arg("-o").arg(&program.0).arg(folder.join("tests/convert/native.c"));
    match compiler.status() {
        Ok(status) => assert!(status.success(), "{compiler:?}"),
        Err(error) => {
            assert!(
                std::env::var_os("GPU_INTEROP_REQUIRE_C").is_none(),
                "GPU_INTEROP_REQUIRE_C is set; install clang-19"
            );
            eprintln!("left out: needs the package clang-19: {error}");
            return None;
        }
    }
    Some(program)
}

impl Program {
    /// The planes of each case after its conversion.
    pub(crate) fn run(&self, cases: &[Case]) -> Vec<[Vec<u8>; 3]> {
        let input: Vec<u8> = cases.iter().flat_map(bytes).collect();
        let mut child =
            Command::new(&self.0).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        let writer = thread::spawn(move || stdin.write_all(&input));
        let output = child.wait_with_output().expect("output");
        writer.join().expect("the writer").expect("the program reads everything");
        assert!(output.status.success(), "{}", output.status);
        let mut rest = &output.stdout[..];
        let mut take = |size: usize| {
            let (plane, after) = rest.split_at(size);
            rest = after;
            plane.to_vec()
        };
        let found = cases.iter().map(|(_, _, picture, _)| picture.planes.each_ref().map(|plane| take(plane.len())));
        found.collect()
    }
}

/// `header` of the program, and the planes.
fn bytes((direction, conversion, picture, threads): &Case) -> Vec<u8> {
    let (to_yuv, numbers) = match direction {
        Direction::ToRgba => (0, conversion.yuv_to_rgba_numbers(&picture.layout).to_vec()),
        Direction::ToYuv => (1, conversion.rgba_to_yuv_numbers(&picture.layout).to_vec()),
    };
    let sizes = picture.planes.each_ref().map(|plane| plane.len() as u32);
    let mut words = [&[to_yuv, *threads][..], &sizes, &numbers].concat();
    words.resize(2 + 3 + 18, 0);
    words.into_iter().flat_map(u32::to_le_bytes).chain(picture.planes.iter().flatten().copied()).collect()
}
