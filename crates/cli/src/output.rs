//! Files that a command writes: whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Replaces a file by this text: readers see the old one or the new one, never a part. What is no regular file, such as
/// `/dev/stdout`, is written directly.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), String> {
    let shown = path.display();
    let failed = |error: std::io::Error| format!("cannot write `{shown}`: {error}");
    // A link stays one: what it leads to is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if target.is_dir() {
        return Err(format!("cannot write `{shown}`: it is a directory"));
    }
    if target.exists() && !target.is_file() {
        let direct = OpenOptions::new().write(true).open(&target);
        return direct.and_then(|file| written(file, text)).map_err(failed);
    }
    let Some(name) = target.file_name().and_then(|name| name.to_str()) else {
        return Err(format!("cannot write `{shown}`: it is no name of a file"));
    };
    let beside: PathBuf = target.with_file_name(format!(".{name}.{}.new", std::process::id()));
    let done = File::create_new(&beside)
        .and_then(|file| written(file, text))
        .and_then(|()| fs::rename(&beside, &target));
    done.map_err(|error| {
        let _ = fs::remove_file(&beside);
        failed(error)
    })
}

fn written(mut file: File, text: &str) -> std::io::Result<()> {
    file.write_all(text.as_bytes())?;
    file.flush()
}

/// Writes to standard output. A reader that went away (`| head`) is no fault of ours; a full disk is.
pub(crate) fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}"))
        }
        _ => Ok(()),
    }
}
