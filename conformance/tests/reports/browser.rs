//! Pages in a browser: Chromium opens them without a message on its console, and none is wider than the window.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::{Tested, committed, printed, text};

/// Chromium, by the names of its packages.
fn browser() -> Tested<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places =
        std::env::split_paths(&path).flat_map(|folder| ["chromium", "chromium-browser"].map(|name| folder.join(name)));
    places.into_iter().find(|place| place.is_file()).ok_or_else(|| "Chromium is missing: install chromium".into())
}

/// A page as Chromium opened it.
struct Opened {
    /// The document after it was loaded.
    document: String,
    /// The messages on the console, and loads that failed.
    messages: Vec<String>,
}

fn open(page: &Path, width: u32) -> Tested<Opened> {
    let profile = tempfile::tempdir()?;
    let mut command = Command::new(browser()?);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.arg(format!("--window-size={width},900")).arg(format!("file://{}", text(page)?));
    let start = Instant::now();
    let output = command.output()?;
    assert!(
        output.status.success() && start.elapsed() < Duration::from_secs(60),
        "{}: {}",
        page.display(),
        output.status
    );
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    let messages = messages.lines().filter(|line| line.contains(":CONSOLE")).map(ToOwned::to_owned).collect();
    Ok(Opened { document: String::from_utf8(output.stdout)?, messages })
}

/// A copy of a page with everything unfolded, whose title is its width, that of the window, and the number of scenarios
/// whose outcomes are below the name.
fn measured(page: &Path, folder: &Path) -> Tested<PathBuf> {
    let source = std::fs::read_to_string(page)?.replace("<details ", "<details open ");
    let script = "<script>const below = [...document.querySelectorAll('.scenario .chips')].filter(each => \
        each.getBoundingClientRect().top >= each.previousElementSibling.getBoundingClientRect().bottom).length;\
        document.title = document.documentElement.scrollWidth + '/' + innerWidth + '/' + below</script></body>";
    let copy = folder.join("measured.html");
    std::fs::write(&copy, source.replace("</body>", script))?;
    Ok(copy)
}

/// The width of the document and of the window, and the number of scenarios whose outcomes are below the name.
fn measures(opened: &Opened) -> Tested<[u32; 3]> {
    let title =
        opened.document.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next()).ok_or("a title")?;
    let numbers = title.split('/').map(str::parse).collect::<Result<Vec<u32>, _>>()?;
    numbers.try_into().map_err(|_| format!("no measures: {title}").into())
}

/// All pages of the command, made of the committed reports.
fn pages(folder: &Path) -> Tested<Vec<PathBuf>> {
    let [reports, site, others] = ["reports", "site", "others"].map(|name| folder.join(name));
    std::fs::create_dir(&reports)?;
    std::fs::create_dir(&others)?;
    for path in [committed(false)?, committed(true)?].concat() {
        std::fs::copy(&path, reports.join(path.file_name().ok_or("a name")?))?;
    }
    printed(&["site", text(&reports)?, "--output", text(&site)?])?;
    let report = |name: &str| reports.join(format!("cuda-580.159.04{name}.json"));
    let bench = others.join("bench.json");
    let filter = ["--quick", "--filter", "{signal.*,frame.graphics.1080p}"];
    let made = ["--json", text(&bench)?, "--html"];
    printed(&[&["bench", "--backend", "host"][..], &filter, &made, &[text(&others.join("bench.html"))?]].concat())?;
    let merged = others.join("merged.html");
    printed(&["merge", text(&report("-h100"))?, text(&report("-bench"))?, "--html", text(&merged)?])?;
    for (name, before, after) in [
        ("runs.html", report("-h200-x2-device-0"), report("-h100")),
        ("measurements.html", report("-bench"), report("-h100-bench")),
    ] {
        printed(&["diff", text(&before)?, text(&after)?, "--html", text(&others.join(name))?])?;
    }
    let mut all = Vec::new();
    for entry in site.read_dir()?.chain(others.read_dir()?) {
        let path = entry?.path();
        all.extend(Some(path).filter(|path| path.extension().is_some_and(|extension| extension == "html")));
    }
    Ok(all)
}

#[test]
#[ignore = "needs the package chromium: cargo xtask slow browser"]
fn chromium_opens_every_page_without_a_message() -> Tested {
    let folder = tempfile::tempdir()?;
    let all = pages(folder.path())?;
    assert!(all.len() > 10, "{all:?}");
    for page in all {
        let opened = open(&page, 1400)?;
        assert_eq!(opened.messages, Vec::<String>::new(), "{}", page.display());
        assert!(opened.document.contains("<h1>") && opened.document.contains("Made by"), "{}", page.display());
        // Chromium's narrowest window.
        for width in [1400, 500] {
            let [document, window, below] = measures(&open(&measured(&page, folder.path())?, width)?)?;
            assert!(document <= window, "{} is {document} wide in a window of {window}", page.display());
            assert!(width > 500 || below == 0, "{}: {below} outcomes are below their names", page.display());
        }
    }
    Ok(())
}

/// The check finds what it looks for.
#[test]
#[ignore = "needs the package chromium: cargo xtask slow browser"]
fn a_message_and_a_wide_page_are_found() -> Tested {
    let folder = tempfile::tempdir()?;
    let page = folder.path().join("planted.html");
    let planted = "<script>console.error('planted')</script><p style='width: 3000px'>wide</p>";
    std::fs::write(&page, format!("<!DOCTYPE html><html><head><title>a</title></head><body>{planted}</body></html>"))?;
    let opened = open(&measured(&page, folder.path())?, 1400)?;
    assert_eq!(opened.messages.len(), 1, "{:?}", opened.messages);
    assert!(opened.messages[0].contains("planted"), "{:?}", opened.messages);
    let [document, window, _] = measures(&opened)?;
    assert!(document > 3000 && window <= 1400, "{document} in {window}");
    Ok(())
}
