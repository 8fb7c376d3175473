//! Total flow analysis in exact fractions, as first written: slow, and the judge of the one that plans.

mod arrivals;
pub(crate) mod curve;
pub(crate) mod dice;
mod judge;
pub(crate) mod tfa;
