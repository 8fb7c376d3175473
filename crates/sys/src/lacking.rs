//! A kernel that lacks something, for tests of the messages then: system calls fail as if they did not exist. Only
//! with the feature `lacking-kernel`.

use crate::error::{Error, Result};

/// `bpf(2)`, as missing from a kernel without `CONFIG_BPF_SYSCALL`.
pub const BPF: libc::c_long = libc::SYS_bpf;

/// Makes `call` fail with `ENOSYS` from now on, for the calling thread and all that it starts. It cannot be undone.
///
/// # Errors
/// The kernel has no seccomp filters.
pub fn refuse(call: libc::c_long) -> Result<()> {
    let fail = |name| move || Error::last(name, "the calling thread", None);
    // BPF_LD | BPF_W | BPF_ABS of `seccomp_data.nr`, BPF_JMP | BPF_JEQ | BPF_K, BPF_RET | BPF_K.
    let instruction = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let number = u32::try_from(call).unwrap_or(u32::MAX);
    let refused = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    let program = [
        instruction(0x20, 0, 0, 0),
        instruction(0x15, 0, 1, number),
        instruction(0x06, 0, 0, refused),
        instruction(0x06, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: program.len() as libc::c_ushort,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: all arguments are numbers.
    let allowed = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    if allowed != 0 {
        return Err(fail("prctl(PR_SET_NO_NEW_PRIVS)")());
    }
    // SAFETY: the program points to live instructions, which the kernel copies during the call.
    let set = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::c_ulong::from(libc::SECCOMP_MODE_FILTER),
            &raw const program,
        )
    };
    if set != 0 {
        return Err(fail("prctl(PR_SET_SECCOMP)")());
    }
    Ok(())
}
