//! The kernel's files below `/sys`: a tree in memory. Besides the topology, libdrm and the thunk read files of the module,
//! of the PCI devices and of their DRM nodes.

mod topology;
mod tree;

use std::sync::OnceLock;

use crate::abi::drm::MAJOR;
use crate::emulation::Device;
use crate::gpu::Gpu;
use crate::settings::settings;
pub(crate) use crate::sysfs::tree::{Found, Node, Path, Tree};

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
        add_devices(&mut tree, &gpus);
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

fn add_devices(tree: &mut Tree, gpus: &[Gpu]) {
    tree.own("/sys/module/amdgpu");
    tree.file("/sys/module/amdgpu/initstate", "live\n");
    tree.file("/sys/module/amdgpu/version", "\n");
    for gpu in gpus {
        add_device(tree, gpu);
    }
}

fn add_device(tree: &mut Tree, gpu: &Gpu) {
    let device = format!("/sys/bus/pci/devices/{}", gpu.address);
    let (minor, card) = (gpu.render_minor(), gpu.index);
    tree.own(&device);
    let numbers = [
        ("vendor", 0x1002),
        ("device", gpu.model.pci_device),
        ("subsystem_vendor", 0x1002),
        ("subsystem_device", gpu.model.pci_device),
        ("revision", 0xc1),
        ("class", 0x03_8000),
    ];
    for (name, number) in numbers {
        tree.file(&format!("{device}/{name}"), format!("{number:#06x}\n"));
    }
    let uevent = format!(
        "DRIVER=amdgpu\nPCI_CLASS=38000\nPCI_ID=1002:{:04X}\nPCI_SUBSYS_ID=1002:{0:04X}\nPCI_SLOT_NAME={}\n",
        gpu.model.pci_device, gpu.address
    );
    tree.file(&format!("{device}/uevent"), uevent);
    tree.link(&format!("{device}/subsystem"), "/sys/bus/pci");
    tree.link(&format!("{device}/driver"), "/sys/bus/pci/drivers/amdgpu");
    for (name, minor) in [(format!("card{card}"), card.to_string()), (format!("renderD{minor}"), minor.to_string())] {
        let node = format!("{device}/drm/{name}");
        tree.file(&format!("{node}/dev"), format!("{MAJOR}:{minor}\n"));
        tree.file(
            &format!("{node}/uevent"),
            format!("MAJOR={MAJOR}\nMINOR={minor}\nDEVNAME=dri/{name}\nDEVTYPE=drm_minor\n"),
        );
        tree.link(&format!("{node}/device"), &device);
    }
    let number = format!("/sys/dev/char/{MAJOR}:{minor}");
    tree.own(&number);
    tree.link(&number, &format!("{device}/drm/renderD{minor}"));
    let class = format!("/sys/class/drm/renderD{minor}");
    tree.own(&class);
    tree.link(&class, &format!("{device}/drm/renderD{minor}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::{GpuSetting, Model};

    #[test]
    fn a_render_nodes_number_leads_to_its_pci_device() {
        let setting = GpuSetting { model: Model::named("gfx906").unwrap(), address: "0000:03:00.0".parse().unwrap() };
        let mut tree = Tree::default();
        add_devices(&mut tree, &[Gpu::new(0, &setting, 1 << 30, true)]);
        let found = |path| match tree.look_up(path, true) {
            Path::Found(Found { node: Node::File(contents), .. }) => String::from_utf8(contents).unwrap(),
            other => panic!("{path}: {other:?}"),
        };
        assert_eq!(found("/sys/dev/char/226:128/device/device"), "0x66a0\n");
        assert!(found("/sys/class/drm/renderD128/device/uevent").contains("PCI_SLOT_NAME=0000:03:00.0\n"));
        let nodes: Vec<_> =
            tree.list("/sys/bus/pci/devices/0000:03:00.0/drm").into_iter().map(|(name, _)| name).collect();
        assert_eq!(nodes, ["card0", "renderD128"]);
    }
}
