//! The kernel programs of `programs/`, compiled together with this crate: ELF objects with BTF, ready for the loader.
//!
//! They are kept here and not beside their users, so that one build script with one set of compiler options compiles
//! them all. Their users describe the programs' behaviour, and the layouts that they share with Rust.

/// A compiled program.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    /// The ELF object, for the loader.
    pub bytes: &'static [u8],
    /// The compiled file; present only on the machine that built it. Tests read types and layouts from it.
    pub built_at: &'static str,
}

macro_rules! object {
    ($file:literal) => {
        Object {
            bytes: include_bytes!(concat!(env!("OUT_DIR"), "/", $file)),
            built_at: concat!(env!("OUT_DIR"), "/", $file),
        }
    };
}

/// The receive program: channels, newest values, replies, policing.
pub const RECEIVE: Object = object!("receive.bpf.o");
/// The same for drivers that tell a program the VLAN tags which they keep outside of frames (Linux 6.8).
pub const RECEIVE_TAGS: Object = object!("receive_tags.bpf.o");
/// The POWERLINK program: poll responses and the poll chain.
pub const POWERLINK: Object = object!("powerlink.bpf.o");
/// The PubSub program: answers to messages of a fixed layout.
pub const PUBSUB: Object = object!("pubsub.bpf.o");
/// The same for drivers that tell a program the VLAN tags which they keep outside of frames (Linux 6.8).
pub const PUBSUB_TAGS: Object = object!("pubsub_tags.bpf.o");
/// The socket filter that counts stray frames.
pub const STRAYS: Object = object!("strays.bpf.o");
/// The lab's switch: buffers, priorities, counts.
pub const SWITCH: Object = object!("switch.bpf.o");
/// The agent's gate: the class of each frame that leaves, and the police of ports.
pub const AGENT: Object = object!("agent.bpf.o");
