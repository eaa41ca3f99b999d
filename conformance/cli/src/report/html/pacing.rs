//! Frame pacing: the samples of a measurement in their order, as lines.

use maud::{Markup, html};

use super::number::quantity;
use gpu_interop_conformance_bench::Measurement;

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 60.0;

/// One plot a variant with a series; all share the vertical axis, which begins at 0.
pub(super) fn plots(variants: &[&Measurement]) -> Markup {
    let paced: Vec<&Measurement> = variants.iter().copied().filter(|each| each.series.len() > 2).collect();
    let top = paced.iter().flat_map(|each| &each.series).copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
    html! {
        @if let Some(first) = paced.first() {
            figure class="pacing" {
                figcaption {
                    "Frame by frame, from 0 to " (quantity(top, &first.unit)) "; the dashed line is the median."
                }
                @for each in paced { (plot(each, top)) }
            }
        }
    }
}

fn plot(each: &Measurement, top: f64) -> Markup {
    let Measurement { variant, unit, median, series, .. } = each;
    let most = series.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let place = series.iter().position(|value| value.total_cmp(&most).is_eq()).unwrap_or(0) + 1;
    let about = format!("{} frames, the longest {} (number {place})", series.len(), quantity(most, unit));
    let median = format!("{:.1}", y(*median, top));
    html! {
        div class="plot" {
            span { (variant) }
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" width="100%" height=(HEIGHT) role="img"
                aria-label={ (variant) ": " (about) }
            {
                line class="limit" x1="0" x2=(WIDTH) y1=(median) y2=(median) {}
                polyline points=(points(series, top)) {}
            }
            span class="value" { small { (about) } }
        }
    }
}

fn points(series: &[f64], top: f64) -> String {
    // At most a few hundred samples.
    #[allow(clippy::cast_precision_loss, reason = "see above")]
    let x = |index: usize| index as f64 / series.len().saturating_sub(1).max(1) as f64 * WIDTH;
    let place = |(index, value): (usize, &f64)| format!("{:.1},{:.1}", x(index), y(*value, top));
    series.iter().enumerate().map(place).collect::<Vec<_>>().join(" ")
}

/// From the top, with room for the width of the line.
fn y(value: f64, top: f64) -> f64 {
    let share = if top > 0.0 && value.is_finite() { (value / top).clamp(0.0, 1.0) } else { 0.0 };
    HEIGHT - 1.0 - share * (HEIGHT - 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_keep_their_order_and_proportion() {
        assert_eq!(points(&[0.0, 10.0, 5.0], 10.0), "0.0,59.0 500.0,1.0 1000.0,30.0");
        assert_eq!(points(&[f64::NAN, 20.0], 10.0), "0.0,59.0 1000.0,1.0");
        assert_eq!(points(&[3.0], 0.0), "0.0,59.0");
    }

    #[test]
    fn every_variant_with_a_series_has_a_plot() {
        let of = |variant: &str, series: &[f64]| Measurement {
            name: "frame.ring.4K.interval".into(),
            variant: variant.into(),
            unit: "ns".into(),
            median: 2e6,
            p10: 1e6,
            p90: 4e6,
            samples: 3,
            left_out: None,
            on_busy_cores: None,
            series: series.to_vec(),
        };
        let (ring, older) = (of("ring", &[2e6, 4e6, 1e6]), of("fence", &[]));
        let page = plots(&[&ring, &older]).into_string();
        assert_eq!(page.matches("<polyline").count(), 1, "{page}");
        assert!(page.contains("3 frames, the longest 4.000 ms (number 2)"), "{page}");
        assert_eq!(plots(&[&older]).into_string(), "");
    }
}
