//! Total flow analysis in exact fractions, as first written. It is slow, and the reference for the one that plans.

mod arrivals;
pub(crate) mod curve;
pub(crate) mod dice;
mod judge;
pub(crate) mod tfa;
