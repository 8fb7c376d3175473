//! A writer group that is a stream of a plan: address, VLAN tag, priority, interval and offset come from there.

use super::connection::Transport;
use core::ops::Range;
use rtwire_describe::project_file::{Findings, nearest, short};
use rtwire_plan::{ContractKind, Destination, Plan};
use rtwire_wire::{MacAddress, Pcp, VlanTag};
use std::path::PathBuf;

/// The end of a stream that a station is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StreamEnd {
    /// Not said: nothing is checked.
    #[default]
    Any,
    /// A publisher.
    Talker,
    /// A subscriber.
    Listener,
}

/// The place of a station in a plan.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PlanPlace {
    /// The plan file, in place of the project's.
    pub plan: Option<PathBuf>,
    /// The host of the plan that this machine is; `None`: not checked.
    pub host: Option<String>,
    /// The end of the streams that the station is.
    pub end: StreamEnd,
}

/// A stream as the plan has it.
pub(super) struct Planned {
    pub(super) transport: Transport,
    pub(super) pcp: u8,
    pub(super) interval_ns: u64,
    pub(super) offset_ns: u64,
    /// The longest frame of the contract: header and payload without FCS, bytes.
    pub(super) frame_bytes: u64,
}

/// The streams that groups may be.
pub(super) struct Streams<'p> {
    pub(super) plan: Option<&'p Plan>,
    pub(super) place: &'p PlanPlace,
}

impl Streams<'_> {
    /// Checks the host that the command names.
    pub(super) fn check_host(&self, span: &Range<usize>, findings: &mut Findings<'_>) {
        let (Some(plan), Some(host)) = (self.plan, &self.place.host) else {
            return;
        };
        let names: Vec<&str> = plan.network.hosts.iter().map(|one| &one.name[..]).collect();
        if !names.contains(&&host[..]) {
            let message = format!("the plan has no host `{}`", short(host));
            findings.at(span, message, Some(choice(host, &names)));
        }
    }

    /// Finds the stream `name` of the plan. What is wrong with it is shown at `span`.
    pub(super) fn find(
        &self,
        name: &str,
        span: &Range<usize>,
        findings: &mut Findings<'_>,
    ) -> Option<Planned> {
        let mut wrong = |message: String, help: String| {
            findings.at(span, message, Some(help));
            None
        };
        let shown = short(name);
        let Some(plan) = self.plan else {
            let help = "write `plan = \"plan.json\"` into [connection], or name it with --plan";
            return wrong("`stream` needs a plan".to_owned(), help.to_owned());
        };
        let planned = plan.streams.iter().find(|one| one.name == name);
        let described = plan.network.streams.iter().find(|one| one.name == name);
        let (Some(planned), Some(described)) = (planned, described) else {
            let names: Vec<&str> = plan.streams.iter().map(|one| &one.name[..]).collect();
            let help = choice(name, &names);
            return wrong(format!("the plan has no stream `{shown}`"), help);
        };
        if let Some(host) = &self.place.host {
            let listeners = &described.listeners;
            if self.place.end == StreamEnd::Talker && *host != described.talker {
                let message = format!(
                    "host `{}` is not the talker of stream `{shown}`",
                    short(host)
                );
                return wrong(message, format!("its talker is `{}`", described.talker));
            }
            if self.place.end == StreamEnd::Listener && !listeners.contains(host) {
                let message = format!("host `{}` is no listener of stream `{shown}`", short(host));
                return wrong(message, format!("its listeners: {}", listeners.join(", ")));
            }
        }
        let identity = &planned.identity;
        let Destination::Group { mac } = identity.destination else {
            let message = format!("stream `{shown}` travels in datagrams");
            let help =
                "PubSub opens streams of Ethernet frames: plan it without `transport = \"udp\"`";
            return wrong(message, help.to_owned());
        };
        let ContractKind::Interval { interval_ns, .. } = described.contract.kind else {
            let message = format!("stream `{shown}` has a rate and no interval");
            let help = "a writer group publishes in cycles: plan the stream with `interval`";
            return wrong(message, help.to_owned());
        };
        if described.contract.kind.frames() > 1 {
            let message = format!("stream `{shown}` has several frames in each interval");
            let help = "a writer group publishes one frame in each cycle: plan a stream for each";
            return wrong(message, help.to_owned());
        }
        let pcp = Pcp::new(identity.pcp)?;
        let launch = planned.launch.as_ref();
        Some(Planned {
            transport: Transport::Ethernet {
                address: MacAddress(mac),
                vlan: identity.vlan.and_then(|vid| VlanTag::new(pcp, vid)),
            },
            pcp: identity.pcp,
            interval_ns,
            offset_ns: launch.map_or(0, |launch| launch.offset_ns % interval_ns.max(1)),
            frame_bytes: described.frame_bytes,
        })
    }
}

/// Returns the nearest of some names, or all of them, as advice.
fn choice(name: &str, names: &[&str]) -> String {
    match nearest(name, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are: {}", names.join(", ")),
    }
}
