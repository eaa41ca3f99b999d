//! A tree of folders, files and links by absolute path.

use std::collections::BTreeMap;

use crate::emulation::Device;

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
    pub(super) fn own(&mut self, path: &str) {
        self.owned.push(path.to_owned());
        self.nodes.insert(path.to_owned(), Node::Folder);
    }

    /// Adds a file, and the folders between it and the owned one.
    pub(super) fn file(&mut self, path: &str, contents: impl Into<Vec<u8>>) {
        self.add(path, Node::File(contents.into()));
    }

    pub(super) fn link(&mut self, path: &str, target: &str) {
        self.add(path, Node::Link(target.to_owned()));
    }

    pub(super) fn folder(&mut self, path: &str) {
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

    pub(super) fn look_up(&self, path: &str, follow: bool) -> Path {
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

    pub(super) fn list(&self, folder: &str) -> Vec<(String, Node)> {
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
