//! The kernel programs of `programs/`, compiled when this crate is: ELF objects with BTF, ready for the loader.
//!
//! They are kept here and not beside their users, so that one build script compiles them all and no second copy of a
//! compiler's options exists. What they do, and the layouts they share with Rust, is their users' business.

/// A compiled program.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    /// The ELF object, as the loader takes it.
    pub bytes: &'static [u8],
    /// The file it was compiled to; there only on the machine that built it. Tests read types and layouts from it.
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
/// The POWERLINK program: poll responses and the poll chain.
pub const POWERLINK: Object = object!("powerlink.bpf.o");
/// The socket filter that counts stray frames.
pub const STRAYS: Object = object!("strays.bpf.o");
/// The lab's switch: buffers, priorities, counts.
pub const SWITCH: Object = object!("switch.bpf.o");
