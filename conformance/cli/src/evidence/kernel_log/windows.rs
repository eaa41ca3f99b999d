//! Messages of Windows' event log.

use roxmltree::Document;

use super::event::KernelEvent;
use super::source::MOST;

/// Providers of the drivers of GPUs, and the kinds of their events.
const DRIVERS: [(&str, &str); 4] =
    [("nvlddmkm", "nvlddmkm"), ("amdkmdag", "amdkmdag"), ("amdkmdap", "amdkmdag"), ("amdwddmg", "amdkmdag")];
/// Levels of events that report an error: critical, error, warning.
const ERRORS: std::ops::RangeInclusive<u32> = 1..=3;

/// The message of an event, which is a document of XML: its provider, its number, and its data; and its meaning. `None`
/// without a provider. The sentence that Windows shows for an event is in a library of the provider, in the system's
/// language.
pub(super) fn message(document: &str) -> Option<(String, Option<KernelEvent>)> {
    // Windows writes characters that XML does not permit.
    let permitted =
        |c: char| if c.is_control() && !matches!(c, '\t' | '\r' | '\n') { char::REPLACEMENT_CHARACTER } else { c };
    let document: String = document.chars().map(permitted).collect();
    let document = Document::parse(&document).ok()?;
    let named = |name: &'static str| document.descendants().filter(move |node| node.tag_name().name() == name);
    let text = |name| named(name).find_map(|node| node.text()).map_or("", str::trim);
    let provider = named("Provider").find_map(|node| node.attribute("Name"))?;
    let data: Vec<&str> =
        named("Data").filter_map(|node| node.text()).map(str::trim).filter(|text| !text.is_empty()).collect();
    let (number, data) = (text("EventID"), data.join("; "));
    let is_error = text("Level").parse().is_ok_and(|level| ERRORS.contains(&level));
    let event = is_error.then(|| meaning(provider, number, &data)).flatten();
    Some((format!("{provider} {number}: {data}").chars().take(MOST).collect(), event))
}

/// The meaning of an error that a provider has reported.
fn meaning(provider: &str, number: &str, data: &str) -> Option<KernelEvent> {
    let driver = DRIVERS.iter().find(|(name, _)| *name == provider);
    let is_reset = driver.is_some() && data.to_lowercase().contains("tdr occurred");
    if is_reset || (provider == "Display" && number == "4101") {
        return Some(KernelEvent::new("tdr", "Windows reset a GPU that did not respond", true));
    }
    driver.map(|(_, kind)| KernelEvent::new(kind, "an error of the GPU's driver", false))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Windows renders it.
    fn event(provider: &str, number: u32, level: u32, data: &str) -> String {
        format!(
            "<Event xmlns='http://schemas.microsoft.com/win/2004/08/events/event'><System><Provider Name='{provider}'/>\
             <EventID Qualifiers='49322'>{number}</EventID><Level>{level}</Level><EventRecordID>99</EventRecordID>\
             <Execution ProcessID='4' ThreadID='8'/><Channel>System</Channel></System>\
             <EventData>{data}<Binary>00000000</Binary></EventData></Event>"
        )
    }

    #[test]
    fn an_event_is_a_message() {
        let text = |document: &str| message(document).map(|(text, _)| text);
        let display = event("Display", 4101, 3, "<Data>nvlddmkm</Data><Data></Data>");
        assert_eq!(text(&display).as_deref(), Some("Display 4101: nvlddmkm"));
        let driver = event("nvlddmkm", 13, 2, "<Data>\\Device\\Video3</Data><Data>More \u{1}&amp; &lt;100&gt;</Data>");
        assert_eq!(text(&driver).as_deref(), Some("nvlddmkm 13: \\Device\\Video3; More \u{fffd}& <100>"));
        let long = event("x", 1, 4, &format!("<Data>{}</Data>", "y".repeat(2000)));
        assert_eq!(text(&long).map(|text| text.len()), Some(MOST));
        for other in ["", "<Event/>", "<Event><System>", "no document"] {
            assert_eq!(text(other), None, "{other}");
        }
    }

    #[test]
    fn errors_of_gpus_are_recognised() {
        let reset = "<Data>Reset TDR occurred on GPUID:100</Data>";
        for (provider, number, level, data, expected) in [
            ("Display", 4101, 3, "<Data>nvlddmkm</Data>", Some(("tdr", true))),
            ("nvlddmkm", 153, 2, reset, Some(("tdr", true))),
            ("nvlddmkm", 13, 2, "<Data>Graphics Exception</Data>", Some(("nvlddmkm", false))),
            ("amdkmdap", 1, 2, "", Some(("amdkmdag", false))),
            // Information.
            ("amdkmdag", 62464, 4, "<Data>UVD Information</Data>", None),
            ("Display", 4097, 3, "", None),
            ("Service Control Manager", 7036, 4, "<Data>nvlddmkm</Data>", None),
            ("other", 153, 2, reset, None),
            ("other", 1, 2, "<Data>amdgpu: GPU reset begin! Killed process 3</Data>", None),
        ] {
            let document = event(provider, number, level, data);
            let (_, found) = message(&document).expect("a message");
            let found = found.as_ref().map(|event| (event.kind.as_str(), event.lost));
            assert_eq!(found, expected, "{document}");
        }
    }
}
