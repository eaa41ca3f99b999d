//! The plots of measurements.

use gpu_interop_conformance_cli::{BenchReport, Limit};

#[cfg(unix)]
use super::html;
use super::html::Node;
use super::page::page;
use super::{Tested, committed, json};
#[cfg(unix)]
use super::{page::check_own, printed, text};

/// The margin to the limit in the text of a ratio, percent.
fn margin(text: &str) -> Option<f64> {
    text.strip_prefix("margin ")?.split_once(" %: ")?.0.parse().ok()
}

#[test]
fn measurements_are_plotted_with_their_limits() -> Tested {
    let file = &committed(true)?[0];
    let report: BenchReport = serde_json::from_value(json(file)?)?;
    let (_, page) = page(&[file])?;
    let plots = page.with_class("ratio");
    assert_eq!(plots.len(), report.ratios.len());
    for ratio in &report.ratios {
        let plot = plots.iter().find(|plot| plot.named("code")[0].text() == ratio.name);
        let plot = plot.ok_or_else(|| format!("{} is not plotted", ratio.name))?;
        let text = plot.text();
        assert_eq!(plot.named("circle").len(), 1);
        let limit = ratio.limit.map(|limit| format!("limit {limit}: "));
        assert_eq!(plot.with_class("limit").len(), usize::from(limit.is_some()), "{text}");
        if let Some(limit) = limit {
            let (_, verdict) = text.split_once(&limit).ok_or_else(|| format!("no {limit} in {text}"))?;
            assert_eq!(verdict == "within", ratio.holds == Some(true), "{text}");
            assert_eq!(plot.has_class("missed"), ratio.holds == Some(false), "{text}");
        }
        // On the plot, in percent.
        let mut places = Vec::new();
        for node in plot.all() {
            for (_, value) in node.attributes().filter(|(name, _)| ["x1", "x2", "cx"].contains(name)) {
                let place: f64 = value.strip_suffix('%').ok_or(value)?.parse()?;
                assert!((0.0..=100.0).contains(&place), "{}: {value}", ratio.name);
                places.push(place);
            }
        }
        // Its own axis: the marks are far apart, and the value is on the right side of the limit.
        places.sort_by(f64::total_cmp);
        assert!(ratio.limit.is_none() || places[places.len() - 1] - places[0] > 60.0, "{}: {places:?}", ratio.name);
        let edge = |name: &str| {
            plot.with_class("beyond")[0].attribute(name).and_then(|at| at.strip_suffix('%')?.parse::<f64>().ok())
        };
        let dot: f64 =
            plot.named("circle")[0].attribute("cx").and_then(|at| at.strip_suffix('%')).ok_or("a dot")?.parse()?;
        match ratio.limit {
            Some(Limit::AtMost(_)) => assert_eq!(Some(dot) <= edge("x"), ratio.holds == Some(true), "{}", ratio.name),
            Some(Limit::AtLeast(_)) => {
                assert_eq!(Some(dot) >= edge("width"), ratio.holds == Some(true), "{}", ratio.name)
            }
            None => assert!(plot.with_class("beyond").is_empty()),
        }
    }
    // The least margin first.
    let order: Vec<f64> = plots.iter().filter_map(|plot| margin(&plot.with_class("value")[0].text())).collect();
    assert_eq!(order.len(), report.ratios.iter().filter(|ratio| ratio.limit.is_some()).count());
    assert!(order.is_sorted() && order[0] < 10.0 && order[order.len() - 1] > 100.0, "{order:?}");
    // The frames of a series are a line, without a bar.
    let bars: Vec<(String, Vec<String>)> = page
        .with_class("bars")
        .iter()
        .map(|bars| {
            let plots = bars.with_class("plot").into_iter().filter(|plot| !plot.named("rect").is_empty());
            (bars.named("h4")[0].text(), plots.map(Node::text).collect())
        })
        .collect();
    for each in &report.measurements {
        let of_name = bars.iter().filter(|(name, _)| *name == each.name).flat_map(|(_, plots)| plots);
        // Not those of `raw_each` for `raw`.
        let longer = |plot: &str| {
            let others = report.measurements.iter().filter(|other| other.variant.len() > each.variant.len());
            others.filter(|other| other.name == each.name).any(|other| plot.starts_with(&other.variant))
        };
        let plots = of_name.filter(|plot| plot.starts_with(&each.variant) && !longer(plot));
        assert_eq!(plots.count(), 1, "{} {}", each.name, each.variant);
    }
    assert_eq!(bars.iter().map(|(_, plots)| plots.len()).sum::<usize>(), report.measurements.len());
    for gap in &report.not_measured {
        assert!(page.text().contains(&gap.what) && page.text().contains(gap.stop.reason()), "{}", gap.what);
    }
    Ok(())
}

/// On Linux, where benchmarks exist.
#[cfg(unix)]
#[test]
fn measuring_writes_its_own_page() -> Tested {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("bench.html");
    printed(&["bench", "--backend", "host", "--quick", "--filter", "signal.1", "--html", text(&file)?])?;
    let text = std::fs::read_to_string(&file)?;
    let page = html::parse(&text)?;
    check_own(&page)?;
    assert!(page.with_class("bars").iter().any(|bars| bars.named("h4")[0].text() == "signal.1"));
    assert!(page.with_class("ratio").iter().any(|plot| plot.text().starts_with("signal.1 library/backend")));
    Ok(())
}
