//! All that a command writes: standard output, files whole or not at all, messages on standard error.
//!
//! Every write is checked. Commands print as they go; [`end`] turns a failed write into the command's exit code. A reader
//! of standard output that went away (`| head -1`) is no failure: the command's own result stays its exit code.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;

/// The exit code where output could not be written and the command found nothing worse.
pub(crate) const UNWRITTEN: u8 = 2;

/// The first failed write to standard output; nothing is written after it.
static FAILED: OnceLock<io::Error> = OnceLock::new();

/// Prints to standard error, as the macro of the standard library does. It does not panic where standard error is closed
/// or full: there is no place left to report that.
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::output::tell(&(format!($($text)*) + "\n")) };
}

/// Prints to standard error without a line feed; as `eprintln` here.
macro_rules! eprint {
    ($($text:tt)*) => { $crate::output::tell(&format!($($text)*)) };
}

/// Writes to standard error, in one piece.
pub(crate) fn tell(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Writes to standard output. A failure is kept for [`end`].
pub(crate) fn print(text: &str) {
    if !is_lost() {
        let mut out = io::stdout().lock();
        note(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    }
}

/// Writes a line to standard output. A failure is kept for [`end`].
pub(crate) fn line(text: &str) {
    print(&format!("{text}\n"));
}

/// Keeps the first failure to write to standard output.
pub(crate) fn note(written: io::Result<()>) {
    if let Err(error) = written {
        let _ = FAILED.set(error);
    }
}

/// Returns true if nothing more can be written to standard output: its reader went away, or a write failed.
pub(crate) fn is_lost() -> bool {
    FAILED.get().is_some()
}

/// Returns the exit code of a command that found `own` and could not write a part of its output.
pub(crate) fn unwritten(own: u8) -> u8 {
    if own == 0 { UNWRITTEN } else { own }
}

/// Returns the exit code of a command that found `own`. Reports output that could not be written.
pub(crate) fn end(own: ExitCode) -> ExitCode {
    match FAILED.get() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("rtwire: cannot write to standard output: {error}");
            if own == ExitCode::SUCCESS {
                ExitCode::from(UNWRITTEN)
            } else {
                own
            }
        }
        _ => own,
    }
}

/// Replaces a file by this text: readers see the old one or the new one, never a part. What is no regular file, such as
/// `/dev/stdout`, is written directly.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), String> {
    replace_with(path, |file| file.write_all(text.as_bytes()))
}

/// Replaces a file by what `write` puts into it, as [`replace`] does.
pub(crate) fn replace_with(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), String> {
    let shown = path.display();
    let failed = |error: io::Error| format!("cannot write `{shown}`: {error}");
    // A link stays one: what it leads to is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let old = fs::metadata(&target).ok();
    if old.as_ref().is_some_and(fs::Metadata::is_dir) {
        return Err(format!("cannot write `{shown}`: it is a directory"));
    }
    // A device, a pipe, or this process's own output, which a new file would not reach.
    let is_stream = path.starts_with("/dev") || path.starts_with("/proc");
    if is_stream || old.as_ref().is_some_and(|old| !old.is_file()) {
        let direct = OpenOptions::new().append(true).open(path);
        return direct.and_then(|mut file| write(&mut file)).map_err(failed);
    }
    let Some(name) = target.file_name() else {
        return Err(format!("cannot write `{shown}`: it is no name of a file"));
    };
    let mut beside = OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}.new", std::process::id()));
    let beside: PathBuf = target.with_file_name(beside);
    if old.is_some() {
        // A rename would replace a file that this user must not write.
        let allowed = OpenOptions::new().append(true).open(&target);
        allowed.map_err(failed)?;
    }
    let done = File::create_new(&beside)
        .and_then(|mut file| {
            if let Some(old) = &old {
                // The owner first: a change of the owner may clear bits of the mode.
                let _ = chown(&beside, Some(old.uid()), Some(old.gid()));
                file.set_permissions(Permissions::from_mode(old.mode() & 0o7777))?;
            }
            write(&mut file)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&beside, &target));
    done.map_err(|error| {
        let _ = fs::remove_file(&beside);
        failed(error)
    })
}
