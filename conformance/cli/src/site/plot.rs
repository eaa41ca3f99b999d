//! Trends as SVG.

use maud::{Markup, html};

use crate::report::html::quantity;

/// A value at one time.
#[derive(Debug, Clone)]
pub(super) struct Point {
    /// The time and the build.
    pub(super) label: String,
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 120.0;
/// The room above and below, and at the sides.
const MARGIN: f64 = 8.0;

/// The vertical axis. It begins at 0, so that heights are proportional to values.
struct Axis {
    top: f64,
}

impl Axis {
    fn of(points: &[Point], limit: Option<f64>) -> Self {
        let values = points.iter().flat_map(|point| [point.value, point.high]).chain(limit);
        let top = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        Self { top: if top > 0.0 { top * 1.05 } else { 1.0 } }
    }

    fn y(&self, value: f64) -> f64 {
        let share = if value.is_finite() { (value / self.top).clamp(0.0, 1.0) } else { 0.0 };
        HEIGHT - MARGIN - share * (HEIGHT - 2.0 * MARGIN)
    }
}

fn x(index: usize, count: usize) -> f64 {
    // Numbers of runs are far below the limit of exact numbers.
    #[allow(clippy::cast_precision_loss, reason = "see above")]
    let (index, last) = (index as f64, count.saturating_sub(1) as f64);
    if last > 0.0 { MARGIN + index / last * (WIDTH - 2.0 * MARGIN) } else { WIDTH / 2.0 }
}

/// A line through the values, a band between low and high, and the limit.
pub(super) fn trend(name: &str, unit: &str, points: &[Point], limit: Option<f64>) -> Markup {
    let axis = Axis::of(points, limit);
    let place = |(index, value): (usize, f64)| format!("{:.1},{:.1}", x(index, points.len()), axis.y(value));
    let line: Vec<String> = points.iter().map(|point| point.value).enumerate().map(place).collect();
    let low = points.iter().map(|point| point.low).enumerate().map(place);
    let high: Vec<String> = points.iter().map(|point| point.high).enumerate().map(place).collect();
    let band: Vec<String> = low.chain(high.into_iter().rev()).collect();
    let newest = points.last().map(|point| quantity(point.value, unit)).unwrap_or_default();
    html! {
        figure class="trend" {
            figcaption { code { (name) } " " (newest) }
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img"
                aria-label=(format!("{name}: {} values, the newest {newest}", points.len()))
            {
                polygon points=(band.join(" ")) {}
                @if let Some(limit) = limit {
                    @let y = format!("{:.1}", axis.y(limit));
                    line class="limit" x1="0" x2=(WIDTH) y1=(y) y2=(y) {}
                }
                polyline points=(line.join(" ")) {}
                @for (index, point) in points.iter().enumerate() {
                    circle cx=(format!("{:.1}", x(index, points.len()))) cy=(format!("{:.1}", axis.y(point.value))) r="3" {
                        title { (point.label) ": " (quantity(point.value, unit)) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_are_proportional_and_within_the_plot() {
        let point = |value: f64| Point { label: String::new(), value, low: value, high: value };
        let axis = Axis::of(&[point(1.0), point(4.0), point(f64::NAN)], Some(2.0));
        let height = |value: f64| HEIGHT - MARGIN - axis.y(value);
        assert!((height(4.0) / height(1.0) - 4.0).abs() < 1e-9);
        assert!(axis.y(4.0) >= MARGIN && (axis.y(f64::NAN) - axis.y(0.0)).abs() < 1e-9);
        assert!((x(0, 2) - MARGIN).abs() < 1e-9 && (x(1, 2) - (WIDTH - MARGIN)).abs() < 1e-9);
        assert!((x(0, 1) - WIDTH / 2.0).abs() < 1e-9);
    }
}
