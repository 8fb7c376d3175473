//! How late can a frame be, and how much must be stored?
//!
//! Nothing in here knows of hosts, switches or files: a server is a rate and a
//! latency, a flow is a burst and a rate with a path of servers.
//!
//! ```text
//! rational          exact numbers, checked
//! loeser_haertig    one output port, closed form (the source's own)
//! curve             the largest excess of arrivals over service
//! graph             servers and flows
//! arrivals          what comes over an input link
//! tfa               a graph of servers, port by port
//! ```

mod arrivals;
pub mod curve;
pub mod graph;
pub mod loeser_haertig;
pub mod rational;
pub mod tfa;
