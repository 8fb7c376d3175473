//! Refuses files that are no evidence of this plan.

use rtwire_measure::evidence::EvidenceError;
use rtwire_plan::Plan;

use super::File;

/// The reason why files cannot be judged together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JudgeError {
    /// The evidence is of another plan.
    #[error(
        "{file}: evidence of another plan (of network `{network}`, plan {found}); this one is {expected}: give the plan that \
         the hosts ran"
    )]
    OtherPlan {
        /// The file.
        file: String,
        /// The network in it.
        network: String,
        /// The plan in it.
        found: String,
        /// The plan that is judged by.
        expected: String,
    },
    /// The evidence is of another version of the plan.
    #[error(
        "{file}: evidence of epoch {found} of this plan; the plan is of epoch {expected}: give the plan that the hosts ran"
    )]
    OtherEpoch {
        /// The file.
        file: String,
        /// The epoch in it.
        found: u64,
        /// The epoch of the plan.
        expected: u64,
    },
    /// The plan has no such host.
    #[error("{file}: evidence of host `{host}`, which the plan does not have")]
    NoSuchHost {
        /// The file.
        file: String,
        /// The host in it.
        host: String,
    },
    /// The streams in the file are not those of its host.
    #[error(
        "{file}: says that host `{host}` {end} {found}, and by the plan it {end} {expected}: the evidence of another host, or changed"
    )]
    OtherStreams {
        /// The file.
        file: String,
        /// The host in it.
        host: String,
        /// `sends` or `receives`.
        end: &'static str,
        /// The streams in it.
        found: String,
        /// The streams of the plan.
        expected: String,
    },
    /// The same evidence is there twice.
    #[error("{first} and {second} are the same evidence of host `{host}`: give it once")]
    Twice {
        /// A file.
        first: String,
        /// The other file.
        second: String,
        /// The host.
        host: String,
    },
    /// There are two different ones of one host.
    #[error(
        "{first} and {second} are both evidence of host `{host}`, of two runs: give the one that belongs to the others"
    )]
    TwoRuns {
        /// A file.
        first: String,
        /// The other file.
        second: String,
        /// The host.
        host: String,
    },
    /// The records of a file can no longer be read, or were changed since it was opened.
    #[error("{file}: {error}")]
    Unreadable {
        /// The file.
        file: String,
        /// The reason.
        error: EvidenceError,
    },
}

/// Checks that each file is evidence of a host of this plan, and the only one of its host.
pub(super) fn files(plan: &Plan, files: &[File<'_>]) -> Result<(), JudgeError> {
    for (at, file) in files.iter().enumerate() {
        one(plan, file)?;
        let header = &file.evidence.header;
        let before = &files[..at];
        if let Some(other) = before
            .iter()
            .find(|other| other.evidence.header.host == header.host)
        {
            let (first, second) = (other.name.to_owned(), file.name.to_owned());
            let host = header.host.clone();
            return Err(match other.evidence.header.run == header.run {
                true => JudgeError::Twice {
                    first,
                    second,
                    host,
                },
                false => JudgeError::TwoRuns {
                    first,
                    second,
                    host,
                },
            });
        }
    }
    Ok(())
}

fn one(plan: &Plan, file: &File<'_>) -> Result<(), JudgeError> {
    let header = &file.evidence.header;
    let name = file.name.to_owned();
    // The fingerprint covers the epoch: the network tells which of the two is another one.
    if header.epoch != plan.epoch && header.network == plan.network.name {
        return Err(JudgeError::OtherEpoch {
            file: name,
            found: header.epoch,
            expected: plan.epoch,
        });
    }
    if header.plan_id != plan.plan_id || header.epoch != plan.epoch {
        return Err(JudgeError::OtherPlan {
            file: name,
            network: header.network.clone(),
            found: header.plan_id.clone(),
            expected: plan.plan_id.clone(),
        });
    }
    let host = &header.host;
    if !plan.network.hosts.iter().any(|one| one.name == *host) {
        return Err(JudgeError::NoSuchHost {
            file: name,
            host: host.clone(),
        });
    }
    let streams = &plan.network.streams;
    let own = |of: &dyn Fn(&rtwire_plan::Stream) -> bool| {
        let own = streams.iter().filter(|stream| of(stream));
        own.map(|stream| stream.name.as_str()).collect::<Vec<_>>()
    };
    let sends = header.talkers.iter().map(|entry| entry.stream.as_str());
    let hears = header.listeners.iter().map(|entry| entry.stream.as_str());
    let ends = [
        ("sends", sends.collect(), own(&|one| one.talker == *host)),
        (
            "receives",
            hears.collect(),
            own(&|one| one.listeners.contains(host)),
        ),
    ];
    for (end, found, expected) in ends {
        let found: Vec<&str> = found;
        // Best effort may follow.
        let (mut ours, mut theirs) = (expected.clone(), found.clone());
        theirs.retain(|name| streams.iter().any(|stream| stream.name == *name));
        ours.sort_unstable();
        theirs.sort_unstable();
        if ours != theirs {
            let listed = |names: &[&str]| match names {
                [] => "nothing".to_owned(),
                names => names.join(", "),
            };
            return Err(JudgeError::OtherStreams {
                file: name,
                host: host.clone(),
                end,
                found: listed(&found),
                expected: listed(&expected),
            });
        }
    }
    Ok(())
}
