//! The status files of managers and agents, as `rtwire metrics` and `rtwire top` read them.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rtwire_agentd::AgentStatus;
use rtwire_managerd::ManagerStatus;
use serde::Deserialize;

/// The largest file that is read, bytes: more than a manager of a thousand links writes.
const LARGEST: u64 = 4 * 1024 * 1024;

/// A program that is watched.
#[derive(Clone, Debug)]
pub(crate) enum Watched {
    Manager(ManagerStatus),
    Agent(AgentStatus),
}

/// A status with its age, or the reason why there is none.
pub(crate) type Read = Result<(Watched, Duration), String>;

/// The part of a file that says whose it is.
#[derive(Deserialize)]
struct Kind {
    format: u32,
    program: String,
}

/// Reads a status file. Returns it with its age.
pub(crate) fn read(path: &Path) -> Read {
    let shown = path.display();
    let failed = |error: std::io::Error| format!("cannot read `{shown}`: {error}");
    let file = fs::File::open(path).map_err(failed)?;
    let changed = file.metadata().and_then(|facts| facts.modified());
    let mut bytes = Vec::new();
    file.take(LARGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > LARGEST {
        return Err(format!("`{shown}` is larger than any status file"));
    }
    let wrong = |error: serde_json::Error| {
        format!("`{shown}` is no status file of `rtwire manager` or `rtwire agent`: {error}")
    };
    let kind: Kind = serde_json::from_slice(&bytes).map_err(wrong)?;
    if kind.format != 1 {
        let format = kind.format;
        return Err(format!(
            "`{shown}` has form {format}; this rtwire reads form 1"
        ));
    }
    let watched = match kind.program.as_str() {
        "manager" => Watched::Manager(serde_json::from_slice(&bytes).map_err(wrong)?),
        "agent" => Watched::Agent(serde_json::from_slice(&bytes).map_err(wrong)?),
        other => {
            return Err(format!(
                "`{shown}` is the status of `{other}`, not of a manager or an agent"
            ));
        }
    };
    let age = changed.map_err(failed)?;
    let age = SystemTime::now().duration_since(age).unwrap_or_default();
    Ok((watched, age))
}
