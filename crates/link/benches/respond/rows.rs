//! Rows of the table, as all parts of this benchmark make them.

use rtwire_measure::bench::Row;

/// A row that nothing was promised for.
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
