//! Checks the links of the documentation that rustdoc has written, without a network.
//!
//! rustdoc links an item of another crate to that crate's pages if their folder exists when it starts, and Cargo documents
//! the crates in any order. Otherwise it takes the crate's `html_root_url`, and without one it leaves `[Item]` as text.
//! Every crate that another one depends on therefore has the attribute [`ROOT`].

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use crate::run::{Outcome, cargo};

/// The folder above that of a crate's pages.
const ROOT: &str = "#![doc(html_root_url = \"../\")]";

/// What a page contains and refers to.
#[derive(Debug, Default, PartialEq)]
struct Page {
    /// Names that a link's fragment may have.
    ids: BTreeSet<String>,
    links: BTreeSet<String>,
    /// Links of a doc comment for which rustdoc found no page.
    unlinked: BTreeSet<String>,
    /// The page that this one leads to at once: that of an item's public path.
    redirect: Option<String>,
}

/// Checks that each crate that another one of the workspace depends on says where its pages are.
///
/// # Errors
/// The files that lack it.
pub(crate) fn roots() -> Outcome {
    let text = cargo("metadata --format-version 1 --no-deps").text()?;
    let metadata: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages = list(&metadata["packages"]);
    let normal = packages.iter().flat_map(|package| list(&package["dependencies"])).filter(|d| d["kind"].is_null());
    let needed: BTreeSet<PathBuf> =
        normal.filter_map(|d| Some(Path::new(d["path"].as_str()?).join("src/lib.rs"))).collect();
    let lacks = |file: &&PathBuf| !fs::read_to_string(file).unwrap_or_default().lines().any(|line| line == ROOT);
    let missing: Vec<String> = needed.iter().filter(lacks).map(|file| format!("\n  {}", file.display())).collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("files without `{ROOT}`:{}", missing.concat())) }
}

/// Checks every relative link of the pages in `folder`, with its fragment.
///
/// # Errors
/// The links that lead nowhere, and those that rustdoc left as text.
pub(crate) fn check(folder: &Path) -> Outcome {
    let mut pages = BTreeMap::new();
    collect(folder, &mut pages).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut faults = BTreeSet::new();
    // Its own pages have settings and a help, with links to a list of crates that Cargo does not request.
    for (file, page) in pages.iter().filter(|(file, _)| file.parent() != Some(folder)) {
        let shown = file.strip_prefix(folder).unwrap_or(file).display();
        faults.extend(page.unlinked.iter().map(|link| format!("{shown}: `{link}` is not a link")));
        for link in page.links.iter().filter(|link| !leads(&pages, file, link)) {
            faults.insert(format!("{shown}: `{link}` leads nowhere"));
        }
    }
    println!("{} links in {} pages", pages.values().map(|page| page.links.len()).sum::<usize>(), pages.len());
    if pages.is_empty() {
        return Err(format!("{} has no pages", folder.display()));
    }
    let lines: Vec<String> = faults.iter().map(|fault| format!("\n  {fault}")).collect();
    if lines.is_empty() { Ok(()) } else { Err(format!("{} broken links:{}", lines.len(), lines.concat())) }
}

/// Reads the pages in `folder` and the folders in it.
fn collect(folder: &Path, pages: &mut BTreeMap<PathBuf, Page>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, pages)?;
        } else if path.extension() == Some(OsStr::new("html")) {
            let page = Page::read(&fs::read_to_string(&path)?);
            pages.insert(path, page);
        }
    }
    Ok(())
}

/// `true` if `link` on the page `file` leads to a page or file, and to one of its ids if it has a fragment; and for every
/// address of another host.
fn leads(pages: &BTreeMap<PathBuf, Page>, file: &Path, link: &str) -> bool {
    let is_scheme = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase());
    // A path of Rust has two colons.
    if link.split_once(':').is_some_and(|(scheme, rest)| is_scheme(scheme) && !rest.starts_with(':')) {
        return true;
    }
    let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
    let path = path.split('?').next().unwrap_or_default();
    let target = if path.is_empty() { file.to_path_buf() } else { normal(&file.with_file_name(path)) };
    let Some(page) = pages.get(&target) else { return fragment.is_empty() && target.is_file() };
    if let Some(redirect) = &page.redirect {
        return leads(pages, &target, &format!("{redirect}#{fragment}"));
    }
    // Lines of a source file: the first and the last one.
    let first = fragment.split('-').next().unwrap_or_default();
    let is_line = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    fragment.is_empty() || page.ids.contains(if is_line { first } else { fragment })
}

/// `path` without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        if component == Component::ParentDir {
            normal.pop();
        } else {
            normal.push(component);
        }
    }
    normal
}

impl Page {
    fn read(text: &str) -> Self {
        let mut page = Self::default();
        let starts = text.match_indices("<section id=\"impl-").map(|(at, _)| at);
        let ends: Vec<usize> = starts.chain([text.len()]).collect();
        let mut start = 0;
        for end in ends {
            page.part(&text[start..end]);
            start = end;
        }
        page
    }

    /// Reads the beginning of a page, or one `impl` of it.
    fn part(&mut self, text: &str) {
        let foreign = is_foreign(text);
        let (mut script, mut before, mut last) = (false, "", "");
        for piece in text.split('<') {
            script = if script { piece != "/script>" } else { piece.starts_with("script") };
            let Some((tag, _)) = piece.split_once('>').filter(|_| !script) else { continue };
            self.ids.extend(attribute(tag, " id=").map(str::to_owned));
            if tag.starts_with("meta http-equiv=\"refresh\"") {
                self.redirect = tag.split_once("URL=").and_then(|(_, link)| Some(link.split('"').next()?.to_owned()));
            }
            if !foreign {
                let name = if tag.starts_with("img ") { " src=" } else { " href=" };
                // Source files of other crates: rustdoc's paths are right at a crate's top level only.
                let link = attribute(tag, name).filter(|_| !tag.starts_with("a class=\"src"));
                self.links.extend(link.map(|link| link.replace("&amp;", "&")));
                // `[<code>Item</code>]`
                let code = last.strip_prefix("code>").filter(|_| before.ends_with('[') && piece.starts_with("/code>]"));
                self.unlinked.extend(code.map(str::to_owned));
            }
            (before, last) = (last, piece);
        }
    }
}

/// `true` for an `impl` of another project's trait: its documentation is copied here, with links that are relative to the
/// other project's pages.
fn is_foreign(text: &str) -> bool {
    let head = text.split("</h3>").next().unwrap_or_default();
    let is_ours = |rest: &str| !rest.starts_with("http");
    text.starts_with("<section id=\"impl-")
        && head.contains(" for ")
        && !head.split("class=\"trait\" href=\"").skip(1).any(is_ours)
}

/// The value of an attribute, with or without quotation marks.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, value) = tag.split_once(name)?;
    match value.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => value.split(' ').next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r##"<main><a href="struct.B.html#impl-C-for-B">B</a> <a href=#4-9 id=4>4</a> [<code>d::E</code>]
        <a href="f::G">g</a> <a href="https://h.rs/i">h</a> <a href="../j/index.html?k#l">l</a>
        <script>{"<a href=\"m\">": "[<code>n</code>]"}</script><img src="o.svg"><link src="s">
        <a class="src" href="t">Source</a>
        <section id="impl-C-for-B"><h3>impl <a class="trait" href="../j/trait.C.html">C</a> for B</h3></section><a href="p">p</a>
        <section id="impl-Q-for-B"><h3>impl Q for B</h3></section><a href="q">q</a> [<code>R</code>]"##;

    #[test]
    fn links_and_ids_of_a_page_are_found_outside_of_scripts_and_of_other_projects_texts() {
        let page = Page::read(PAGE);
        assert_eq!(Vec::from_iter(&page.ids), ["4", "impl-C-for-B", "impl-Q-for-B"]);
        let links = ["#4-9", "../j/index.html?k#l", "../j/trait.C.html", "f::G", "https://h.rs/i", "o.svg", "p"];
        let expected = [links.as_slice(), &["struct.B.html#impl-C-for-B"]].concat();
        assert_eq!(Vec::from_iter(&page.links), expected);
        assert_eq!(Vec::from_iter(&page.unlinked), ["d::E"]);
    }

    #[test]
    fn broken_links_and_fragments_are_found() {
        let file = Path::new("/doc/a/index.html");
        let page = |text: &str| Page::read(text);
        let pages = BTreeMap::from([
            (file.to_path_buf(), Page::read(PAGE)),
            (PathBuf::from("/doc/a/struct.B.html"), page("<p id=\"impl-C-for-B\">")),
            (PathBuf::from("/doc/j/index.html"), page("<p id=m>")),
            (PathBuf::from("/doc/u.html"), page("<meta http-equiv=\"refresh\" content=\"0;URL=a/struct.B.html\">")),
        ]);
        assert!(leads(&pages, file, "../u.html#impl-C-for-B") && !leads(&pages, file, "../u.html#impl-D-for-B"));
        let broken: Vec<&String> = pages[file].links.iter().filter(|link| !leads(&pages, file, link)).collect();
        assert_eq!(broken, ["../j/index.html?k#l", "../j/trait.C.html", "f::G", "o.svg", "p"]);
    }
}
