//! The README's tables are those of the committed reports.

use std::path::Path;

use super::{Tested, printed, text};

/// Prefix of a line that names the reports of the table after it.
const BEGIN: &str = "<!-- conformance merge ";
const END: &str = "<!-- end -->";

#[test]
fn tables_are_those_of_the_reports() -> Tested {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("README.md");
    let readme = std::fs::read_to_string(&path)?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("table.md");
    let (mut renewed, mut tables) = (readme.clone(), 0);
    for part in readme.split(BEGIN).skip(1) {
        let (names, rest) = part.split_once(" -->\n").ok_or("the end of the comment")?;
        let (old, _) = rest.split_once(END).ok_or(END)?;
        let reports: Vec<_> = names.split(' ').map(|name| root.join("conformance/results").join(name)).collect();
        let reports: Vec<&str> = reports.iter().map(|report| text(report)).collect::<Tested<_>>()?;
        printed(&[&["merge"], &reports[..], &["--markdown", text(&file)?]].concat())?;
        let table = std::fs::read_to_string(&file)?;
        renewed = renewed.replace(&format!("{names} -->\n{old}{END}"), &format!("{names} -->\n{table}{END}"));
        tables += 1;
    }
    if std::env::var_os("GPU_INTEROP_RECORD").is_some() {
        std::fs::write(&path, &renewed)?;
    } else {
        assert!(renewed == readme, "the README's tables are outdated; GPU_INTEROP_RECORD=1 with this test writes them");
    }
    assert_eq!(tables, 3);
    Ok(())
}
