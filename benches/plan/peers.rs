//! The networks of the vectors beside the results of other programs. Nothing is timed: the rows are the same on every
//! machine.

#[path = "../../crates/plan/tests/vectors/mod.rs"]
mod vectors;

use rtwire_measure::bench::Row;
use vectors::{best, fixtures, graph, least_of_others};

use super::tools::{against, at_most};

/// Returns a row for each store-and-forward network: the end-to-end bound of its first flow over the least of another
/// program.
///
/// A program's result counts only if it includes a whole frame at each port but the last. Without it, a result is
/// below delays that happen.
pub(crate) fn rows(_quick: bool) -> Vec<Row> {
    let all = fixtures();
    let networks = all["networks"].as_array().unwrap().iter();
    let networks = networks.filter(|network| network.get("store_and_forward").is_some());
    networks
        .map(|network| {
            let ours_us = best(&graph(network)) * 1e6;
            let others = &network["tools_T_plus_L_over_C_except_last_s"];
            let least_us = least_of_others(others) * 1e6;
            let name = network["id"].as_str().unwrap().replace("eth_", "");
            let figure = format!("bound over the least of other programs, {name}");
            // A picosecond of tolerance for sums of floating-point numbers.
            let mut row = at_most(&figure, ours_us / least_us, "×", 1.0 + 1e-6, 1);
            row.reach = Some("at most 1".to_owned());
            row = against(row, "rtwire, us", ours_us);
            if let Some(us) = network["packet_level_witness_us"].as_f64() {
                row = against(row, "worst schedule found, us", us);
            }
            let tfapp = &network["store_and_forward"]["tfapp"]["foi0_us"];
            if let Some(us) = tfapp.as_f64() {
                row = against(row, "TFA++, us", us);
            }
            for (tool, value) in others.as_object().unwrap() {
                if let Some(seconds) = value.as_f64() {
                    row = against(row, &format!("{tool}, us"), seconds * 1e6);
                }
            }
            row
        })
        .collect()
}
