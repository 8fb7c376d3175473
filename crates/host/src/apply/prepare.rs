//! A share applied as one transaction: prepared, shown, checked, and carried out, all or nothing.

use std::path::Path;
use std::process::Command;

use rtwire_sys::clock::{self, Clock};

use super::choices::Choices;
use super::configuration::Configuration;
use super::configure::configure;
use super::gather::gather;
use super::refusal::ApplyRefusal;
use super::report::Report;
use super::share::Share;
use super::time;
use crate::change::{self, Change, Header, Progress, Record, Subject, Value, Wanted, guardian};
use crate::clock::CommonTime;
use crate::netlink::{Netlink, Tree};

/// The changes that bring an interface to its share. The host is still as before.
#[derive(Debug)]
#[must_use = "nothing is changed before `carry_out`"]
pub struct Prepared {
    report: Report,
    default_route: bool,
    fall_back: bool,
}

/// The lifetime of changes.
#[derive(Debug)]
pub enum Keep {
    /// The changes stay until somebody reverts them.
    Always,
    /// The changes stay only if somebody confirms them in time; see [`change::confirm`].
    IfConfirmed {
        /// The time to confirm, from now, ns.
        within_ns: u64,
        /// The program that puts everything back otherwise: one that calls [`guardian::run`] for the interface.
        guardian: Box<Command>,
    },
}

/// Changes that are in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The report, with `applied` set.
    pub report: Report,
    /// The number of settings that were changed and read back, as in the undo record.
    pub made: usize,
}

/// Compares `share` with the present state of `interface`. Changes nothing. With `time`, and a share that [needs
/// it](Share::needs_common_time), asks for the network's time too.
///
/// # Errors
/// The interface cannot be read, or no undo record could bring its state back.
pub fn prepare(
    share: &Share,
    interface: &str,
    choices: &Choices,
    time: Option<&CommonTime>,
) -> Result<Prepared, ApplyRefusal> {
    let present = gather(interface, choices.isolation)?;
    let mut configuration = configure(share, &present, choices);
    if let Some(common) = time.filter(|_| share.needs_common_time()) {
        if let Some(reasons) = common.missing() {
            time::without(&mut configuration, &reasons, common.waived);
        }
    }
    let changes = change::pending(&mut Netlink::new(), &configuration.wanted, &replaceable)?;
    Ok(Prepared {
        report: report(share, interface, configuration, changes),
        default_route: present.default_route,
        fall_back: choices.fall_back,
    })
}

fn report(
    share: &Share,
    interface: &str,
    configuration: Configuration,
    changes: Vec<Change>,
) -> Report {
    Report {
        version: 1,
        host: share.host.clone(),
        interface: interface.to_owned(),
        input_hash: share.input_hash.clone(),
        mechanism: configuration.mechanism,
        lacks: configuration.lacks,
        notes: configuration.notes,
        commands: changes.iter().map(Change::command).collect(),
        changes,
        applied: false,
    }
}

/// Refuses to replace queues that could not be put back. Pure.
fn replaceable(subject: &Subject, present: &Value) -> Result<(), ApplyRefusal> {
    let Value::Queues(tree) = present else {
        return Ok(());
    };
    let (Some(found), Some(interface)) = (&tree.strange, subject.interface()) else {
        return Ok(());
    };
    let none = Wanted {
        subject: subject.clone(),
        to: Value::Queues(Tree::default()),
    };
    Err(ApplyRefusal::StrangeQueues {
        interface: interface.to_owned(),
        found: found.clone(),
        command: none.command(),
    })
}

impl Prepared {
    /// Returns the planned changes and the missing abilities; `applied` is not set.
    #[must_use]
    pub const fn report(&self) -> &Report {
        &self.report
    }

    /// Refuses if the host lacks something and the choices do not fall back.
    ///
    /// # Errors
    /// [`ApplyRefusal::Lacking`].
    pub fn complete(&self) -> Result<(), ApplyRefusal> {
        if self.report.lacks.is_empty() || self.fall_back {
            Ok(())
        } else {
            Err(ApplyRefusal::Lacking)
        }
    }

    /// Checks that the changes are safe to make. Pure. [`Prepared::carry_out`] calls it first.
    ///
    /// # Errors
    /// [`ApplyRefusal::Lacking`]; [`ApplyRefusal::DefaultRoute`] if the machine would cut itself off for good.
    pub fn allowed(&self, keep: &Keep) -> Result<(), ApplyRefusal> {
        self.complete()?;
        let isolates = self.report.changes.iter().any(|change| {
            matches!(
                change.subject,
                Subject::Addresses { .. } | Subject::Place { .. }
            )
        });
        if self.default_route && isolates && matches!(keep, Keep::Always) {
            return Err(ApplyRefusal::DefaultRoute {
                interface: self.report.interface.clone(),
            });
        }
        Ok(())
    }

    /// Makes all changes, or none. Begins the undo record in `directory`, starts the guardian if one is wanted, writes
    /// each setting and reads it back. `title` names the maker in the record; `progress` is called for each change.
    /// Needs CAP_NET_ADMIN and CAP_SYS_ADMIN. Must not be called in a real-time loop.
    ///
    /// # Errors
    /// [`ApplyRefusal`]; the host is as before unless the message says that putting back failed too.
    pub fn carry_out(
        self,
        directory: &Path,
        title: &str,
        keep: Keep,
        progress: &mut dyn FnMut(&Change, Progress),
    ) -> Result<Applied, ApplyRefusal> {
        self.allowed(&keep)?;
        let report = Report {
            applied: true,
            ..self.report
        };
        if report.changes.is_empty() {
            return Ok(Applied { report, made: 0 });
        }
        let now_ns = clock::now_ns(Clock::Boottime);
        let (until_ns, guardian) = match keep {
            Keep::Always => (None, None),
            Keep::IfConfirmed {
                within_ns,
                guardian,
            } => (Some(now_ns.saturating_add(within_ns)), Some(guardian)),
        };
        let header = Header::new(title, &report.interface, until_ns);
        let record = Record::begin(directory, header)?;
        let guarded = guardian.is_some();
        if let Some(Err(error)) = guardian.map(|command| guardian::spawn(*command)) {
            // The guardian's error matters more than a record of no changes.
            let _ = record.remove();
            return Err(error.into());
        }
        let mut record = change::apply(&mut Netlink::new(), record, &report.changes, progress)?;
        if !guarded {
            record.confirm()?;
        }
        let made = record.changes.len();
        Ok(Applied { report, made })
    }
}

#[cfg(test)]
mod tests {
    use super::super::choices::Mechanism;
    use super::super::configuration::Lack;
    use super::*;
    use crate::change::Kept;

    fn prepared(default_route: bool) -> Prepared {
        let change = Change {
            subject: Subject::Addresses {
                interface: "eth9".to_owned(),
            },
            from: Value::Absent,
            to: Value::Addresses(Kept::default()),
        };
        Prepared {
            report: Report {
                version: 1,
                host: "A".to_owned(),
                interface: "eth9".to_owned(),
                input_hash: String::new(),
                mechanism: Mechanism::Htb,
                lacks: Vec::new(),
                notes: Vec::new(),
                commands: vec![change.command()],
                changes: vec![change],
                applied: false,
            },
            default_route,
            fall_back: false,
        }
    }

    fn if_confirmed() -> Keep {
        Keep::IfConfirmed {
            within_ns: 1,
            guardian: Box::new(Command::new("true")),
        }
    }

    #[test]
    fn the_default_route_is_taken_only_if_it_comes_back_by_itself() {
        prepared(false).allowed(&Keep::Always).unwrap();
        prepared(true).allowed(&if_confirmed()).unwrap();
        let refused = prepared(true).allowed(&Keep::Always).unwrap_err();
        assert!(
            matches!(&refused, ApplyRefusal::DefaultRoute { interface } if interface == "eth9"),
            "{refused}"
        );
        assert!(
            refused.to_string().contains("--confirm-within"),
            "{refused}"
        );
        // A setting that removes no address cuts nobody off.
        let mut harmless = prepared(true);
        harmless.report.changes[0].subject = Subject::Mtu {
            interface: "eth9".to_owned(),
        };
        harmless.allowed(&Keep::Always).unwrap();
    }

    #[test]
    fn what_is_missing_is_refused_unless_less_is_enough() {
        let mut lacking = prepared(false);
        lacking.report.lacks.push(Lack {
            what: "the discipline taprio".to_owned(),
            lost: String::new(),
            remedy: String::new(),
            instead: String::new(),
        });
        assert!(matches!(lacking.complete(), Err(ApplyRefusal::Lacking)));
        assert!(lacking.allowed(&if_confirmed()).is_err());
        lacking.fall_back = true;
        lacking.allowed(&Keep::Always).unwrap();
    }

    #[test]
    fn queues_that_could_not_be_put_back_are_not_replaced() {
        let here = Subject::Queues {
            interface: "eth9".to_owned(),
        };
        let inside = Subject::Inside {
            namespace: "rtw-eth9".to_owned(),
            inside: Box::new(here.clone()),
        };
        let strange = Value::Queues(Tree {
            strange: Some("a filter of kind bpf".to_owned()),
            ..Tree::default()
        });
        for (subject, command) in [
            (&here, "first: tc qdisc del dev eth9 root;"),
            (
                &inside,
                "first: ip netns exec rtw-eth9 tc qdisc del dev eth9 root;",
            ),
        ] {
            replaceable(subject, &Value::Queues(Tree::default())).unwrap();
            let refused = replaceable(subject, &strange).unwrap_err().to_string();
            assert!(refused.contains(command), "{refused}");
        }
    }

    #[test]
    fn without_a_guardian_nothing_is_changed() {
        let folder = tempfile::tempdir().unwrap();
        let refused = prepared(true)
            .carry_out(folder.path(), "test", if_confirmed(), &mut |_, _| {
                panic!("a change was made")
            })
            .unwrap_err();
        assert!(matches!(refused, ApplyRefusal::Guardian(_)), "{refused}");
        assert!(Record::list(folder.path()).is_empty());
    }

    #[test]
    fn a_host_that_is_as_planned_needs_no_record() {
        let folder = tempfile::tempdir().unwrap();
        let mut same = prepared(false);
        same.report.changes.clear();
        let applied = same
            .carry_out(folder.path(), "test", Keep::Always, &mut |_, _| {})
            .unwrap();
        assert_eq!((applied.made, applied.report.applied), (0, true));
        assert!(Record::interfaces(folder.path()).is_empty());
    }
}
