//! The kind of container.

use super::system::System;

/// The kind of container that the system is in; `None` outside of one.
pub(crate) fn container(system: &System) -> Option<String> {
    if system.exists("/.dockerenv") {
        return Some("docker".into());
    }
    if let Some(text) = system.text("/run/.containerenv") {
        let engine = text.lines().find_map(|line| line.strip_prefix("engine="));
        return Some(engine.map_or("podman", |engine| engine.trim_matches('"')).into());
    }
    if system.exists("/.singularity.d") {
        return Some("apptainer".into());
    }
    if system.set_variable("KUBERNETES_SERVICE_HOST").is_some() {
        return Some("kubernetes".into());
    }
    if let Some(name) = system.set_variable("container") {
        return Some(name.into());
    }
    let groups = system.text("/proc/1/cgroup").unwrap_or_default();
    ["kubepods", "docker", "containerd", "lxc"].into_iter().find(|name| groups.contains(name)).map(Into::into)
}
