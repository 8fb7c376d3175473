//! Rows of the table for all parts of this benchmark.

use rtwire_measure::bench::Row;

/// Returns a row without a target.
pub(crate) fn row(figure: String, value: f64, unit: &str, samples: usize) -> Row {
    Row {
        figure,
        value,
        unit: unit.to_owned(),
        reach: None,
        held: None,
        why: None,
        samples: samples as u64,
        against: Vec::new(),
    }
}
