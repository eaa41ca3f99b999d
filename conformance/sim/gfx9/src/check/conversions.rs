//! The project's conversion kernels for gfx906, executed from their code object, against their CPU versions.

use std::sync::atomic::{AtomicU8, Ordering};

use gpu_interop_kernels::convert::{Conversion, Layout, Matrix, Range, RgbOrder, Siting, YuvFormat, cpu, plane_sizes};
use gpu_interop_kernels::{code_object, write_pattern};

use super::program::{Grid, Program, finish};
use super::space::{Space, bytes_of};

/// Executes a kernel, and returns the planes after it.
fn execute(name: &str, planes: &[Vec<u8>; 3], numbers: &[u32], threads: u32) -> [Vec<u8>; 3] {
    let mut space = Space::default();
    let program = Program::load(&mut space, code_object("gfx906").expect("a code object"));
    // Each in a mapping of its size, so that an access beyond it fails.
    let addresses = planes.each_ref().map(|plane| space.map(plane, true));
    let mut arguments: Vec<u8> = addresses.iter().flat_map(|address| address.to_le_bytes()).collect();
    arguments.extend(bytes_of(numbers));
    let mut dispatch = program.dispatch(&mut space, name, Grid::line(threads, 64), &arguments);
    finish(&mut dispatch, &space).unwrap_or_else(|stop| panic!("{name}: {stop}"));
    addresses.map(|address| space.bytes(address))
}

#[test]
fn prebuilt_conversions_write_the_bytes_of_the_cpu_versions() {
    let conversions = [
        Conversion { matrix: Matrix::Bt709, range: Range::Limited, siting: Siting::Left },
        Conversion { matrix: Matrix::Bt601, range: Range::Full, siting: Siting::Center },
        Conversion { matrix: Matrix::Bt2020, range: Range::Limited, siting: Siting::Center },
    ];
    // One texel, an odd size, and whole blocks; aligned or not.
    let sizes = [([1_u32, 1], 0), ([35, 7], 4), ([64, 8], 0), ([18, 5], 0)];
    let formats = [(YuvFormat::Nv12, RgbOrder::Rgba), (YuvFormat::P010, RgbOrder::Bgra)];
    let mut seed = 0;
    for conversion in conversions {
        for ([width, height], padding) in sizes {
            for (yuv, rgb) in formats {
                let pitches =
                    [width * 2, width.div_ceil(2) * 4, width * 4].map(|row| row.next_multiple_of(16) + padding);
                let layout = Layout { extent: [width, height], yuv, rgb, pitches };
                let to_rgba = conversion.yuv_to_rgba_numbers(&layout);
                let to_yuv = conversion.rgba_to_yuv_numbers(&layout);
                let planes = plane_sizes(&to_rgba).expect("a size").map(|size| {
                    seed += 1;
                    let mut plane = vec![0; size as usize];
                    write_pattern(seed, 0, &mut plane);
                    plane
                });
                let on_cpu = |run: &dyn Fn([&[AtomicU8]; 3])| {
                    let atomic =
                        planes.each_ref().map(|plane| plane.iter().copied().map(AtomicU8::new).collect::<Vec<_>>());
                    run(atomic.each_ref().map(Vec::as_slice));
                    atomic.map(|plane| plane.iter().map(|byte| byte.load(Ordering::Relaxed)).collect::<Vec<_>>())
                };
                let what = format!("{conversion:?} {layout:?}");
                let found = execute("yuv_to_rgba", &planes, &to_rgba, 200);
                assert!(found == on_cpu(&|planes| cpu::yuv_to_rgba(planes, &to_rgba)), "to RGBA: {what}");
                let found = execute("rgba_to_yuv", &planes, &to_yuv, 70);
                assert!(found == on_cpu(&|planes| cpu::rgba_to_yuv(planes, &to_yuv)), "to YUV: {what}");
            }
        }
    }
}
