//! Files that libdrm and the thunk read besides the topology: the module, the PCI device, its DRM nodes.

use super::Tree;
use crate::abi::drm::MAJOR;
use crate::gpu::Gpu;

pub(super) fn add(tree: &mut Tree, gpus: &[Gpu]) {
    tree.own("/sys/module/amdgpu");
    tree.file("/sys/module/amdgpu/initstate", "live\n");
    tree.file("/sys/module/amdgpu/version", "\n");
    for gpu in gpus {
        device(tree, gpu);
    }
}

fn device(tree: &mut Tree, gpu: &Gpu) {
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
    use super::super::{Found, Node, Path};
    use super::*;
    use crate::gpu::Model;
    use crate::settings::GpuSetting;

    #[test]
    fn a_render_nodes_number_leads_to_its_pci_device() {
        let setting = GpuSetting { model: Model::named("gfx906").unwrap(), address: "0000:03:00.0".parse().unwrap() };
        let mut tree = Tree::default();
        add(&mut tree, &[Gpu::new(0, &setting, 1 << 30, true)]);
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
