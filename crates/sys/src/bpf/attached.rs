//! The XDP program that any process has already attached to an interface, found by the kernel's numbers.
//!
//! So several processes can share one program. None of them has to serve the others, and a crash leaves no file
//! behind. The program stays attached as long as a process holds the link. Needs CAP_SYS_ADMIN (root).

use super::array::MappedArray;
use super::map_of_maps::MapOfMaps;
use super::xdp::{XdpLink, XdpMode};
use crate::error::Errno;
use libbpf_rs::libbpf_sys;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// An attached program and its maps.
#[derive(Debug)]
pub struct AttachedXdp {
    program: OwnedFd,
    mode: XdpMode,
    /// `None` if it is not attached by a link.
    link: Option<OwnedFd>,
    maps: Vec<(String, OwnedFd)>,
}

/// A program's tag: the kernel's hash of its instructions.
pub type Tag = [u8; 8];

/// Returns the number of the XDP program at an interface of the calling thread's network namespace, and its mode.
///
/// `None` if there is no program. Needs no privilege.
///
/// # Errors
/// The interface is missing.
pub fn program_at(ifindex: u32) -> Result<Option<(u32, XdpMode)>, Errno> {
    // SAFETY: bpf_xdp_query_opts is plain data, for which all zeroes is a valid value.
    let mut options: libbpf_sys::bpf_xdp_query_opts = unsafe { std::mem::zeroed() };
    options.sz = size_of_val(&options) as _;
    // SAFETY: `options`, with its size, is valid for the whole call.
    let result = unsafe {
        libbpf_sys::bpf_xdp_query(
            i32::try_from(ifindex).unwrap_or(i32::MAX),
            0,
            &raw mut options,
        )
    };
    if result != 0 {
        return Err(Errno(-result));
    }
    Ok(match u32::from(options.attach_mode) {
        libbpf_sys::XDP_ATTACHED_DRV => Some((options.drv_prog_id, XdpMode::Native)),
        libbpf_sys::XDP_ATTACHED_SKB => Some((options.skb_prog_id, XdpMode::Generic)),
        _ => None,
    })
}

/// Returns a program's number and tag.
///
/// # Errors
/// The kernel refuses the request.
pub fn identity(program: BorrowedFd<'_>) -> Result<(u32, Tag), Errno> {
    let info = program_info(program, &mut [])?;
    Ok((info.id, info.tag))
}

/// Describes the XDP program at an interface of the calling thread's network namespace, for a message: its name, number
/// and mode. Without CAP_SYS_ADMIN the kernel does not tell the name.
#[must_use]
pub fn describe(ifindex: u32) -> String {
    let Ok(Some((id, mode))) = program_at(ifindex) else {
        return "it has just been detached".to_owned();
    };
    // SAFETY: the argument is a number.
    let program = owned(unsafe { libbpf_sys::bpf_prog_get_fd_by_id(id) });
    match program.and_then(|program| program_info(program.as_fd(), &mut [])) {
        Ok(info) => format!("`{}`, number {id}, in {mode} mode", name(&info.name)),
        Err(errno) if matches!(errno.0, libc::EPERM | libc::EACCES) => format!(
            "number {id}, in {mode} mode (CAP_SYS_ADMIN is needed to see its name, and to share it if it is rtwire's own)"
        ),
        Err(_) => format!("number {id}, in {mode} mode"),
    }
}

impl AttachedXdp {
    /// Finds the program at an interface of the calling thread's network namespace; `None` if there is none. Needs
    /// CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// CAP_SYS_ADMIN or the interface is missing.
    pub fn find(ifindex: u32) -> Result<Option<Self>, Errno> {
        let Some((id, mode)) = program_at(ifindex)? else {
            return Ok(None);
        };
        // SAFETY: the argument is a number.
        let program = owned(unsafe { libbpf_sys::bpf_prog_get_fd_by_id(id) })?;
        let mut ids = [0; 32];
        let info = program_info(program.as_fd(), &mut ids)?;
        let mut maps = Vec::new();
        for &id in &ids[..(info.nr_map_ids as usize).min(ids.len())] {
            // SAFETY: the argument is a number.
            let map = owned(unsafe { libbpf_sys::bpf_map_get_fd_by_id(id) })?;
            let name = name(&map_info(map.as_fd())?.name);
            maps.push((name, map));
        }
        Ok(Some(Self {
            link: link_of(id)?,
            program,
            mode,
            maps,
        }))
    }

    /// The program's mode.
    #[must_use]
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// The program's descriptor.
    #[must_use]
    pub fn program(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }

    /// Takes the link: the program stays attached as long as the link is held. `None` if it is attached without a
    /// link.
    pub fn take_link(&mut self) -> Option<XdpLink> {
        let mode = self.mode;
        self.link.take().map(|link| XdpLink { link, mode })
    }

    /// Maps an array into memory.
    ///
    /// # Errors
    /// The map is missing, or its values have another length.
    pub fn map_array(&self, map: &str, words: usize) -> io::Result<MappedArray> {
        let fd = self.map(map)?;
        let info = map_info(fd).map_err(|errno| io::Error::from_raw_os_error(errno.0))?;
        if info.value_size as usize != words * size_of::<u64>() {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        MappedArray::new(fd.try_clone_to_owned()?, words, info.max_entries as usize)
    }

    /// Returns an array of maps.
    ///
    /// # Errors
    /// The map is missing.
    pub fn map_of_maps(&self, map: &str) -> io::Result<MapOfMaps> {
        Ok(MapOfMaps::new(self.map(map)?.try_clone_to_owned()?))
    }

    fn map(&self, name: &str) -> io::Result<BorrowedFd<'_>> {
        let found = self.maps.iter().find(|(found, _)| found == name);
        found
            .map(|(_, fd)| fd.as_fd())
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }
}

/// Returns the link by which a program is attached.
fn link_of(program: u32) -> Result<Option<OwnedFd>, Errno> {
    let mut id = 0;
    loop {
        let mut next = 0;
        // SAFETY: `next` is a valid place for the whole call.
        let result = unsafe { libbpf_sys::bpf_link_get_next_id(id, &raw mut next) };
        match -result {
            0 => id = next,
            libc::ENOENT => return Ok(None),
            errno => return Err(Errno(errno)),
        }
        // SAFETY: the argument is a number. A link that has gone meanwhile is not ours.
        let Ok(link) = owned(unsafe { libbpf_sys::bpf_link_get_fd_by_id(id) }) else {
            continue;
        };
        // SAFETY: bpf_link_info is plain data, for which all zeroes is a valid value.
        let mut info: libbpf_sys::bpf_link_info = unsafe { std::mem::zeroed() };
        let mut length = size_of_val(&info) as u32;
        // SAFETY: `info` is a valid place of the length given, and both live for the whole call.
        let result = unsafe {
            libbpf_sys::bpf_link_get_info_by_fd(link.as_raw_fd(), &raw mut info, &raw mut length)
        };
        if result == 0 && info.type_ == libbpf_sys::BPF_LINK_TYPE_XDP && info.prog_id == program {
            // SAFETY: a link of XDP, so this member of the union is the one that the kernel has filled.
            if unsafe { info.__bindgen_anon_1.xdp.ifindex } != 0 {
                return Ok(Some(link));
            }
        }
    }
}

fn program_info(
    program: BorrowedFd<'_>,
    maps: &mut [u32],
) -> Result<libbpf_sys::bpf_prog_info, Errno> {
    // SAFETY: bpf_prog_info is plain data, for which all zeroes is a valid value.
    let mut info: libbpf_sys::bpf_prog_info = unsafe { std::mem::zeroed() };
    info.nr_map_ids = maps.len() as u32;
    info.map_ids = if maps.is_empty() {
        0
    } else {
        maps.as_mut_ptr() as u64
    };
    let mut length = size_of_val(&info) as u32;
    // SAFETY: `info` is a valid place of its length, and points to room for as many numbers as it says. All of them
    // live for the whole call.
    let result = unsafe {
        libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut length)
    };
    if result == 0 {
        Ok(info)
    } else {
        Err(Errno(-result))
    }
}

fn map_info(map: BorrowedFd<'_>) -> Result<libbpf_sys::bpf_map_info, Errno> {
    // SAFETY: bpf_map_info is plain data, for which all zeroes is a valid value.
    let mut info: libbpf_sys::bpf_map_info = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&info) as u32;
    // SAFETY: `info` is a valid place of the length given, and both live for the whole call.
    let result = unsafe {
        libbpf_sys::bpf_map_get_info_by_fd(map.as_raw_fd(), &raw mut info, &raw mut length)
    };
    if result == 0 {
        Ok(info)
    } else {
        Err(Errno(-result))
    }
}

fn name(octets: &[libc::c_char]) -> String {
    let octets: Vec<u8> = octets
        .iter()
        .map(|&octet| octet as u8)
        .take_while(|&octet| octet != 0)
        .collect();
    String::from_utf8_lossy(&octets).into_owned()
}

fn owned(result: i32) -> Result<OwnedFd, Errno> {
    if result < 0 {
        return Err(Errno(-result));
    }
    // SAFETY: the kernel has just made this descriptor for us; it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(result) })
}
