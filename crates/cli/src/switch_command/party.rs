//! A switch among those that `rtwire deploy` brings to a plan: its session stays open from the commit to the confirmation.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use rtwire_deploy::{Order, Reply};
use rtwire_netconf::{Client, Element, Job, Outcome, PortCounters, Report, Settings, data};
use rtwire_plan::Plan;

use super::line::{Command, Session, Turn};
use super::{REFUSED, differences_of, failure, held, success};
use crate::arguments::key_and_value;
use crate::export_command;

/// The longest time for a reply of a switch.
const REPLY_WITHIN: Duration = Duration::from_secs(30);

/// The switches of a deployment.
#[derive(Args)]
pub(crate) struct NamedSwitches {
    /// A switch, and the command whose standard input and output are a NETCONF session with it. Switches that are not named
    /// are left alone
    #[arg(long = "switch", value_name = "NAME=COMMAND", value_parser = key_and_value)]
    switches: Vec<(String, String)>,
    /// The name of a port at a switch, as in `rtwire export`
    #[arg(long = "port", value_name = "SWITCH>NEIGHBOUR=NAME", value_parser = key_and_value, requires = "switches")]
    ports: Vec<(String, String)>,
}

impl NamedSwitches {
    /// Returns the switches, with their shares of the plan.
    ///
    /// # Errors
    /// The message for the user: no such switch or port, or a plan that no switch can be told.
    pub(crate) fn of(&self, plan: &Plan) -> Result<Vec<(String, AtSwitch)>, String> {
        if !self.switches.is_empty() {
            let why = "nothing here tells a router its tables";
            plan.network.without_routers(why)?;
            plan.network.without_redundancy()?;
            plan.network.without_second_pass()?;
            let why = "a switch is told one way to a host";
            plan.network.without_several_links(None, why)?;
        }
        let mut found: Vec<(String, AtSwitch)> = Vec::new();
        for (name, command) in &self.switches {
            if plan.network.switch(name).is_none() {
                let all = plan.network.switches.iter();
                let names: Vec<&str> = all.map(|one| one.name.as_str()).collect();
                return Err(format!(
                    "--switch {name}: the plan has no such switch; it has {}",
                    names.join(", ")
                ));
            }
            if found.iter().any(|(other, _)| other == name) {
                return Err(format!("--switch {name}: it is named twice"));
            }
            let (share, left_out) = export_command::switch_data(plan, name, &self.ports, &[])?;
            let share = data::elements(&share).map_err(|error| error.to_string())?;
            let switch = AtSwitch {
                command: command.clone(),
                share,
                left_out,
                session: None,
            };
            found.push((name.clone(), switch));
        }
        Ok(found)
    }

    /// Returns the switches of the plan that are not named, if any is.
    pub(crate) fn left_alone<'a>(&self, plan: &'a Plan) -> Vec<&'a str> {
        let is_named = |name: &str| self.switches.iter().any(|(one, _)| one == name);
        let all = plan.network.switches.iter().map(|one| one.name.as_str());
        all.filter(|name| !self.switches.is_empty() && !is_named(name))
            .collect()
    }
}

/// A switch at the other end of a command.
pub(crate) struct AtSwitch {
    command: String,
    share: Vec<Element>,
    /// Parts of the plan that the share does not have, in words.
    left_out: Vec<String>,
    /// The session in which the share is in force and not confirmed.
    session: Option<Session>,
}

impl AtSwitch {
    /// Carries out an order of a deployment.
    ///
    /// # Errors
    /// The reason why the reply is not known.
    pub(crate) fn ask(&mut self, order: &Order) -> Result<Reply, String> {
        let turn = match order {
            Order::Show { .. } => self.begin(Job::Show, Settings::default()),
            Order::Check { .. } => self.begin(Job::Check, Settings::default()),
            Order::Apply {
                confirm_within_s, ..
            } => {
                let settings = Settings {
                    confirm_within_s: *confirm_within_s,
                    ..Settings::default()
                };
                self.begin(Job::Push, settings)
            }
            Order::Ready => match &mut self.session {
                Some(session) => session.look_again(),
                None => return Ok(Reply::default()),
            },
            Order::Confirm => match &mut self.session {
                Some(session) => session.confirm(),
                None => return Ok(reply(0, &["as planned, nothing changed".to_owned()])),
            },
            Order::Run { .. } => return Ok(Reply::default()),
        };
        match turn {
            Ok(Turn::Decide) => Ok(reply(0, &["in force, read back as planned".to_owned()])),
            Ok(Turn::Done(report)) => {
                self.session = None;
                Ok(self.told(order, &report))
            }
            // The session stays, as one that is over: a confirmation once more is no success.
            Err(reason) => Err(reason),
        }
    }

    /// Reads what the switch counted at its ports of the plan. A port whose counters it does not show has none.
    ///
    /// # Errors
    /// The message for the user.
    pub(crate) fn counters(&self) -> Result<BTreeMap<String, PortCounters>, String> {
        let client = Client::new(Job::Count, Vec::new(), Settings::default());
        let report = held(client, &Command::Shell(&self.command), REPLY_WITHIN)?;
        let Outcome::Counted(mut counted) = report.outcome else {
            return Err(failure(&report.outcome).1);
        };
        let ports = data::interfaces(&self.share).into_iter();
        Ok(ports
            .map(|port| {
                let counters = counted.remove(&port).unwrap_or_default();
                (port, counters)
            })
            .collect())
    }

    fn begin(&mut self, job: Job, settings: Settings) -> Result<Turn, String> {
        let settings = Settings {
            must_confirm: true,
            ..settings
        };
        let client = Client::new(job, self.share.clone(), settings);
        let command = Command::Shell(&self.command);
        let session = Session::open(client, &command, REPLY_WITHIN)?;
        self.session.insert(session).begin()
    }

    /// Returns the reply for the end of a session.
    fn told(&self, order: &Order, report: &Report) -> Reply {
        let mut lines: Vec<String> = report.notes.clone();
        if matches!(order, Order::Show { .. }) {
            lines.extend(self.left_out.iter().cloned());
        }
        let differences = differences_of(&report.outcome);
        lines.extend(differences.iter().map(ToString::to_string));
        let (code, words) = match (order, success(&report.outcome)) {
            (Order::Check { .. }, _) if matches!(report.outcome, Outcome::Differs(_)) => {
                (REFUSED, None)
            }
            (_, Some(words)) => (0, Some(words)),
            (_, None) => {
                let (code, words) = failure(&report.outcome);
                (code, Some(words))
            }
        };
        lines.extend(words);
        reply(code, &lines)
    }
}

impl Drop for AtSwitch {
    /// Puts back now whatever was not confirmed. Otherwise the switch does it when its time is over.
    fn drop(&mut self) {
        if let Some(session) = &mut self.session {
            let _ = session.cancel();
        }
    }
}

fn reply(code: u8, lines: &[String]) -> Reply {
    Reply {
        code: i32::from(code),
        text: lines.join("\n"),
        attached: false,
    }
}
