//! Network namespaces: created, entered and removed by name, as `ip netns` keeps them.
//!
//! A bind mount under `/run/netns` keeps a namespace alive. So `ip netns exec NAME …` works on those made here, and
//! the other way round. Needs CAP_SYS_ADMIN. Nothing here is for a real-time loop.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

/// The folder where named namespaces are mounted, the same as for `ip netns`.
pub const DIRECTORY: &str = "/run/netns";

/// Returns the path of a namespace: the argument itself if it is a path, else a name below [`DIRECTORY`].
#[must_use]
pub fn path(name_or_path: &str) -> PathBuf {
    if name_or_path.contains('/') {
        PathBuf::from(name_or_path)
    } else {
        Path::new(DIRECTORY).join(name_or_path)
    }
}

/// True if the name stands for a namespace.
///
/// A name without a namespace is left when its maker was killed before the mount; [`delete`] removes it.
#[must_use]
pub fn is_namespace(name_or_path: &str) -> bool {
    // All namespaces are files of one file system of the kernel's.
    let file_system = |path: &Path| fs::metadata(path).map(|file| file.dev());
    let own = file_system(Path::new("/proc/self/ns/net"));
    own.is_ok_and(|own| file_system(&path(name_or_path)).is_ok_and(|named| named == own))
}

/// Opens a namespace, for [`enter_file`] or for a netlink request.
///
/// # Errors
/// The system's error, with the namespace's name in its text.
pub fn open(name_or_path: &str) -> io::Result<File> {
    File::open(path(name_or_path)).map_err(|e| {
        io::Error::new(
            e.kind(),
            format!("cannot open network namespace `{name_or_path}`: {e}"),
        )
    })
}

/// Moves the calling thread, and only it, into a network namespace.
///
/// # Errors
/// The namespace or CAP_SYS_ADMIN is missing.
pub fn enter(name_or_path: &str) -> io::Result<()> {
    enter_file(&open(name_or_path)?).map_err(|e| {
        io::Error::new(
            e.kind(),
            format!(
                "cannot enter network namespace `{name_or_path}` (CAP_SYS_ADMIN is needed): {e}"
            ),
        )
    })
}

/// Moves the calling process into a network namespace as `ip netns exec` does: with its own view of `/sys`, which
/// shows the namespace's interfaces.
///
/// For a process with one thread, before it becomes another program.
///
/// # Errors
/// The namespace or CAP_SYS_ADMIN is missing.
pub fn enter_with_sysfs(name_or_path: &str) -> io::Result<()> {
    enter(name_or_path)?;
    own_sysfs()
}

/// Mounts a `/sys` for the calling thread that shows its network namespace.
fn own_sysfs() -> io::Result<()> {
    // SAFETY: unshare takes flags by value and changes only the calling thread's namespaces.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // Mounts from here on must not spread to the namespace that we left.
    mount(c"none", c"/", c"", libc::MS_SLAVE | libc::MS_REC)?;
    mount(c"rtwire", c"/sys", c"sysfs", 0)
}

fn mount(source: &CStr, target: &CStr, kind: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    // SAFETY: all strings are valid and outlive the call; no file system here takes data.
    let result = unsafe {
        libc::mount(
            source.as_ptr(),
            target.as_ptr(),
            kind.as_ptr(),
            flags,
            std::ptr::null(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Moves the calling thread into a namespace that is already open, as [`enter`] does.
///
/// # Errors
/// The system's error of `setns`.
pub fn enter_file(namespace: &File) -> io::Result<()> {
    // SAFETY: setns takes a descriptor and flags by value; the descriptor is open for the whole call.
    let result = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Opens the calling thread's own namespace, to come back to it with [`inside`].
///
/// # Errors
/// `/proc` is missing.
pub fn own() -> io::Result<File> {
    File::open("/proc/thread-self/ns/net")
}

/// Runs `work` on a thread of its own inside a namespace that is already open. A panic in it becomes an error.
///
/// # Errors
/// The system's error of `setns` (CAP_SYS_ADMIN, unless it is the thread's own namespace already).
pub fn inside<T: Send>(namespace: &File, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    use std::os::unix::fs::MetadataExt;
    let same = |a: &File, b: &File| Ok::<_, io::Error>(a.metadata()?.ino() == b.metadata()?.ino());
    thread::scope(|scope| {
        scope
            .spawn(|| {
                if !same(namespace, &own()?)? {
                    enter_file(namespace)?;
                }
                Ok(work())
            })
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread in a namespace panicked")))
    })
}

/// Writes a setting of an interface of the calling thread's namespace: a file below `/sys/class/net/INTERFACE`.
///
/// `/sys` shows the interfaces of the namespace it was mounted in, so this uses a view of its own. Not for a
/// real-time loop.
///
/// # Errors
/// The interface or the setting is missing, its driver refuses, or CAP_SYS_ADMIN is missing.
pub fn write_interface_setting(interface: &str, setting: &str, value: &str) -> io::Result<()> {
    thread::scope(|scope| {
        scope
            .spawn(|| {
                own_sysfs()?;
                fs::write(format!("/sys/class/net/{interface}/{setting}"), value)
            })
            .join()
            .unwrap_or_else(|_| {
                Err(io::Error::other(
                    "the thread that writes a setting panicked",
                ))
            })
    })
}

/// Reads a setting that [`write_interface_setting`] can write, without white space around it.
///
/// # Errors
/// The interface, the setting or CAP_SYS_ADMIN is missing.
pub fn read_interface_setting(interface: &str, setting: &str) -> io::Result<String> {
    let read = || {
        own_sysfs()?;
        let text = fs::read_to_string(format!("/sys/class/net/{interface}/{setting}"))?;
        Ok(text.trim().to_owned())
    };
    thread::scope(|scope| {
        scope
            .spawn(read)
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread that reads a setting panicked")))
    })
}

/// Creates a new, empty namespace with a name.
///
/// # Errors
/// The name is in use, `/run/netns` cannot be written, or CAP_SYS_ADMIN is missing.
pub fn create(name: &str) -> io::Result<()> {
    fs::create_dir_all(DIRECTORY)?;
    share_directory();
    let target = path(name);
    // `create_new`: a name in use must never be mounted over.
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&target)?;
    // A thread of its own: unshare moves the calling thread, and ours must stay where it is.
    let made = thread::spawn({
        let target = target.clone();
        move || unshare_and_mount(&target)
    })
    .join()
    .unwrap_or_else(|_| {
        Err(io::Error::other(
            "the thread that makes a namespace panicked",
        ))
    });
    if made.is_err() {
        let _ = fs::remove_file(&target);
    }
    made
}

/// Returns the name or path by which this process reaches a namespace of [`create_lasting`].
///
/// It is the name. If this process has its own view of the file system, it is a path through the first process's.
#[must_use]
pub fn lasting(name: &str) -> String {
    match view() {
        View::BesideFirst => format!("/proc/1/root{DIRECTORY}/{name}"),
        View::First | View::Lost => name.to_owned(),
    }
}

/// Creates a namespace as [`create`] does, in the first process's view of the file system.
///
/// `ip netns exec` and some services have a view of their own. A name made there would vanish with it, and with the
/// name the namespace and the interfaces in it.
///
/// # Errors
/// As for [`create`]; or this process has its own view, and the first process's cannot be reached.
pub fn create_lasting(name: &str) -> io::Result<()> {
    in_first_view(|| create(name))
}

/// Removes a namespace of [`create_lasting`], as [`delete`] does.
///
/// # Errors
/// As for [`delete`].
pub fn delete_lasting(name: &str) -> io::Result<()> {
    in_first_view(|| delete(name))
}

const FIRST_VIEW: &str = "/proc/1/ns/mnt";

/// The view of the file system that a process has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum View {
    /// The first process's, as far as can be seen.
    First,
    /// Its own, but the first one can be reached.
    BesideFirst,
    /// Its own, and the first one cannot be reached.
    Lost,
}

fn view() -> View {
    let of = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    let own = of("thread-self");
    if let Some(first) = of("1") {
        return if Some(first) == own {
            View::First
        } else {
            View::BesideFirst
        };
    }
    // In a sandbox, the processes that started us show whether the view was changed on the path from the first one.
    let mut process = "self".to_owned();
    for _ in 0..64 {
        let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else {
            break;
        };
        // The parent is the second field behind the name, which may itself contain blanks and parentheses.
        let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
        let Some(parent) = behind.split_whitespace().nth(1) else {
            break;
        };
        process = parent.to_owned();
        match of(&process) {
            Some(theirs) if Some(&theirs) != own.as_ref() => return View::Lost,
            Some(_) => {}
            None => break,
        }
    }
    View::First
}

fn in_first_view<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    match view() {
        View::First => return work(),
        View::BesideFirst => {}
        View::Lost => {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this process has its own view of the file system (as under `ip netns exec`), so the name would vanish with it; \
                 enter the namespace with `nsenter --net=/run/netns/NAME` instead",
            ));
        }
    }
    let there = || {
        let view = File::open(FIRST_VIEW)?;
        // SAFETY: unshare takes flags by value; the calling thread gets its own working directory and root.
        if unsafe { libc::unshare(libc::CLONE_FS) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: setns takes a descriptor and flags by value; the descriptor is open for the whole call.
        if unsafe { libc::setns(view.as_raw_fd(), libc::CLONE_NEWNS) } != 0 {
            return Err(io::Error::last_os_error());
        }
        work()
    };
    thread::scope(|scope| {
        let panicked = |_| Err(io::Error::other("the thread in another view panicked"));
        scope.spawn(there).join().unwrap_or_else(panicked)
    })
}

/// Runs `work` on a thread in a network namespace without a name. It vanishes with the thread, however the process
/// ends.
///
/// # Errors
/// CAP_SYS_ADMIN is missing, or `work` panicked.
pub fn in_nameless<R: Send>(work: impl FnOnce() -> R + Send) -> io::Result<R> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: unshare takes flags by value and changes only the calling thread's namespaces.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(work())
        });
        let panicked = |_| {
            Err(io::Error::other(
                "the work in a nameless namespace panicked",
            ))
        };
        thread.join().unwrap_or_else(panicked)
    })
}

/// Makes the directory a mount of its own, as `ip netns add` does before its first namespace.
///
/// If that command did it later, it would hide the mounts of names made before, and nothing could remove them. If the
/// mount is refused here, the creation of the first name reports the reason.
fn share_directory() {
    // `ip netns` takes the same lock for it.
    let Ok(lock) = File::open(DIRECTORY) else {
        return;
    };
    // SAFETY: flock takes a descriptor, which is open for the whole call, and flags by value.
    unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX) };
    let directory = c"/run/netns".as_ptr();
    let mount = |source, flags| {
        let none = std::ptr::null();
        // SAFETY: source and target are valid C strings that outlive the call; type and data may be null for these flags.
        unsafe { libc::mount(source, directory, none, flags, none.cast()) }
    };
    let share = || mount(c"".as_ptr(), libc::MS_SHARED | libc::MS_REC);
    let is_no_mount = || io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL);
    if share() != 0 && is_no_mount() {
        mount(directory, libc::MS_BIND | libc::MS_REC);
        share();
    }
}

fn unshare_and_mount(target: &Path) -> io::Result<()> {
    // SAFETY: unshare takes flags by value and changes only the calling thread's namespaces.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let target = c_string(target)?;
    // SAFETY: both paths are valid C strings that outlive the call; type and data may be null for a bind mount.
    let result = unsafe {
        libc::mount(
            c"/proc/thread-self/ns/net".as_ptr(),
            target.as_ptr(),
            std::ptr::null(),
            libc::MS_BIND,
            std::ptr::null(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Removes a name. The namespace ends with its last process and socket. A missing name is no error.
///
/// # Errors
/// The mount cannot be removed (CAP_SYS_ADMIN).
pub fn delete(name: &str) -> io::Result<()> {
    let target = path(name);
    if !target.exists() {
        return Ok(());
    }
    let c_target = c_string(&target)?;
    // SAFETY: a valid C string that outlives the call.
    let result = unsafe { libc::umount2(c_target.as_ptr(), libc::MNT_DETACH) };
    if result != 0 {
        let error = io::Error::last_os_error();
        // EINVAL: a file without a mount, left by a maker that was killed before the mount.
        if error.raw_os_error() != Some(libc::EINVAL) {
            return Err(io::Error::new(
                error.kind(),
                format!(
                    "cannot remove network namespace `{name}` (CAP_SYS_ADMIN is needed): {error}"
                ),
            ));
        }
    }
    match fs::remove_file(&target) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Returns the names of all namespaces that begin with `prefix`, sorted.
///
/// # Errors
/// The directory cannot be read; a missing one holds no names.
pub fn list(prefix: &str) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(DIRECTORY) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with(prefix))
        .collect();
    names.sort();
    Ok(names)
}

fn c_string(path: &Path) -> io::Result<std::ffi::CString> {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a path with a NUL byte"))
}
