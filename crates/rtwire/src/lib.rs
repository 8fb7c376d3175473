//! Deterministic Ethernet from ordinary Linux machines: plan it, run it, prove it.

pub use rtwire_channel as channel;
pub use rtwire_plan as plan;
pub use rtwire_powerlink_station as powerlink;
pub use rtwire_session as session;
