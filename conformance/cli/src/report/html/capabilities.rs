//! The capabilities of the devices, side by side.

use maud::{Markup, html};
use serde_json::Value;

use super::matrix;
use super::run::{Run, in_order};

/// One row a capability, one column a report.
pub(super) fn section(runs: &[Run<'_>]) -> Markup {
    let all: Vec<Vec<Capability>> = runs.iter().map(|run| capabilities(*run)).collect();
    let names = in_order(all.iter().flatten().map(|capability| (&capability.kind, &capability.name)));
    html! {
        section aria-labelledby="capabilities" {
            h2 id="capabilities" { "Capabilities" }
            details class="group" {
                summary { h3 { "What each device says it can do" } }
                div class="wide" role="region" aria-labelledby="capabilities" tabindex="0" {
                    table class="matrix" {
                        thead {
                            tr {
                                th scope="col" { "capability" }
                                @for run in runs { th scope="col" { (matrix::heading(*run)) } }
                            }
                        }
                        tbody {
                            @for (kind, name) in names {
                                tr {
                                    th scope="row" { small { (kind) } code { (name) } }
                                    @for capabilities in &all { (cell(capabilities, kind, name)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A capability as the report has it, including kinds of other operating systems.
struct Capability {
    kind: String,
    name: String,
    support: String,
    detail: Option<String>,
}

fn capabilities(run: Run<'_>) -> Vec<Capability> {
    // Maps with string keys always serialise.
    let all = serde_json::to_value(&run.report.capabilities).unwrap_or_default();
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    let mut found = Vec::new();
    for (kind, entries) in all.as_object().into_iter().flatten() {
        for (name, support) in entries.as_object().into_iter().flatten() {
            found.push(Capability {
                kind: kind.clone(),
                name: name.clone(),
                support: text(&support["support"]).unwrap_or_default(),
                detail: text(&support["detail"]),
            });
        }
    }
    found
}

fn cell(capabilities: &[Capability], kind: &str, name: &str) -> Markup {
    let found = capabilities.iter().find(|capability| capability.kind == kind && capability.name == name);
    html! {
        @match found {
            Some(Capability { support, detail, .. }) => {
                td class=(class(support)) {
                    (support.replace('_', " "))
                    @if let Some(detail) = detail { small { (detail) } }
                }
            }
            None => { td class="absent" { "unknown" } }
        }
    }
}

/// Uses the colours of outcomes.
fn class(support: &str) -> &'static str {
    match support {
        "native" => "passed",
        "emulated" => "expected_failure",
        _ => "unsupported",
    }
}
