//! The project file: one connection and its groups, the same file for the publisher and its subscribers.

mod answer;
mod connection;
mod field;
mod group;
mod stream;

pub use answer::AnswerEntry;
pub use connection::{Connection, RealTime, Transport};
pub use field::FieldSource;
pub(crate) use group::usual_timeout_ns;
pub use group::{GroupEntry, SecurityFiles};
pub use stream::{PlanPlace, StreamEnd};

use crate::StationError;
use rtwire_describe::foreign;
use rtwire_describe::project_file::{Findings, nearest, parse, short};
use rtwire_plan::{Plan, plan_file};
use std::path::{Path, PathBuf};
use stream::Streams;
use toml::de::{DeTable, DeValue};

/// The kind of file that is expected, for messages.
const WANTED: &str = "a PubSub project (docs/pubsub.md)";
/// Longer files are refused unread.
const LARGEST_FILE_BYTES: usize = 1 << 20;
const TABLES: [&str; 3] = ["connection", "real-time", "writer-group"];

/// One connection with its groups, as the file describes it. `docs/pubsub.md` explains every key.
#[derive(Clone, Debug, PartialEq)]
pub struct Project {
    /// The file. Paths in it are relative to its folder.
    pub path: PathBuf,
    /// The way to the network.
    pub connection: Connection,
    /// The threads' settings.
    pub real_time: RealTime,
    /// The groups.
    pub groups: Vec<GroupEntry>,
}

impl Project {
    /// Reads a project file.
    ///
    /// # Errors
    /// The file cannot be read, or is faulty: the error has all faults with their places.
    pub fn read(path: &Path) -> Result<Self, StationError> {
        Self::read_at(path, &PlanPlace::default())
    }

    /// Reads a project file for a station at a place in a plan.
    ///
    /// # Errors
    /// As [`Self::read`]; the plan cannot be used; a group is no stream of it for this station.
    pub fn read_at(path: &Path, place: &PlanPlace) -> Result<Self, StationError> {
        let bytes = std::fs::read(path).map_err(|source| StationError::Read {
            path: path.to_owned(),
            source,
        })?;
        let name = path.display().to_string();
        let text = foreign::text(bytes, &name, WANTED).map_err(StationError::Project)?;
        let given = place.plan.as_deref().map(read_plan).transpose()?;
        Self::parse_with(&text, path, place, given, read_plan)
    }

    /// Reads a project from text. Messages show `path`, and relative paths begin at its folder.
    ///
    /// # Errors
    /// The text is faulty: the error has all faults with their places.
    pub fn parse(text: &str, path: &Path) -> Result<Self, StationError> {
        Self::parse_with(text, path, &PlanPlace::default(), None, read_plan)
    }

    /// Reads a project from text, by the plan that is `given`, else by the one that `load` returns for the project's `plan`.
    ///
    /// # Errors
    /// The text is faulty: the error has all faults with their places.
    pub fn parse_with(
        text: &str,
        path: &Path,
        place: &PlanPlace,
        given: Option<Plan>,
        load: impl FnOnce(&Path) -> Result<Plan, StationError>,
    ) -> Result<Self, StationError> {
        let mut findings = Findings::new(text);
        let name = path.display().to_string();
        if text.len() > LARGEST_FILE_BYTES {
            let message = "the file is larger than 1 MiB: this is no project file".to_owned();
            findings.at(&(0..0), message, None);
            return Err(StationError::Project(findings.into_faults(&name)));
        }
        let document = parse(text, &TABLES, WANTED, &mut findings);
        let project = match findings.is_clean() {
            true => read(document.get_ref(), path, place, given, load, &mut findings),
            false => None,
        };
        match project {
            Some(project) if findings.is_clean() => Ok(project),
            _ => Err(StationError::Project(findings.into_faults(&name))),
        }
    }
}

fn read_plan(path: &Path) -> Result<Plan, StationError> {
    let bytes = std::fs::read(path).map_err(|source| StationError::Read {
        path: path.to_owned(),
        source,
    })?;
    plan_file::read(&bytes, &path.display().to_string())
        .map_err(|fault| StationError::Plan(Box::new(fault)))
}

fn read(
    document: &DeTable<'_>,
    path: &Path,
    place: &PlanPlace,
    given: Option<Plan>,
    load: impl FnOnce(&Path) -> Result<Plan, StationError>,
    findings: &mut Findings<'_>,
) -> Option<Project> {
    for (name, _) in document {
        let text = name.get_ref().as_ref();
        if !TABLES.contains(&text) {
            let help = nearest(text, &TABLES).map(|near| format!("did you mean `{near}`?"));
            let all = "tables are [connection], [real-time] and [[writer-group]]";
            let message = format!("unknown table `{}`", short(text));
            findings.at(&name.span(), message, help.or_else(|| Some(all.to_owned())));
        }
    }
    let mut table = |name: &'static str| {
        let value = document.get(name)?;
        match value.get_ref() {
            DeValue::Table(table) => Some((table, value.span())),
            _ => {
                let message = format!("`{name}` is given once, as a table `[{name}]`");
                findings.at(&value.span(), message, None);
                None
            }
        }
    };
    let connection = table("connection");
    let real_time = table("real-time");
    let connection = match connection {
        Some((table, span)) => connection::read(table, span, findings),
        None => {
            if !document.contains_key("connection") {
                findings.at(&(0..0), "missing table `[connection]`".to_owned(), None);
            }
            None
        }
    };
    let real_time = match real_time {
        Some((table, span)) => connection::read_real_time(table, span, findings),
        None => RealTime::default(),
    };
    let connection = connection?;
    let mut plan = given;
    if let (None, Some((file, span))) = (&plan, &connection.plan) {
        let file = path.parent().unwrap_or(Path::new("")).join(file);
        match load(&file) {
            Ok(found) => plan = Some(found),
            Err(error) => {
                findings.at(span, error.to_string(), None);
                return None;
            }
        }
    }
    let streams = Streams {
        plan: plan.as_ref(),
        place,
    };
    let place_of_plan = connection
        .plan
        .as_ref()
        .map_or(0..0, |(_, span)| span.clone());
    streams.check_host(&place_of_plan, findings);
    if !findings.is_clean() {
        return None;
    }
    let groups = group::read_all(document, path, &connection, &streams, findings);
    connection.check_use(&groups, findings);
    Some(Project {
        path: path.to_owned(),
        connection: connection.connection,
        real_time,
        groups,
    })
}
