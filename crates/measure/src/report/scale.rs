//! Axes: from values to coordinates, and round values for ticks.

/// A mapping from values to coordinates of an axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
}

impl Scale {
    pub(crate) fn linear(low: f64, high: f64, from: f64, to: f64) -> Self {
        Self {
            low,
            high: if high > low { high } else { low + 1.0 },
            from,
            to,
            log: false,
        }
    }

    /// Creates a logarithmic axis. `low` and `high` must be above 0.
    pub(crate) fn log(low: f64, high: f64, from: f64, to: f64) -> Self {
        let low = low.max(f64::MIN_POSITIVE);
        Self {
            low: low.ln(),
            high: high.max(low * 1.01).ln(),
            from,
            to,
            log: true,
        }
    }

    pub(crate) fn at(&self, value: f64) -> f64 {
        let value = if self.log {
            value.max(f64::MIN_POSITIVE).ln()
        } else {
            value
        };
        let part = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.from + part * (self.to - self.from)
    }

    fn covers(&self, value: f64) -> bool {
        let value = if self.log { value.ln() } else { value };
        value >= self.low - 1e-9 && value <= self.high + 1e-9
    }

    /// Returns round values for ticks, about `wanted` of them.
    pub(crate) fn ticks(&self, wanted: usize) -> Vec<f64> {
        if self.log {
            self.log_ticks(wanted)
        } else {
            linear_ticks(self.low, self.high, wanted)
        }
    }

    fn log_ticks(&self, wanted: usize) -> Vec<f64> {
        let decades = (self.high - self.low) / std::f64::consts::LN_10;
        let mantissas: &[f64] = match decades * 3.0 {
            marks if marks <= wanted as f64 * 0.45 => &[1.0, 2.0, 3.0, 5.0, 7.0],
            marks if marks <= wanted as f64 => &[1.0, 2.0, 5.0],
            marks if marks <= wanted as f64 * 1.6 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let first = (self.low / std::f64::consts::LN_10).floor() as i32;
        let last = (self.high / std::f64::consts::LN_10).ceil() as i32;
        let all = (first..=last).flat_map(|e| mantissas.iter().map(move |m| m * 10f64.powi(e)));
        all.filter(|v| self.covers(*v)).collect()
    }
}

/// Returns round values in 1-2-5 steps from `low` to `high`, about `wanted` of them.
pub(crate) fn linear_ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let rough = (high - low) / wanted.max(1) as f64;
    let magnitude = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .iter()
        .map(|m| m * magnitude)
        .find(|s| *s >= rough * 0.999)
        .unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|k| k as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(linear_ticks(0.0, 10.0, 5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(linear_ticks(0.0, 1.0, 2), [0.0, 0.5, 1.0]);
        let wide = Scale::log(1e3, 1e8, 0.0, 1.0).ticks(7);
        assert_eq!(wide.len(), 6, "{wide:?}");
        let decade = Scale::log(1e5, 2e6, 0.0, 1.0).ticks(7);
        assert_eq!(decade.len(), 5, "1-2-5: {decade:?}");
        let narrow = Scale::log(2e5, 9e5, 0.0, 1.0).ticks(7);
        assert_eq!(narrow.len(), 4, "finer: {narrow:?}");
    }

    #[test]
    fn scales_stay_within_the_plot() {
        for scale in [
            Scale::linear(0.0, 0.0, 10.0, 20.0),
            Scale::log(5.0, 5.0, 10.0, 20.0),
            Scale::log(1.0, 10.0, 10.0, 20.0),
        ] {
            for v in [0.0, 1.0, 5.0, 1e30, f64::NAN] {
                let at = scale.at(v);
                assert!(at.is_nan() || (10.0..=20.0).contains(&at));
            }
        }
    }
}
