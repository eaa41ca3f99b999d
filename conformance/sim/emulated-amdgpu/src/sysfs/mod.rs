//! The kernel's files below `/sys` and its devices below `/dev`: a tree of folders, files, links and devices in memory,
//! by absolute path. Besides the topology, libdrm and the thunk read files of the module, of the PCI devices and of their
//! DRM nodes. The folder `/dev/dri` lists the emulated render nodes only; others are opened by their path.

mod topology;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::abi::drm::MAJOR;
use crate::emulation::Device;
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
    tree.add("/dev/kfd", Node::Device(Device::Kfd));
    tree.folder("/dev/dri");
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
    tree.add(&format!("/dev/dri/renderD{minor}"), Node::Device(Device::Render(gpu.index)));
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

/// Result of the lookup of a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// The path belongs to the system.
    Other,
    /// The path belongs to the emulation, which has no node there.
    Missing,
    Device(Device),
    Found(Found),
}

/// A node of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    Folder,
    File(Vec<u8>),
    Link(String),
    Device(Device),
}

/// A node, and its path after links are followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) path: String,
    pub(crate) node: Node,
}

/// Nodes by path, and the folders whose whole content is emulated.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: BTreeMap<String, Node>,
    owned: Vec<String>,
}

/// Maximum number of links in one path.
const LINKS: usize = 16;

impl Tree {
    /// Makes the tree own a path and everything below it: other nodes do not exist there.
    fn own(&mut self, path: &str) {
        self.owned.push(path.to_owned());
        self.nodes.insert(path.to_owned(), Node::Folder);
    }

    /// Adds a file, and the folders between it and the owned one.
    fn file(&mut self, path: &str, contents: impl Into<Vec<u8>>) {
        self.add(path, Node::File(contents.into()));
    }

    fn link(&mut self, path: &str, target: &str) {
        self.add(path, Node::Link(target.to_owned()));
    }

    fn folder(&mut self, path: &str) {
        self.add(path, Node::Folder);
    }

    fn add(&mut self, path: &str, node: Node) {
        for (at, _) in path.match_indices('/').skip(1) {
            let folder = path.get(..at).unwrap_or_default();
            if self.owns(folder) {
                self.nodes.entry(folder.to_owned()).or_insert(Node::Folder);
            }
        }
        self.nodes.insert(path.to_owned(), node);
    }

    fn owns(&self, path: &str) -> bool {
        self.owned
            .iter()
            .any(|owned| path.strip_prefix(owned.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    }

    fn look_up(&self, path: &str, follow: bool) -> Path {
        let mut path = normalised(path);
        for _ in 0..LINKS {
            let Some((link, target)) = self.first_link(&path, follow) else { break };
            let rest = path.get(link.len()..).unwrap_or_default().to_owned();
            let target = match target.starts_with('/') {
                true => target.to_owned(),
                false => format!("{}/{target}", link.rsplit_once('/').map_or("", |(folder, _)| folder)),
            };
            path = normalised(&(target + &rest));
        }
        match self.nodes.get(&path) {
            Some(Node::Device(device)) => Path::Device(*device),
            Some(node) => Path::Found(Found { path, node: node.clone() }),
            None if self.owns(&path) => Path::Missing,
            None => Path::Other,
        }
    }

    /// The first component that is a link.
    fn first_link<'a>(&'a self, path: &'a str, follow: bool) -> Option<(&'a str, &'a str)> {
        let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain(follow.then_some(path.len()));
        ends.filter_map(|end| path.get(..end)).find_map(|prefix| match self.nodes.get(prefix) {
            Some(Node::Link(target)) => Some((prefix, target.as_str())),
            _ => None,
        })
    }

    fn list(&self, folder: &str) -> Vec<(String, Node)> {
        let below = format!("{folder}/");
        let nodes = self.nodes.range(below.clone()..).take_while(|(path, _)| path.starts_with(&below));
        nodes
            .filter_map(|(path, node)| Some((path.get(below.len()..)?.to_owned(), node.clone())))
            .filter(|(name, _)| !name.contains('/'))
            .collect()
    }
}

/// Normalises a path: removes empty components, `.` and `..`.
fn normalised(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
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

    #[test]
    fn render_nodes_are_listed_as_devices_and_others_are_the_systems() {
        let gpu = |index, address: &str| {
            let setting = GpuSetting { model: Model::named("gfx906").unwrap(), address: address.parse().unwrap() };
            Gpu::new(index, &setting, 1 << 30, true)
        };
        let mut tree = Tree::default();
        add_devices(&mut tree, &[gpu(0, "0000:03:00.0"), gpu(1, "0000:43:00.0")]);
        let render = |gpu| Node::Device(Device::Render(gpu));
        let nodes = [("renderD128".to_owned(), render(0)), ("renderD129".to_owned(), render(1))];
        assert_eq!(tree.list("/dev/dri"), nodes);
        assert_eq!(tree.look_up("/dev/dri/renderD129", true), Path::Device(Device::Render(1)));
        assert_eq!(tree.look_up("/dev/kfd", true), Path::Device(Device::Kfd));
        assert_eq!(tree.look_up("/dev/dri/renderD130", true), Path::Other);
        assert_eq!(tree.look_up("/dev/null", true), Path::Other);
    }

    fn tree() -> Tree {
        let mut tree = Tree::default();
        tree.own("/sys/a");
        tree.file("/sys/a/b/c", "text");
        tree.file("/sys/a/b/d/e", "more");
        tree.link("/sys/a/up", "b/d");
        tree.link("/sys/elsewhere", "/sys/a/b");
        tree
    }

    fn contents(path: &str) -> Option<Vec<u8>> {
        match tree().look_up(path, true) {
            Path::Found(Found { node: Node::File(contents), .. }) => Some(contents),
            _ => None,
        }
    }

    #[test]
    fn files_are_found_by_every_spelling() {
        assert_eq!(contents("/sys/a//b/./x/../c"), Some(b"text".to_vec()));
        assert_eq!(contents("/sys/a/up/e"), Some(b"more".to_vec()));
        assert_eq!(contents("/sys/elsewhere/d/e"), Some(b"more".to_vec()));
        assert_eq!(contents("/sys/a/b"), None);
    }

    #[test]
    fn owned_folders_have_nothing_else_and_others_are_the_systems() {
        assert_eq!(tree().look_up("/sys/a/b/x", true), Path::Missing);
        assert_eq!(tree().look_up("/sys/ab", true), Path::Other);
        assert_eq!(tree().look_up("/sys", true), Path::Other);
        let link = Node::Link("b/d".to_owned());
        assert_eq!(tree().look_up("/sys/a/up", false), Path::Found(Found { path: "/sys/a/up".to_owned(), node: link }));
    }

    #[test]
    fn folders_are_listed_without_what_is_deeper() {
        let names: Vec<_> = tree().list("/sys/a").into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["b", "up"]);
        let names: Vec<_> = tree().list("/sys/a/b").into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["c", "d"]);
    }
}
