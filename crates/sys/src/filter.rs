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
        // SKF_AD_OFF + SKF_AD_PKTTYPE, an offset below zero.
        Instruction::LoadPacketType => plain(0x30, (-0x1000_i32 + 4) as u32),
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
