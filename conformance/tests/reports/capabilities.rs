//! The capabilities of a backend are those of the committed reports: kinds and texts. The simulators have the functions and the
//! attributes of the real drivers.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::{Tested, json, printed, text};

/// The backend, as an option; the committed report; and the capabilities that the simulator lacks, or has in addition.
const COMPARED: [(&[&str], &str, &[&str]); 6] = [
    (&["--backend", "host"], "host-lavapipe.json", &[]),
    (&["--simulate", "cuda"], "cuda-580.159.04-h100.json", &["/features/surfaces", "/features/textures"]),
    (
        &["--simulate", "hip:5.2.3"],
        "hip-emulated-5.2.3.json",
        &["/features/host_functions", "/features/stream_memory_operations32", "/features/stream_memory_operations64"],
    ),
    (&["--simulate", "hip:5.7.1"], "hip-emulated-5.7.1.json", &[]),
    (&["--simulate", "hip:6.4.3"], "hip-emulated-6.4.3.json", &[]),
    (&["--simulate", "hip:7.2.4"], "hip-emulated-7.2.4.json", &[]),
];

/// The capabilities by their places.
fn leaves(at: &str, value: &Value, found: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) if !fields.contains_key("support") => {
            fields.iter().for_each(|(name, inner)| leaves(&format!("{at}/{name}"), inner, found));
        }
        other => drop(found.insert(at.to_owned(), other.clone())),
    }
}

#[test]
fn capabilities_are_those_of_the_committed_reports() -> Tested {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("run.json");
    for (options, file, differ) in COMPARED {
        let run = ["run", "--exporter", "native", "--filter", "identity.json", "--json", text(&path)?];
        printed(&[run.as_slice(), options].concat())?;
        let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results").join(file);
        let of = |path: &Path| -> Tested<BTreeMap<String, Value>> {
            let mut found = BTreeMap::new();
            leaves("", &json(path)?["capabilities"], &mut found);
            Ok(found)
        };
        let (now, before) = (of(&path)?, of(&committed)?);
        assert!(now.len() > 20, "{now:?}");
        let mut places: Vec<&String> = now.keys().chain(before.keys()).collect();
        places.sort_unstable();
        places.dedup();
        let changed: Vec<&str> =
            places.into_iter().filter(|place| now.get(*place) != before.get(*place)).map(String::as_str).collect();
        let shown = changed.iter().map(|place| (place, before.get(*place), now.get(*place))).collect::<Vec<_>>();
        assert_eq!(
            changed, differ,
            "{options:?} is not as in {file}; run the suite again, and commit its report: {shown:#?}"
        );
    }
    Ok(())
}
