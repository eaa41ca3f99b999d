//! KFD's topology: a node for the CPU and one for each GPU, with memory banks, caches and links.

use super::Tree;
use crate::gpu::Gpu;

const ROOT: &str = "/sys/devices/virtual/kfd/kfd/topology";

/// The kinds of memory banks.
const HEAP_SYSTEM: u32 = 0;
const HEAP_VRAM_PUBLIC: u32 = 1;
const HEAP_VRAM_PRIVATE: u32 = 2;

/// The kinds of links.
const LINK_PCIE: u32 = 2;

/// Lines with a name and a number.
fn text(properties: &[(&str, u64)]) -> String {
    properties.iter().map(|(name, value)| format!("{name} {value}\n")).collect()
}

pub(super) fn add(tree: &mut Tree, gpus: &[Gpu]) {
    tree.own("/sys/devices/virtual/kfd");
    tree.own("/sys/class/kfd");
    tree.link("/sys/class/kfd/kfd", "/sys/devices/virtual/kfd/kfd");
    tree.file(&format!("{ROOT}/generation_id"), "1\n");
    tree.file(
        &format!("{ROOT}/system_properties"),
        text(&[("platform_oem", 0), ("platform_id", 0), ("platform_rev", 0)]),
    );
    processor(tree, gpus);
    for gpu in gpus {
        node(tree, gpu, gpus);
    }
}

fn processor(tree: &mut Tree, gpus: &[Gpu]) {
    // The CPU has a link to the GPUs whose memory it can map. Newer runtimes check it before they map memory.
    let reached = || gpus.iter().filter(|gpu| gpu.large_bar);
    let node = format!("{ROOT}/nodes/0");
    // Not through the standard library, which opens files below /sys; those calls would be intercepted while the tree
    // is built. SAFETY: the call takes a number and returns one.
    let cores = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    tree.file(&format!("{node}/gpu_id"), "0\n");
    tree.file(&format!("{node}/name"), "\n");
    let properties = [
        ("cpu_cores_count", u64::try_from(cores).unwrap_or(1)),
        ("simd_count", 0),
        ("mem_banks_count", 1),
        ("caches_count", 0),
        ("io_links_count", reached().count() as u64),
        ("cpu_core_id_base", 0),
        ("simd_id_base", 0),
        ("max_waves_per_simd", 0),
        ("lds_size_in_kb", 0),
        ("gds_size_in_kb", 0),
        ("wave_front_size", 0),
        ("array_count", 0),
        ("simd_arrays_per_engine", 0),
        ("cu_per_simd_array", 0),
        ("simd_per_cu", 0),
        ("max_slots_scratch_cu", 0),
        ("vendor_id", 0),
        ("device_id", 0),
        ("location_id", 0),
        ("drm_render_minor", 0),
        ("max_engine_clk_ccompute", 3000),
    ];
    tree.file(&format!("{node}/properties"), text(&properties));
    tree.folder(&format!("{node}/caches"));
    bank(tree, &node, HEAP_SYSTEM, 8 << 30, 72, 2400);
    for (number, gpu) in reached().enumerate() {
        link(tree, &node, "io_links", number, 0, gpu.node());
    }
}

fn node(tree: &mut Tree, gpu: &Gpu, gpus: &[Gpu]) {
    let node = format!("{ROOT}/nodes/{}", gpu.node());
    let units = u64::from(gpu.model.compute_units);
    tree.file(&format!("{node}/gpu_id"), format!("{}\n", gpu.id()));
    tree.file(&format!("{node}/name"), format!("{}\n", gpu.model.family_name));
    let properties = [
        ("cpu_cores_count", 0),
        ("simd_count", units * 4),
        ("mem_banks_count", 1),
        ("caches_count", 2),
        ("io_links_count", 1),
        ("p2p_links_count", gpus.len() as u64 - 1),
        ("cpu_core_id_base", 0),
        ("simd_id_base", u64::from(gpu.first_simd())),
        ("max_waves_per_simd", 10),
        ("lds_size_in_kb", 64),
        ("gds_size_in_kb", 0),
        ("num_gws", 0),
        ("wave_front_size", 64),
        ("array_count", units),
        ("simd_arrays_per_engine", 1),
        ("cu_per_simd_array", 1),
        ("simd_per_cu", 4),
        ("max_slots_scratch_cu", 32),
        ("gfx_target_version", u64::from(gpu.model.target_version)),
        ("vendor_id", 0x1002),
        ("device_id", u64::from(gpu.model.pci_device)),
        ("location_id", u64::from(gpu.location())),
        ("domain", u64::from(gpu.address.domain)),
        ("drm_render_minor", u64::from(gpu.render_minor())),
        ("hive_id", 0),
        ("num_sdma_engines", 2),
        ("num_sdma_xgmi_engines", 0),
        ("num_sdma_queues_per_engine", 8),
        ("num_cp_queues", 24),
        ("max_engine_clk_fcompute", 1500),
        ("local_mem_size", 0),
        ("fw_version", 440),
        ("capability", 8832),
        ("debug_prop", 0),
        ("sdma_fw_version", 430),
        ("unique_id", gpu.unique_id()),
        ("num_xcc", 1),
        ("max_engine_clk_ccompute", 3000),
    ];
    tree.file(&format!("{node}/properties"), text(&properties));
    let heap = if gpu.large_bar { HEAP_VRAM_PUBLIC } else { HEAP_VRAM_PRIVATE };
    bank(tree, &node, heap, gpu.vram, 2048, 945);
    for (number, level, kilobytes) in [(0, 1, 16), (1, 2, 4096)] {
        cache(tree, &node, gpu, number, level, kilobytes);
    }
    link(tree, &node, "io_links", 0, gpu.node(), 0);
    for (number, peer) in gpus.iter().filter(|peer| peer.index != gpu.index).enumerate() {
        link(tree, &node, "p2p_links", number, gpu.node(), peer.node());
    }
}

fn bank(tree: &mut Tree, node: &str, heap: u32, size: u64, width: u64, clock: u64) {
    let properties = [
        ("heap_type", u64::from(heap)),
        ("size_in_bytes", size),
        ("flags", 0),
        ("width", width),
        ("mem_clk_max", clock),
    ];
    tree.file(&format!("{node}/mem_banks/0/properties"), text(&properties));
}

fn cache(tree: &mut Tree, node: &str, gpu: &Gpu, number: u32, level: u64, kilobytes: u64) {
    let properties = [
        ("processor_id_low", u64::from(gpu.first_simd())),
        ("level", level),
        ("size", kilobytes),
        ("cache_line_size", 64),
        ("cache_lines_per_tag", 1),
        ("association", 16),
        ("latency", 0),
        // A data cache of the GPU.
        ("type", 9),
    ];
    let text = text(&properties) + "sibling_map 1,0,0,0\n";
    tree.file(&format!("{node}/caches/{number}/properties"), text);
}

fn link(tree: &mut Tree, node: &str, folder: &str, number: usize, from: u32, to: u32) {
    let properties = [
        ("type", u64::from(LINK_PCIE)),
        ("version_major", 0),
        ("version_minor", 0),
        ("node_from", u64::from(from)),
        ("node_to", u64::from(to)),
        ("weight", 20),
        ("min_latency", 0),
        ("max_latency", 0),
        ("min_bandwidth", 0),
        ("max_bandwidth", 0),
        ("recommended_transfer_size", 0),
        // Enabled.
        ("flags", 1),
    ];
    tree.file(&format!("{node}/{folder}/{number}/properties"), text(&properties));
}

#[cfg(test)]
mod tests {
    use super::super::{Found, Node, Path};
    use super::*;
    use crate::gpu::Model;
    use crate::settings::GpuSetting;

    fn contents(tree: &Tree, path: &str) -> String {
        match tree.look_up(&format!("{ROOT}/{path}"), true) {
            Path::Found(Found { node: Node::File(contents), .. }) => String::from_utf8(contents).unwrap(),
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn two_gpus_have_a_node_each_and_links_between_all() {
        let gpu = |index, name, address: &str| {
            let setting = GpuSetting { model: Model::named(name).unwrap(), address: address.parse().unwrap() };
            Gpu::new(index, &setting, 1 << 30, index == 0)
        };
        let gpus = [gpu(0, "gfx906", "0000:03:00.0"), gpu(1, "gfx900", "0002:43:01.2")];
        let mut tree = Tree::default();
        add(&mut tree, &gpus);
        let names: Vec<_> = tree.list(&format!("{ROOT}/nodes")).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["0", "1", "2"]);
        assert_eq!(contents(&tree, "nodes/1/gpu_id"), "17185\n");
        let first = contents(&tree, "nodes/1/properties");
        for line in
            ["gfx_target_version 90006", "location_id 768", "domain 0", "drm_render_minor 128", "p2p_links_count 1"]
        {
            assert!(first.lines().any(|it| it == line), "{line} in {first}");
        }
        let second = contents(&tree, "nodes/2/properties");
        for line in ["gfx_target_version 90000", "location_id 17162", "domain 2", "drm_render_minor 129"] {
            assert!(second.lines().any(|it| it == line), "{line} in {second}");
        }
        assert!(
            contents(&tree, "nodes/1/mem_banks/0/properties").starts_with("heap_type 1\nsize_in_bytes 1073741824\n")
        );
        assert!(contents(&tree, "nodes/2/mem_banks/0/properties").starts_with("heap_type 2\n"));
        assert!(contents(&tree, "nodes/2/p2p_links/0/properties").contains("node_from 2\nnode_to 1\n"));
        let processor = contents(&tree, "nodes/0/properties");
        assert!(processor.contains("io_links_count 1\n"), "the second GPU has a small BAR: {processor}");
        assert!(contents(&tree, "nodes/0/io_links/0/properties").contains("node_from 0\nnode_to 1\n"));
        assert!(contents(&tree, "nodes/2/io_links/0/properties").contains("node_from 2\nnode_to 0\n"));
    }
}
