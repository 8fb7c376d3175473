//! The network that a command works on: a description, which is planned, or a plan, which is used as it is.

use std::path::Path;

use rtwire_plan::plan_file::{self, PlanFileError};
use rtwire_plan::{Faults, Network, Options, Plan};

/// The plan was refused.
const REFUSED: u8 = 1;
/// Wrong usage or a faulty file.
const FAULTY: u8 = 2;

/// A file, recognised by its content.
pub(crate) enum Input {
    /// A network description.
    Description(Box<Network>),
    /// A plan.
    Plan(Box<Plan>),
}

/// The reason why a file is neither.
pub(crate) enum InputFault {
    /// The description has faults.
    Description(Faults),
    /// The plan cannot be used.
    Plan(PlanFileError),
    /// Another error, in words.
    Other(String),
}

impl core::fmt::Display for InputFault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            InputFault::Description(faults) => write!(f, "{faults}"),
            InputFault::Plan(fault) => write!(f, "{fault}"),
            InputFault::Other(message) => f.write_str(message),
        }
    }
}

/// Reads the bytes of a file.
pub(crate) fn bytes_of(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))
}

/// Reads a description or a plan. `set` is for descriptions.
pub(crate) fn read(path: &Path, set: &[(String, String)]) -> Result<Input, InputFault> {
    let file = path.display().to_string();
    let bytes = bytes_of(path).map_err(InputFault::Other)?;
    if plan_file::looks_like_one(&bytes) {
        match plan_file::read(&bytes, &file) {
            Ok(_) if !set.is_empty() => {
                return Err(InputFault::Other(format!(
                    "{file}: --set changes a description, but this is a plan; plan the description again with --set"
                )));
            }
            Ok(plan) => return Ok(Input::Plan(Box::new(plan))),
            // JSON of another kind: the reader of descriptions names the fault.
            Err(PlanFileError::NotAPlan { .. } | PlanFileError::NotJson { .. }) => {}
            Err(fault) => return Err(InputFault::Plan(fault)),
        }
    }
    match rtwire_plan::read_bytes(bytes, &file, set) {
        Ok(network) => Ok(Input::Description(Box::new(network))),
        Err(faults) => Err(InputFault::Description(faults)),
    }
}

/// Returns the plan in a file, or plans the description in it. The error is an exit code and a message.
pub(crate) fn plan_of(
    path: &Path,
    set: &[(String, String)],
    no_admission: bool,
) -> Result<Plan, (u8, String)> {
    let network = match read(path, set).map_err(|fault| (FAULTY, fault.to_string()))? {
        Input::Plan(plan) => return Ok(*plan),
        Input::Description(network) => network,
    };
    let options = Options {
        ignore_limits: no_admission,
        ..Options::default()
    };
    rtwire_plan::plan(&network, &options)
        .map_err(|refusal| (REFUSED, format!("{}: {refusal}", path.display())))
}

/// Returns the hint beside a refusal, for commands that can run a refused network.
pub(crate) fn hint(code: u8) -> &'static str {
    match code {
        REFUSED => "\nhelp: `--no-admission` runs it all the same, to see what happens",
        _ => "",
    }
}

/// As [`plan_of`], for commands that can use only one copy of each stream.
pub(crate) fn plan_without_redundancy(
    path: &Path,
    set: &[(String, String)],
    no_admission: bool,
) -> Result<Plan, (u8, String)> {
    let plan = plan_of(path, set, no_admission)?;
    plan.network
        .without_redundancy()
        .map_err(|message| (FAULTY, format!("{}: {message}", path.display())))?;
    Ok(plan)
}

/// As [`plan_without_redundancy`], for the lab: its switches store each frame.
pub(crate) fn plan_for_lab(
    path: &Path,
    set: &[(String, String)],
    no_admission: bool,
) -> Result<Plan, (u8, String)> {
    let plan = plan_without_redundancy(path, set, no_admission)?;
    plan.network
        .without_routers("the lab has switches only")
        .and_then(|()| plan.network.without_groups())
        .and_then(|()| {
            let why = "each host of the lab has one interface";
            plan.network.without_several_links(None, why)
        })
        .and_then(|()| plan.network.without_cut_through())
        .and_then(|()| plan.network.without_second_pass())
        .and_then(|()| {
            let why = "the lab's ports send each frame whole";
            plan.network.without_preemption(None, why)
        })
        .and_then(|()| {
            let why = "the lab's switches have none";
            plan.network.without_flow_meters(why)
        })
        .and_then(|()| {
            let why = "the lab's switches have no cycles";
            plan.network.without_cyclic_streams(why)
        })
        .map_err(|message| (FAULTY, format!("{}: {message}", path.display())))?;
    Ok(plan)
}
