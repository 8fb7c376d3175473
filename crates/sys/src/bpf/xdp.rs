//! XDP: programs in the driver's receive path, attached by a link, and run on frames for tests.

use std::ffi::CString;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libbpf_rs::{ProgramInput, libbpf_sys};

use super::{BpfError, BpfObject, attached};
use crate::error::Errno;
use crate::interface;

/// The mode of an XDP program: the place where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum XdpMode {
    /// In the driver, before the kernel has allocated anything for the frame.
    Native,
    /// Behind the driver: works with every driver, and costs more.
    Generic,
}

impl XdpMode {
    const fn flags(self) -> u32 {
        match self {
            Self::Native => libbpf_sys::XDP_FLAGS_DRV_MODE,
            Self::Generic => libbpf_sys::XDP_FLAGS_SKB_MODE,
        }
    }
}

impl fmt::Display for XdpMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Generic => "generic",
        })
    }
}

/// Returns the remedy for a refused attachment.
pub(super) fn remedy(errno: Errno, long_mtu: Option<u32>) -> String {
    if let Some(mtu) = long_mtu {
        return format!(
            "; the driver cannot do this mode with its present settings, and an MTU of {mtu} is too long for most drivers: \
             1500 is possible for each, 3506 for a veth (and its peer)"
        );
    }
    let remedy = match errno.0 {
        libc::EPERM | libc::EACCES => "; CAP_NET_ADMIN and CAP_BPF are needed: run as root",
        libc::ENODEV => "; there is no such interface (any more)",
        libc::EOPNOTSUPP | libc::EINVAL => {
            "; the driver cannot do this mode with its present settings"
        }
        libc::ENOSPC => {
            "; a veth needs at least as many receive queues as its peer has transmit queues"
        }
        libc::ERANGE => "; the MTU (a veth's peer's, too) must be at most 3506 for this mode",
        _ => "",
    };
    remedy.to_owned()
}

/// The MTU that every driver with native mode takes.
const USUAL_MTU: u32 = 1500;

/// Returns the interface's MTU where it may be the reason of a refusal.
fn long_mtu(ifindex: u32, mode: XdpMode, errno: i32) -> Option<u32> {
    let about_settings = matches!(errno, libc::EINVAL | libc::EOPNOTSUPP | libc::ERANGE);
    if mode != XdpMode::Native || !about_settings {
        return None;
    }
    let interface = interface::by_name(&interface::name_of(ifindex)?).ok()?;
    Some(interface.mtu).filter(|&mtu| mtu > USUAL_MTU)
}

/// An attached XDP program. Dropping it detaches; so does the end of the process, however it ends.
#[derive(Debug)]
pub struct XdpLink {
    pub(super) link: OwnedFd,
    pub(super) mode: XdpMode,
}

impl XdpLink {
    /// The program's mode.
    #[must_use]
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// Detaches the program while the link lives on, as an administrator can with `bpftool link detach`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn detach(&self) -> Result<(), Errno> {
        // SAFETY: the argument is a descriptor that is open for the whole call.
        let result = unsafe { libbpf_sys::bpf_link_detach(self.link.as_raw_fd()) };
        if result == 0 {
            Ok(())
        } else {
            Err(Errno(-result))
        }
    }

    /// Keeps the program attached, also without a process, by a name in a file system of type `bpf`.
    ///
    /// # Errors
    /// The name exists, its folder does not, or is in a file system of another type; CAP_BPF is missing.
    pub fn hold(&self, path: &Path) -> Result<(), Errno> {
        let path = c_path(path)?;
        // SAFETY: the descriptor and the text are valid for the whole call.
        let result = unsafe { libbpf_sys::bpf_obj_pin(self.link.as_raw_fd(), path.as_ptr()) };
        if result == 0 {
            Ok(())
        } else {
            Err(Errno(-result))
        }
    }

    /// True if a name holds a program that is attached; false if there is no such name, or its interface is gone.
    ///
    /// # Errors
    /// The name is that of something else, or a privilege is missing.
    pub fn is_held(path: &Path) -> Result<bool, Errno> {
        let text = c_path(path)?;
        // SAFETY: the text is valid for the whole call.
        let result = unsafe { libbpf_sys::bpf_obj_get(text.as_ptr()) };
        match -result {
            libc::ENOENT => return Ok(false),
            errno if errno > 0 => return Err(Errno(errno)),
            _ => {}
        }
        // SAFETY: a new descriptor without another owner.
        let link = unsafe { OwnedFd::from_raw_fd(result) };
        // The mode is of no interest here.
        let mode = XdpMode::Native;
        Self { link, mode }.is_attached()
    }

    /// True if the program is still attached; false if the interface is gone or the program was detached from
    /// outside. One system call.
    ///
    /// # Errors
    /// The kernel refuses the request.
    pub fn is_attached(&self) -> Result<bool, Errno> {
        // SAFETY: bpf_link_info is plain data, for which all zeroes is a valid value.
        let mut info: libbpf_sys::bpf_link_info = unsafe { std::mem::zeroed() };
        let mut length = size_of_val(&info) as u32;
        // SAFETY: `info` is a valid place of the length given, and both live for the whole call.
        let result = unsafe {
            libbpf_sys::bpf_link_get_info_by_fd(
                self.link.as_raw_fd(),
                &raw mut info,
                &raw mut length,
            )
        };
        if result != 0 {
            return Err(Errno(-result));
        }
        // SAFETY: the link was made as one of XDP, so this member of the union is the one that the kernel has filled.
        Ok(unsafe { info.__bindgen_anon_1.xdp.ifindex } != 0)
    }
}

/// The result of a test run of an XDP program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestRun {
    /// The program's verdict (`XDP_PASS` is 2, `XDP_DROP` 1, `XDP_TX` 3).
    pub verdict: u32,
    /// The average duration of one run, ns.
    pub duration_ns: u32,
}

/// Attaches a program, called `name` in errors, to an interface of the calling thread's network namespace, by a link.
///
/// Needs Linux 5.9 and CAP_NET_ADMIN. Not for a real-time loop.
///
/// # Errors
/// [`BpfError::XdpInUse`] if another XDP program is there; [`BpfError::Xdp`] with the reason otherwise.
pub fn attach(
    program: BorrowedFd<'_>,
    name: &str,
    ifindex: u32,
    mode: XdpMode,
) -> Result<XdpLink, BpfError> {
    // SAFETY: bpf_link_create_opts is plain data, for which all zeroes is a valid value.
    let mut options: libbpf_sys::bpf_link_create_opts = unsafe { std::mem::zeroed() };
    options.sz = size_of_val(&options) as _;
    options.flags = mode.flags();
    // SAFETY: the descriptor and `options`, with its size, are valid for the whole call.
    let result = unsafe {
        libbpf_sys::bpf_link_create(
            program.as_raw_fd(),
            i32::try_from(ifindex).unwrap_or(i32::MAX),
            libbpf_sys::BPF_XDP,
            &raw const options,
        )
    };
    if result < 0 {
        return Err(refused(name, ifindex, mode, -result));
    }
    // SAFETY: a new descriptor without another owner.
    let link = unsafe { OwnedFd::from_raw_fd(result) };
    Ok(XdpLink { link, mode })
}

fn c_path(path: &Path) -> Result<CString, Errno> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno(libc::EINVAL))
}

fn refused(program: &str, ifindex: u32, mode: XdpMode, errno: i32) -> BpfError {
    let program = program.to_owned();
    match errno {
        // EEXIST: one in the other mode.
        libc::EBUSY | libc::EEXIST => BpfError::XdpInUse {
            program,
            ifindex,
            there: attached::describe(ifindex),
        },
        errno => BpfError::Xdp {
            program,
            ifindex,
            mode,
            errno: Errno(errno),
            long_mtu: long_mtu(ifindex, mode, errno),
        },
    }
}

impl BpfObject {
    /// Attaches a program of section `xdp` to an interface of the calling thread's network namespace, by a link.
    ///
    /// Needs Linux 5.9 and CAP_NET_ADMIN. Not for a real-time loop.
    ///
    /// # Errors
    /// [`BpfError::XdpInUse`] if another XDP program is there; [`BpfError::Xdp`] with the reason otherwise.
    pub fn attach_xdp(
        &self,
        program: &str,
        ifindex: u32,
        mode: XdpMode,
    ) -> Result<XdpLink, BpfError> {
        attach(
            self.program_descriptor(program)?.as_fd(),
            program,
            ifindex,
            mode,
        )
    }

    /// Attaches a program of section `xdp` in native mode without a link: it stays after this process, as long as the
    /// interface exists.
    ///
    /// Needs Linux 5.6 and CAP_NET_ADMIN. Not for a real-time loop.
    ///
    /// # Errors
    /// [`BpfError::XdpInUse`] if another XDP program is there; [`BpfError::Xdp`] with the reason otherwise.
    pub fn leave_xdp(&self, program: &str, ifindex: u32) -> Result<(), BpfError> {
        let descriptor = self.program_descriptor(program)?;
        // SAFETY: the descriptor is open for the whole call, and no options are given.
        let result = unsafe {
            libbpf_sys::bpf_xdp_attach(
                i32::try_from(ifindex).unwrap_or(i32::MAX),
                descriptor.as_raw_fd(),
                libbpf_sys::XDP_FLAGS_DRV_MODE | libbpf_sys::XDP_FLAGS_UPDATE_IF_NOEXIST,
                std::ptr::null(),
            )
        };
        match -result {
            0 => Ok(()),
            errno => Err(refused(program, ifindex, XdpMode::Native, errno)),
        }
    }

    /// Runs an XDP program `repeat` times on a frame of at least 14 bytes, without a network (`BPF_PROG_TEST_RUN`).
    ///
    /// Afterwards `out` holds the frame that the last run left. Frames that grow need Linux 5.18.
    ///
    /// # Errors
    /// The program is missing, or the kernel refuses the run.
    pub fn test_run_xdp(
        &self,
        program: &str,
        frame: &[u8],
        out: &mut Vec<u8>,
        repeat: u32,
    ) -> Result<TestRun, BpfError> {
        const ROOM: usize = 4096;
        let found = self.program(program)?;
        out.clear();
        out.resize(ROOM, 0);
        let input = ProgramInput {
            data_in: Some(frame),
            data_out: Some(out),
            repeat,
            ..ProgramInput::default()
        };
        let result = found.test_run(input).map(|output| {
            let length = output.data.map_or(0, |data| data.len());
            (length, output.return_value, output.duration)
        });
        let (length, verdict, duration) = result.map_err(|source| BpfError::TestRun {
            program: program.to_owned(),
            source,
        })?;
        out.truncate(length);
        Ok(TestRun {
            verdict,
            duration_ns: u32::try_from(duration.as_nanos()).unwrap_or(u32::MAX),
        })
    }
}
