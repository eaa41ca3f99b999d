//! The kernel's files below `/sys`: a tree in memory.

mod devices;
mod topology;
mod tree;

use std::sync::OnceLock;

pub(crate) use self::tree::{Found, Node, Path, Tree};
use crate::files::Device;
use crate::gpu::Gpu;
use crate::settings::settings;

/// The emulated tree.
#[derive(Debug)]
struct Names {
    tree: Tree,
    gpus: Vec<Gpu>,
}

fn names() -> Option<&'static Names> {
    static NAMES: OnceLock<Option<Names>> = OnceLock::new();
    let build = || {
        let gpus = crate::emulation::gpus(settings()?);
        let mut tree = Tree::default();
        topology::add(&mut tree, &gpus);
        devices::add(&mut tree, &gpus);
        Some(Names { tree, gpus })
    };
    NAMES.get_or_init(build).as_ref()
}

/// Looks up a path. `follow`: a link at its end is followed.
pub(crate) fn look_up(path: &[u8], follow: bool) -> Path {
    // Fast path for almost all paths.
    if !path.starts_with(b"/sys/") && !path.starts_with(b"/dev/") {
        return Path::Other;
    }
    let (Ok(path), Some(names)) = (std::str::from_utf8(path), names()) else { return Path::Other };
    if path == "/dev/kfd" {
        return Path::Device(Device::Kfd);
    }
    if let Some(minor) = path.strip_prefix("/dev/dri/renderD") {
        let gpu = names.gpus.iter().find(|gpu| gpu.render_minor().to_string() == minor);
        return gpu.map_or(Path::Other, |gpu| Path::Device(Device::Render(gpu.index)));
    }
    names.tree.look_up(path, follow)
}

/// The render node's minor number of a GPU.
pub(crate) fn render_minor(gpu: usize) -> Option<u32> {
    names()?.gpus.get(gpu).map(Gpu::render_minor)
}

/// Names and nodes in a folder of the tree.
pub(crate) fn list(folder: &str) -> Vec<(String, Node)> {
    names().map_or_else(Vec::new, |names| names.tree.list(folder))
}
