//! Parts that tests of both nodes share.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use rtwire_pubsub::{Extent, Field};
use rtwire_wire::Outbox;
use rtwire_wire::uadp::BuiltIn;

/// The frames that a node has sent.
#[derive(Default)]
pub struct Sent(pub Vec<Vec<u8>>);

impl Outbox for Sent {
    fn send(&mut self, frame: &[u8], _launch_ns: Option<u64>) {
        self.0.push(frame.to_vec());
    }
}

/// Returns a field's description.
pub fn field(name: &str, kind: BuiltIn, extent: Extent) -> Field {
    Field {
        name: name.to_owned(),
        kind,
        extent,
    }
}
