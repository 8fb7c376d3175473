//! Socket filters: small programs that the kernel runs on each frame before a socket takes it.
//!
//! A classic filter consists of instructions that are checked here. So a wrong jump is our error with a reason, and
//! not the kernel's `EINVAL`. A load beyond the end of a frame ends the program and rejects the frame. A filter may
//! also be a program of a BPF object (`BpfObject::socket_filter`), which can count.

use crate::error::{Errno, Error, Result};
use crate::socket;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

/// The value that [`Instruction::LoadPacketType`] loads for a frame to another station (`PACKET_OTHERHOST`).
pub const FOR_OTHERS: u32 = libc::PACKET_OTHERHOST as u32;

/// A comparison with the program's one register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// Equal to the number.
    Equal(u32),
    /// Greater than or equal to the number.
    AtLeast(u32),
    /// Any of these bits set.
    AnyBit(u32),
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Load the frame's length.
    LoadLength,
    /// Load the byte at the offset from the start of the frame.
    LoadByte(u32),
    /// Load two bytes, big endian.
    LoadHalf(u32),
    /// Load four bytes, big endian.
    LoadWord(u32),
    /// Load the kernel's packet type: [`FOR_OTHERS`], or anything else for a frame to this host.
    ///
    /// This is the cheapest test there is. But a frame with a VLAN tag counts as for others if the device for that
    /// VLAN is missing here.
    LoadPacketType,
    /// Keep only these bits of the register.
    And(u32),
    /// Skip `yes` instructions if the test holds, else `no`.
    Jump {
        /// The test.
        test: Test,
        /// Instructions to skip if the test holds.
        yes: u8,
        /// Instructions to skip if it does not.
        no: u8,
    },
    /// Accept the frame.
    Accept,
    /// Reject the frame.
    Reject,
}

/// A checked program.
#[derive(Clone)]
pub struct Filter(Code);

#[derive(Clone)]
enum Code {
    Classic(Vec<libc::sock_filter>),
    /// A program of type `BPF_PROG_TYPE_SOCKET_FILTER` that is already in the kernel.
    Program(Arc<OwnedFd>),
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Code::Classic(code) => write!(f, "Filter({} instructions)", code.len()),
            Code::Program(_) => write!(f, "Filter(BPF program)"),
        }
    }
}

impl Filter {
    /// Checks a program: not empty, at most 4096 instructions, no jump past its end, an end that accepts or rejects.
    ///
    /// # Errors
    /// `EINVAL`, with the faulty instruction in the text.
    pub fn new(program: &[Instruction]) -> Result<Self> {
        let fault = |what: String| {
            Err(Error::new(
                "checking a socket filter",
                what,
                Errno(libc::EINVAL),
                None,
            ))
        };
        if program.is_empty() || program.len() > 4096 {
            return fault(format!("{} instructions", program.len()));
        }
        for (at, instruction) in program.iter().enumerate() {
            if let Instruction::Jump { yes, no, .. } = instruction {
                if at + 1 + usize::from(*yes.max(no)) >= program.len() {
                    return fault(format!("instruction {at}, which jumps past the end"));
                }
            }
        }
        if !matches!(
            program.last(),
            Some(Instruction::Accept | Instruction::Reject)
        ) {
            return fault("a program that neither accepts nor rejects at its end".to_owned());
        }
        Ok(Self(Code::Classic(program.iter().map(encode).collect())))
    }

    /// Runs the program on a frame as the kernel would; `for_others` is true for a frame to another station. Returns `None` for
    /// a program that only the kernel can run. For frames that come from elsewhere than a socket. No system call.
    #[must_use]
    pub fn accepts(&self, frame: &[u8], for_others: bool) -> Option<bool> {
        let Code::Classic(code) = &self.0 else {
            return None;
        };
        Some(run(code, frame, for_others).unwrap_or(false))
    }

    /// A program that the kernel has checked and holds.
    pub(crate) fn of_program(program: OwnedFd) -> Self {
        Self(Code::Program(Arc::new(program)))
    }

    /// Attaches the filter to the socket, in place of any other.
    pub(crate) fn attach(&self, socket: &OwnedFd, object: &str) -> Result<()> {
        let code = match &self.0 {
            Code::Classic(code) => code,
            Code::Program(program) => {
                return socket::set(
                    socket,
                    libc::SOL_SOCKET,
                    libc::SO_ATTACH_BPF,
                    program.as_raw_fd(),
                )
                .map_err(|errno| Error::new("setsockopt(SO_ATTACH_BPF)", object, errno, None));
            }
        };
        let program = libc::sock_fprog {
            // At most 4096, checked by `new`.
            len: code.len() as libc::c_ushort,
            filter: code.as_ptr().cast_mut(),
        };
        // SAFETY: the program points to `len` live instructions, which the kernel copies during the call.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                (&raw const program).cast(),
                size_of::<libc::sock_fprog>() as libc::socklen_t,
            )
        };
        if result != 0 {
            return Err(Error::last("setsockopt(SO_ATTACH_FILTER)", object, None));
        }
        Ok(())
    }
}

/// Runs a checked program; `None` where it loads from beyond the frame's end.
fn run(code: &[libc::sock_filter], frame: &[u8], for_others: bool) -> Option<bool> {
    let load = |at: u32, octets: usize| {
        let at = at as usize;
        let found = frame.get(at..at.checked_add(octets)?)?;
        Some(
            found
                .iter()
                .fold(0, |value, octet| value << 8 | u32::from(*octet)),
        )
    };
    let (mut register, mut at) = (0_u32, 0);
    loop {
        let one = code.get(at)?;
        at += 1;
        let jump = |holds: bool| usize::from(if holds { one.jt } else { one.jf });
        match one.code {
            0x80 => register = u32::try_from(frame.len()).unwrap_or(u32::MAX),
            0x30 if one.k == PACKET_TYPE => register = if for_others { FOR_OTHERS } else { 0 },
            0x30 => register = load(one.k, 1)?,
            0x28 => register = load(one.k, 2)?,
            0x20 => register = load(one.k, 4)?,
            0x54 => register &= one.k,
            0x15 => at += jump(register == one.k),
            0x35 => at += jump(register >= one.k),
            0x45 => at += jump(register & one.k != 0),
            _ => return Some(one.k != 0),
        }
    }
}

/// SKF_AD_OFF + SKF_AD_PKTTYPE, an offset below zero.
const PACKET_TYPE: u32 = (-0x1000_i32 + 4) as u32;

fn encode(instruction: &Instruction) -> libc::sock_filter {
    // linux/bpf_common.h: classes LD 0, ALU 4, JMP 5, RET 6; sizes W 0, H 0x08, B 0x10; modes ABS 0x20, LEN 0x80;
    // ALU AND 0x50; JMP JEQ 0x10, JGE 0x30, JSET 0x40; source K 0.
    let plain = |code, k| libc::sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    };
    match *instruction {
        Instruction::LoadLength => plain(0x80, 0),
        Instruction::LoadByte(at) => plain(0x30, at),
        Instruction::LoadHalf(at) => plain(0x28, at),
        Instruction::LoadWord(at) => plain(0x20, at),
        Instruction::LoadPacketType => plain(0x30, PACKET_TYPE),
        Instruction::And(mask) => plain(0x54, mask),
        Instruction::Jump { test, yes, no } => {
            let (code, k) = match test {
                Test::Equal(k) => (0x15, k),
                Test::AtLeast(k) => (0x35, k),
                Test::AnyBit(k) => (0x45, k),
            };
            libc::sock_filter {
                code,
                jt: yes,
                jf: no,
                k,
            }
        }
        Instruction::Accept => plain(0x06, u32::MAX),
        Instruction::Reject => plain(0x06, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::tests::some_octets;
    use std::os::fd::FromRawFd;
    use std::os::unix::net::UnixDatagram;

    /// Returns whether the kernel takes a frame with this filter.
    fn kernel_takes(filter: &Filter, frame: &[u8]) -> bool {
        let (from, to) = UnixDatagram::pair().unwrap();
        let same = OwnedFd::from(to.try_clone().unwrap());
        filter.attach(&same, "a socket").unwrap();
        // What the filter refuses is tossed without an error to its sender.
        from.send(frame).unwrap();
        to.set_nonblocking(true).unwrap();
        to.recv(&mut [0; 64]).is_ok()
    }

    #[test]
    fn a_filter_takes_here_what_it_takes_in_the_kernel() {
        let jump = |test, yes, no| Instruction::Jump { test, yes, no };
        let programs = [
            vec![
                Instruction::LoadLength,
                jump(Test::AtLeast(20), 0, 4),
                Instruction::LoadHalf(16),
                Instruction::And(0x0f03),
                jump(Test::Equal(0x0102), 0, 1),
                Instruction::Accept,
                Instruction::Reject,
            ],
            vec![
                Instruction::LoadByte(3),
                jump(Test::AnyBit(0x08), 1, 0),
                Instruction::Reject,
                Instruction::LoadWord(12),
                jump(Test::AtLeast(0x0800_0000), 0, 1),
                Instruction::Accept,
                Instruction::Reject,
            ],
            vec![Instruction::LoadByte(40), Instruction::Accept],
        ];
        let mut taken = 0;
        for program in programs {
            let filter = Filter::new(&program).unwrap();
            for length in 1..64 {
                for seed in 0..40 {
                    let frame = some_octets(length, seed);
                    let kernel = kernel_takes(&filter, &frame);
                    assert_eq!(
                        filter.accepts(&frame, false),
                        Some(kernel),
                        "{program:?} {frame:?}"
                    );
                    taken += u32::from(kernel);
                }
            }
        }
        assert!((100..7_000).contains(&taken), "{taken}");
    }

    #[test]
    fn the_packet_type_is_what_the_caller_says() {
        let program = [
            Instruction::LoadPacketType,
            Instruction::Jump {
                test: Test::Equal(FOR_OTHERS),
                yes: 0,
                no: 1,
            },
            Instruction::Reject,
            Instruction::Accept,
        ];
        let filter = Filter::new(&program).unwrap();
        assert_eq!(filter.accepts(&[0; 60], false), Some(true));
        assert_eq!(filter.accepts(&[0; 60], true), Some(false));
        // SAFETY: the descriptor is new and has no other owner.
        let file = unsafe { OwnedFd::from_raw_fd(libc::dup(0)) };
        assert_eq!(Filter::of_program(file).accepts(&[0; 60], false), None);
    }
}
