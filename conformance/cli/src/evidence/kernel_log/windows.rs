//! Messages of Windows' event log.

use roxmltree::{Document, Node};

use super::text::MOST;

/// The message of an event, which is a document of XML: its provider, its number, and its data. `None` without a
/// provider. The sentence that Windows shows for an event is in a library of the provider, in the system's language.
pub(super) fn message(document: &str) -> Option<String> {
    let document = Document::parse(document).ok()?;
    let named = |name: &'static str| document.descendants().filter(move |node| node.tag_name().name() == name);
    let provider = named("Provider").find_map(|node| node.attribute("Name"))?;
    let number = named("EventID").find_map(|node| node.text()).unwrap_or_default();
    let data: Vec<&str> = named("Data")
        .filter_map(|node: Node<'_, '_>| node.text())
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .collect();
    Some(format!("{provider} {}: {}", number.trim(), data.join("; ")).chars().take(MOST).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Windows renders a reset of a GPU.
    #[test]
    fn an_event_is_a_message() {
        let event = |provider: &str, number: u32, data: &str| {
            format!(
                "<Event xmlns='http://schemas.microsoft.com/win/2004/08/events/event'><System><Provider Name='{provider}'/>\
                 <EventID Qualifiers='49322'>{number}</EventID><Level>2</Level><EventRecordID>99</EventRecordID>\
                 <Execution ProcessID='4' ThreadID='8'/><Channel>System</Channel></System>\
                 <EventData>{data}<Binary>00000000</Binary></EventData></Event>"
            )
        };
        let display = event("Display", 4101, "<Data>nvlddmkm</Data><Data></Data>");
        assert_eq!(message(&display).as_deref(), Some("Display 4101: nvlddmkm"));
        let driver =
            event("nvlddmkm", 153, "<Data>\\Device\\Video3</Data><Data>Reset TDR &amp; more &lt;100&gt;</Data>");
        assert_eq!(message(&driver).as_deref(), Some(r"nvlddmkm 153: \Device\Video3; Reset TDR & more <100>"));
        assert_eq!(
            message(&event("x", 1, &format!("<Data>{}</Data>", "y".repeat(2000)))).map(|text| text.len()),
            Some(MOST)
        );
        for other in ["", "<Event/>", "<Event><System>", "no document"] {
            assert_eq!(message(other), None, "{other}");
        }
    }
}
