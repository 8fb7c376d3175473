//! How late can a frame be, and how much must be stored?
//!
//! Nothing in here knows of hosts, switches or files. A server is a rate and a latency; a flow is a burst and a rate
//! with a path of servers.
//!
//! ```text
//! loeser_haertig    one output port, closed form (the source's own)
//! graph             servers and flows
//! fixed             whole picoseconds and what goes with them
//! excess            the largest excess of arrivals over service
//! arrivals          what comes over an input link
//! credit            classes with a credit-based shaper
//! tfa               a graph of servers, port by port
//! segments          several ports in a row as one
//! ```

mod arrivals;
mod credit;
#[cfg(test)]
pub(crate) mod exact;
mod excess;
pub(crate) mod fixed;
pub mod graph;
pub mod loeser_haertig;
pub(crate) mod mutation;
pub mod segments;
pub mod tfa;
