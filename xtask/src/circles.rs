//! Finds circles of files: files of one crate that depend on each other.
//!
//! A file depends on another if it uses one of its items, by an import or a path. An import is followed through
//! re-exports to the file that defines the item. Declaring a module or re-exporting its items is not a dependency.
//! Items for tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::paths::{Names, Source};
use crate::run::{Outcome, cargo};

/// Accepted circles, each by its first file in the order of the modules' declarations, with the reason.
const ALLOWED: &[(&str, &str)] = &[
    (
        "conformance/sim/emulated-amdgpu/src/memory/names.rs",
        "a pool's table has its objects, and an object removes itself from the table when it is dropped",
    ),
    (
        "crates/gpu-interop-core/src/backend/mod.rs",
        "the trait of backends takes kernel arguments, which may be device memory; that keeps its device open, which has the \
         backend's object",
    ),
    (
        "crates/gpu-interop-d3d/src/d3d11/fence.rs",
        "fences of Direct3D 11 and of 12 create a waiter, which waits for fences of both",
    ),
    (
        "crates/gpu-interop-driver/src/driver.rs",
        "a driver has a vendor as its type parameter, whose methods take the driver",
    ),
];

/// Prints the circles of every crate, with `edges` also which file needs which for what. Fails if one is not in
/// [`ALLOWED`], or one of these is gone.
pub(crate) fn check(edges: bool) -> Outcome {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(""));
    let mut found = BTreeMap::new();
    for root in roots()? {
        let target = Target::read(&root)?;
        let needs: Vec<_> = (0..target.modules.len()).map(|at| target.needs(at)).collect();
        let name = |at: usize| {
            let file = &target.modules[at].file;
            file.strip_prefix(workspace).unwrap_or(file).display().to_string()
        };
        for circle in circles(&needs) {
            let within = |&from: &usize| {
                let inside = needs[from].iter().filter(|(to, _)| circle.contains(to));
                inside.map(move |(to, items)| format!("{} -> {}: {}", name(from), name(*to), items.join(", ")))
            };
            let edges: Vec<String> = circle.iter().flat_map(within).collect();
            found.insert(circle.iter().map(|at| name(*at)).collect::<Vec<_>>(), edges);
        }
    }
    let mut unexpected = 0;
    let mut gone: BTreeSet<&str> = ALLOWED.iter().map(|(file, _)| *file).collect();
    for (files, within) in &found {
        let reason = ALLOWED.iter().find(|(file, _)| *file == files[0]);
        gone.remove(files[0].as_str());
        unexpected += usize::from(reason.is_none());
        println!(
            "{} files{}:\n    {}",
            files.len(),
            reason.map_or(String::new(), |(_, why)| format!(" ({why})")),
            if edges { within } else { files }.join("\n    ")
        );
    }
    println!("{} circles, {} of them allowed", found.len(), found.len() - unexpected);
    if !gone.is_empty() {
        return Err(format!("these circles no longer exist; remove them from the list: {gone:?}"));
    }
    if unexpected > 0 { Err(format!("{unexpected} circles of files that are not allowed")) } else { Ok(()) }
}

/// The first files of all targets of the workspace.
fn roots() -> Result<Vec<PathBuf>, String> {
    let text = cargo("metadata --format-version 1 --no-deps").text()?;
    let metadata: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let targets = packages.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let path = |target: &Value| Path::new(target["src_path"].as_str()?).canonicalize().ok();
    Ok(targets.filter_map(path).collect())
}

/// A module with a file of its own.
struct Module {
    path: Names,
    file: PathBuf,
    source: Source,
}

/// The modules that a module depends on, each with the used paths.
type Needs = BTreeMap<usize, Vec<String>>;

struct Target {
    modules: Vec<Module>,
    by_path: BTreeMap<Names, usize>,
}

impl Target {
    fn read(root: &Path) -> Result<Self, String> {
        let mut target = Self { modules: Vec::new(), by_path: BTreeMap::new() };
        target.add(Vec::new(), root.to_path_buf(), root.parent().unwrap_or(root))?;
        Ok(target)
    }

    /// Adds a module and those in it; `folder` has the files of its modules.
    fn add(&mut self, path: Names, file: PathBuf, folder: &Path) -> Outcome {
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let source = Source::read(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        let children = source.modules.clone();
        let beside = file.parent().unwrap_or(folder).to_path_buf();
        self.by_path.insert(path.clone(), self.modules.len());
        self.modules.push(Module { path: path.clone(), file, source });
        for (name, named) in children {
            let inner = folder.join(&name);
            let candidates =
                [named.map(|file| beside.join(file)), Some(inner.with_extension("rs")), Some(inner.join("mod.rs"))];
            if let Some(file) = candidates.into_iter().flatten().find(|file| file.is_file()) {
                self.add([path.clone(), vec![name]].concat(), file, &inner)?;
            }
        }
        Ok(())
    }

    /// The modules whose items a module uses, and these items.
    fn needs(&self, at: usize) -> Needs {
        let source = &self.modules[at].source;
        // A re-exported name is not used here.
        let used = |(name, (_, exported)): &(&String, &(Names, bool))| !exported || source.words.contains(*name);
        let imported = source.imports.iter().filter(used).map(|(_, (path, _))| path);
        let mut needs = Needs::new();
        for path in imported.chain(&source.paths).chain(&source.globs) {
            if let Some(module) = self.defining(at, path, 0).filter(|module| *module != at) {
                needs.entry(module).or_default().push(path.join("::"));
            }
        }
        needs
    }

    /// The module that defines the item `path` in module `at`; `None` for an item of another crate, and for a module
    /// itself.
    fn defining(&self, at: usize, path: &[String], depth: usize) -> Option<usize> {
        // Re-exports that lead to each other.
        if depth > 20 {
            return None;
        }
        let mut here = at;
        for (index, name) in path.iter().enumerate() {
            let module = &self.modules[here];
            let below = [module.path.clone(), vec![name.clone()]].concat();
            here = match name.as_str() {
                "crate" => 0,
                "self" => here,
                "super" => *self.by_path.get(module.path.split_last()?.1)?,
                _ if self.by_path.contains_key(&below) => self.by_path[&below],
                _ => return self.item(here, path, index, depth),
            };
        }
        None
    }

    /// The module that defines the item `path[index]` of module `here`, through its imports.
    fn item(&self, here: usize, path: &[String], index: usize, depth: usize) -> Option<usize> {
        let source = &self.modules[here].source;
        let (name, rest) = path[index..].split_first()?;
        if let Some((import, _)) = source.imports.get(name).filter(|(import, _)| import != &path[index..]) {
            let whole = [import.as_slice(), rest].concat();
            return self.defining(here, &whole, depth + 1);
        }
        // A name of another crate, or of the language.
        if index == 0 {
            return None;
        }
        let through_glob = source.globs.iter().find_map(|glob| {
            let whole = [glob.as_slice(), &path[index..]].concat();
            let found = self.defining(here, &whole, depth + 1)?;
            self.modules[found].source.words.contains(name).then_some(found)
        });
        through_glob.or(Some(here))
    }
}

/// The strongly connected components of more than one node: nodes that reach each other.
fn circles(edges: &[Needs]) -> Vec<Vec<usize>> {
    let reached = |from: usize| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(at) = open.pop() {
            open.extend(edges[at].keys().filter(|&&next| seen.insert(next)));
        }
        seen
    };
    let reach: Vec<_> = (0..edges.len()).map(reached).collect();
    let with =
        |at: usize| -> Vec<usize> { reach[at].iter().copied().filter(|&other| reach[other].contains(&at)).collect() };
    // Each component once, by its first node.
    (0..edges.len())
        .filter(|at| reach[*at].contains(at))
        .map(|at| (at, with(at)))
        .filter(|(at, all)| all[0] == *at && all.len() > 1)
        .map(|(_, all)| all)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_found_once_and_a_line_is_none() {
        let edges: [&[usize]; 4] = [&[1], &[2], &[0, 3], &[]];
        let needs = edges.map(|edges| edges.iter().map(|to| (*to, Vec::new())).collect());
        assert_eq!(circles(&needs), [[0, 1, 2]]);
    }
}
