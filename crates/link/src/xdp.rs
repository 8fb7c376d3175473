//! Attaching an XDP program to an interface: the best mode, or the reason why there is none.
//!
//! Needs Linux 6.1, CAP_BPF and CAP_NET_ADMIN. Not for a real-time loop.

use rtwire_sys::bpf::{BpfError, BpfObject, XdpLink, XdpMode};
use rtwire_sys::carrier::{carrier, wait_for_carrier};
use rtwire_sys::interface::{self, Interface};
use rtwire_sys::netdev;
use std::time::Duration;

/// Time for which a link is awaited that the driver took down to attach the program. Auto-negotiation takes some 4 s.
const LINK: Duration = Duration::from_secs(15);

/// The mode to attach in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Attach {
    /// Native; generic where the driver refuses.
    #[default]
    Best,
    /// This one only.
    Only(XdpMode),
}

/// An attached program. It is detached when the link is dropped.
#[derive(Debug)]
pub struct Attached {
    /// The link that keeps the program attached.
    pub link: XdpLink,
    /// The reason why the program does not run in native mode, where [`Attach::Best`] has tried that first.
    pub why_generic: Option<String>,
}

/// The reason why a program was not attached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The kernel refuses the only mode that was tried, or another XDP program is attached.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The kernel refuses both modes.
    #[error("{native}; and then: {generic}")]
    NoMode {
        /// The error of native mode.
        native: Box<BpfError>,
        /// The error of generic mode.
        generic: Box<BpfError>,
    },
}

impl AttachError {
    /// Returns true where another XDP program is attached to the interface.
    #[must_use]
    pub const fn is_in_use(&self) -> bool {
        matches!(self, Self::Bpf(BpfError::XdpInUse { .. }))
    }
}

/// Attaches `program` of a loaded object to the interface with index `ifindex`.
///
/// # Errors
/// [`AttachError::Bpf`] with [`BpfError::XdpInUse`] where another XDP program is attached; else the kernel's reason for each
/// mode that was tried.
pub fn attach(
    object: &BpfObject,
    program: &'static str,
    ifindex: u32,
    how: Attach,
) -> Result<Attached, AttachError> {
    let attach = |mode| object.attach_xdp(program, ifindex, mode);
    let found = |link| Attached {
        link,
        why_generic: None,
    };
    let native = match how {
        Attach::Only(mode) => return Ok(found(attach(mode)?)),
        Attach::Best => match attach(XdpMode::Native) {
            Ok(link) => return Ok(found(link)),
            Err(error @ BpfError::XdpInUse { .. }) => return Err(error.into()),
            Err(native) => native,
        },
    };
    match attach(XdpMode::Generic) {
        Ok(link) => Ok(Attached {
            link,
            why_generic: Some(native.to_string()),
        }),
        Err(error @ BpfError::XdpInUse { .. }) => Err(error.into()),
        Err(generic) => Err(AttachError::NoMode {
            native: Box::new(native),
            generic: Box::new(generic),
        }),
    }
}

/// Attaches a program as [`attach`] does, and waits for the link: some drivers take it down for a moment, and what is sent before it
/// is back would be lost.
///
/// # Errors
/// As for [`attach`].
pub fn attach_and_wait(
    object: &BpfObject,
    program: &'static str,
    interface: &Interface,
    how: Attach,
) -> Result<Attached, AttachError> {
    let before = carrier(interface);
    let attached = attach(object, program, interface.index, how)?;
    if before.is_ok_and(|before| before.on) {
        // A link that stays away is seen by whoever counts.
        let _ = wait_for_carrier(interface, LINK);
    }
    Ok(attached)
}

/// Returns true where the driver tells a program the VLAN tag that it keeps outside of a frame. Such a program runs in native mode only.
#[must_use]
pub fn tells_tags(interface: &Interface) -> bool {
    let bits = netdev::receive_metadata(interface).ok().flatten();
    bits.unwrap_or(0) & netdev::RECEIVE_TAGS != 0
}

/// Returns the driver's name where it keeps VLAN tags outside of frames and tells them to no program: an answer in native mode would
/// leave without. `None` where answers keep their tags.
///
/// # Errors
/// The interface is gone.
pub fn hides_tags(interface: &str) -> rtwire_sys::Result<Option<String>> {
    if !interface::keeps_tags_outside(interface) {
        return Ok(None);
    }
    let driver = interface::driver(interface)?.unwrap_or_default();
    // A veth keeps a tag outside only where its peer has sent it so, and tells it from Linux 6.8 on.
    Ok(Some(driver).filter(|driver| driver != "veth"))
}
