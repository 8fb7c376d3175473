//! Attaches the program to its interface, or joins one that another process of this host has attached.

use super::layout::{
    CHANNEL_WORDS, CONTROL_WORDS, Control, PORT_WORDS, PORTS, REPLY_WORDS, SLOT_WORDS,
};
use super::{Attach, Attachment, ProgramError, Shared, XdpMode};
use crate::xdp::{self, AttachError};
use rtwire_sys::bpf::{AttachedXdp, BpfError, BpfObject, XdpLink, attach_xdp, attached};
use rtwire_sys::interface::{AddressWatch, Interface};
use rtwire_sys::{Errno, netns};
use rtwire_wire::EtherType;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The program's name in its object.
pub(super) const PROGRAM: &str = "receive";
/// Time for which attaching and joining are tried in turn.
const PATIENCE: Duration = Duration::from_millis(500);

/// One of the objects that the program is compiled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// Runs in each mode at each driver.
    Plain,
    /// Asks the driver for the VLAN tag that it keeps outside of a frame: native mode only.
    AsksForTags,
}

pub(super) fn open(
    interface: &Interface,
    ether_type: EtherType,
    how: Attach,
) -> Result<Shared, ProgramError> {
    let open = |variant, how| open_variant(interface, ether_type, how, variant);
    let foreign =
        |error: &ProgramError| matches!(error, ProgramError::Attach(error) if error.is_in_use());
    if !xdp::tells_tags(interface) {
        return open(Variant::Plain, how);
    }
    if how == Attach::Only(XdpMode::Generic) {
        return match open(Variant::Plain, how) {
            // It may be the other variant of this program, in native mode.
            Err(error) if foreign(&error) => open(Variant::AsksForTags, how),
            other => other,
        };
    }
    match open(Variant::AsksForTags, Attach::Only(XdpMode::Native)) {
        // Native mode does not work here, or not for this variant; or this program is there in another mode.
        Err(ProgramError::Attach(_) | ProgramError::Bpf(_) | ProgramError::OtherMode { .. }) => {
            open(Variant::Plain, how)
        }
        other => other,
    }
}

fn open_variant(
    interface: &Interface,
    ether_type: EtherType,
    how: Attach,
    variant: Variant,
) -> Result<Shared, ProgramError> {
    let (object, mut shared) = load_variant(interface.clone(), ether_type, variant)?;
    let start = Instant::now();
    loop {
        let refused = match xdp::attach_and_wait(&object, PROGRAM, interface, how) {
            Ok(attached) => {
                shared.attachment = Mutex::new(Attachment {
                    link: Some(attached.link),
                    joined: false,
                });
                shared.why_generic = attached.why_generic;
                return Ok(shared);
            }
            Err(error) if error.is_in_use() => match join(&shared, how, error) {
                Ok(joined) => {
                    joined.tidy_now_and_then();
                    return Ok(joined);
                }
                Err(refused) => refused,
            },
            Err(error) => return Err(error.into()),
        };
        // Its owners may just be closing it. A process that is being started holds copies of its parent's descriptors
        // until it executes another program. A foreign program is left alone at once.
        let foreign = matches!(refused, ProgramError::Attach(_));
        if foreign || start.elapsed() > PATIENCE {
            return Err(refused);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Loads the variant for all drivers, without attaching it.
#[cfg(test)]
pub(super) fn load(
    interface: Interface,
    ether_type: EtherType,
) -> Result<(BpfObject, Shared), ProgramError> {
    load_variant(interface, ether_type, Variant::Plain)
}

fn load_variant(
    interface: Interface,
    ether_type: EtherType,
    variant: Variant,
) -> Result<(BpfObject, Shared), ProgramError> {
    let object = match variant {
        Variant::Plain => BpfObject::load(PROGRAM, rtwire_bpf::RECEIVE.bytes, &[])?,
        Variant::AsksForTags => {
            let bytes = rtwire_bpf::RECEIVE_TAGS.bytes;
            BpfObject::load_for(PROGRAM, bytes, interface.index)?
        }
    };
    let shared = Shared {
        control: object.map_array("control", CONTROL_WORDS)?,
        ports: object.map_array("ports", PORT_WORDS)?,
        channels: object.map_array("channels", CHANNEL_WORDS)?,
        slots: object.map_array("slots", SLOT_WORDS)?,
        replies: object.map_array("replies", REPLY_WORDS)?,
        queues: object.map_of_maps("queues")?,
        notes: object.map_of_maps("notes")?,
        program: object.program_descriptor(PROGRAM)?,
        watch: AddressWatch::new(&interface)?,
        interface,
        ether_type,
        variant,
        attachment: Mutex::new(Attachment {
            link: None,
            joined: false,
        }),
        why_generic: None,
        namespace: namespace(),
        tidied_ns: AtomicU64::new(0),
    };
    debug_assert_eq!(shared.ports.len(), PORTS);
    if let Some(word) = shared.control.word(0, Control::EtherType as usize) {
        word.store(ether_type.0.into(), Ordering::Relaxed);
    }
    shared.set_address(shared.interface.mac);
    Ok((object, shared))
}

impl Shared {
    /// Tells the program the interface's address. No system call.
    pub(super) fn set_address(&self, mac: [u8; 6]) {
        let mut octets = [0; 8];
        octets[..6].copy_from_slice(&mac);
        if let Some(word) = self.control.word(0, Control::Mac as usize) {
            word.store(u64::from_ne_bytes(octets), Ordering::Relaxed);
        }
    }
}

/// Returns the inode of the calling thread's network namespace; 0 if it cannot be read.
pub(crate) fn namespace() -> u64 {
    netns::own()
        .and_then(|file| file.metadata())
        .map_or(0, |metadata| metadata.ino())
}

/// Takes part in the program that is at the interface of `own`, which was loaded in vain. `in_use` is what to say if it is
/// none of ours.
fn join(own: &Shared, how: Attach, in_use: AttachError) -> Result<Shared, ProgramError> {
    let interface = || own.interface.name.clone();
    let Ok(found) = AttachedXdp::find(own.interface.index) else {
        return Err(in_use.into());
    };
    let gone = || ProgramError::NotJoined {
        interface: interface(),
        source: std::io::Error::other("it has just been detached; try again"),
    };
    let mut found = found.ok_or_else(gone)?;
    let tag = |program| attached::identity(program).map(|(_, tag)| tag);
    if tag(found.program()).ok() != tag(own.program.as_fd()).ok() {
        return Err(in_use.into());
    }
    let mode = found.mode();
    if let Attach::Only(wanted) = how {
        if wanted != mode {
            return Err(ProgramError::OtherMode {
                interface: interface(),
                mode,
            });
        }
    }
    let link = found.take_link().ok_or_else(gone)?;
    let map = |source| ProgramError::NotJoined {
        interface: interface(),
        source,
    };
    let shared = Shared {
        control: found.map_array("control", CONTROL_WORDS).map_err(map)?,
        ports: found.map_array("ports", PORT_WORDS).map_err(map)?,
        channels: found.map_array("channels", CHANNEL_WORDS).map_err(map)?,
        slots: found.map_array("slots", SLOT_WORDS).map_err(map)?,
        replies: found.map_array("replies", REPLY_WORDS).map_err(map)?,
        queues: found.map_of_maps("queues").map_err(map)?,
        notes: found.map_of_maps("notes").map_err(map)?,
        program: found.program().try_clone_to_owned().map_err(map)?,
        watch: AddressWatch::new(&own.interface)?,
        interface: own.interface.clone(),
        ether_type: own.ether_type,
        variant: own.variant,
        attachment: Mutex::new(Attachment {
            link: Some(link),
            joined: true,
        }),
        why_generic: (mode == XdpMode::Generic && how == Attach::Best).then(|| {
            "another process has attached the program in generic mode, and it is shared".to_owned()
        }),
        namespace: own.namespace,
        tidied_ns: AtomicU64::new(0),
    };
    let word = shared.control.word(0, Control::EtherType as usize);
    let there = word.map_or(0, |word| word.load(Ordering::Relaxed));
    if there != u64::from(own.ether_type.0) {
        return Err(ProgramError::OtherEtherType {
            interface: interface(),
            there: there as u16,
        });
    }
    Ok(shared)
}

/// Attaches a program again after it was detached. If another process that shares it has already done so, joins that
/// one.
pub(super) fn again(shared: &Shared) -> Result<(), ProgramError> {
    if shared.is_attached() == Ok(true) {
        return Ok(());
    }
    let mut attachment = shared.attachment();
    let mode = attachment
        .link
        .as_ref()
        .map_or(XdpMode::Generic, XdpLink::mode);
    let ifindex = shared.interface.index;
    match attach_xdp(shared.program.as_fd(), PROGRAM, ifindex, mode) {
        Ok(link) => attachment.link = Some(link),
        Err(in_use @ BpfError::XdpInUse { .. }) => {
            let id = |program| attached::identity(program).map(|(id, _)| id);
            let found: Result<Option<AttachedXdp>, Errno> = AttachedXdp::find(ifindex);
            let Ok(Some(mut found)) = found else {
                return Err(in_use.into());
            };
            if id(found.program()).ok() != id(shared.program.as_fd()).ok() {
                return Err(in_use.into());
            }
            attachment.link = found.take_link();
            attachment.joined = true;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
