//! Cyclic queueing and forwarding (IEEE Std 802.1Q, Annex T; first published as 802.1Qch).
//!
//! A switch has two queues for cyclic streams. What arrives in one cycle of its clock waits in one of them, and is sent
//! in the next cycle, while the other one fills. So a frame advances by one switch in each cycle.

use super::Network;

/// A reason why a network has no bound with its cyclic streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CyclicFault {
    /// The entry that is wrong.
    pub subject: CyclicSubject,
    /// The key that is wrong.
    pub key: &'static str,
    /// The reason.
    pub message: String,
    /// The change that would be right.
    pub help: String,
}

/// The entry that is in the way of cyclic streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CyclicSubject {
    /// The stream of this name.
    Stream(String),
    /// The best-effort allowance at this place of the list.
    BestEffort(usize),
}

impl Network {
    /// True if any stream is cyclic.
    #[must_use]
    pub fn has_cyclic_streams(&self) -> bool {
        self.streams.iter().any(|stream| stream.cyclic)
    }

    /// Returns the two queues of cyclic streams at a node: for the frames that arrive in even cycles, and in odd ones.
    ///
    /// They are the two most urgent ones. `None` if the node has fewer.
    #[must_use]
    pub fn cyclic_queues(&self, node: &str) -> Option<[u8; 2]> {
        let queues = self.queues(node);
        (queues >= 2).then(|| [queues - 1, queues - 2])
    }

    /// Returns the reasons why the network has no bound with its cyclic streams.
    #[must_use]
    pub fn cyclic_faults(&self) -> Vec<CyclicFault> {
        let Some(first) = self.streams.iter().find(|stream| stream.cyclic) else {
            return Vec::new();
        };
        let mut faults = Vec::new();
        let mut fault = |stream: &str, key, message: String, help: String| {
            let subject = CyclicSubject::Stream(stream.to_owned());
            faults.push(CyclicFault {
                subject,
                key,
                message,
                help,
            });
        };
        let name = &first.name;
        if self.schedule.cycle_ns.is_none() {
            fault(
                name,
                "schedule",
                format!("cyclic stream \"{name}\": no cycle is stated"),
                "cycle = \"250 us\" under [schedule], for example".to_owned(),
            );
        }
        let mut switches: Vec<&str> = Vec::new();
        for stream in &self.streams {
            let name = &stream.name;
            if stream.time_triggered {
                fault(
                    name,
                    "schedule",
                    format!(
                        "stream \"{name}\" is time-triggered and \"{}\" is cyclic: together there is no bound here",
                        first.name
                    ),
                    "one kind of schedule in a network".to_owned(),
                );
            }
            if !stream.cyclic {
                continue;
            }
            if stream.pcp != first.pcp {
                fault(
                    name,
                    "priority",
                    format!(
                        "cyclic stream \"{name}\" has priority {}, \"{}\" has {}",
                        stream.pcp, first.name, first.pcp
                    ),
                    "one `priority` for all cyclic streams: switches tell them from others by it"
                        .to_owned(),
                );
            }
            if !stream.shaped {
                fault(
                    name,
                    "shaper",
                    format!(
                        "cyclic stream \"{name}\" keeps to its contract: its shaper cannot be off"
                    ),
                    "shaper = \"on\"".to_owned(),
                );
            }
            if stream.copy_of.is_some() {
                fault(
                    stream.stated_name(),
                    "redundancy",
                    format!(
                        "cyclic stream \"{}\": together with redundancy there is no bound here",
                        stream.stated_name()
                    ),
                    "leave `redundancy` away".to_owned(),
                );
            }
            let nodes = stream.routes.iter().flatten();
            for node in nodes {
                let Some(switch) = self.switch(node) else {
                    continue;
                };
                let told = switches.contains(&node.as_str());
                if !told {
                    switches.push(node);
                }
                let cycles_ns = self.schedule.cycle_ns.unwrap_or(0).saturating_mul(2);
                let longest_ns = switch.gates.as_ref().map(|gates| gates.longest_cycle_ns);
                let (message, help) = if switch.routing.is_some() {
                    (
                        format!("passes router \"{node}\""),
                        "another route: frames of cyclic streams pass switches only".to_owned(),
                    )
                } else if switch.gates.is_none() {
                    (
                        format!("passes switch \"{node}\", which has no `gates`"),
                        format!(
                            "gates = \"unlimited\" at \"{node}\", or the profile of its family"
                        ),
                    )
                } else if self.cyclic_queues(node).is_none() {
                    (
                        format!("passes \"{node}\", which has one queue for all traffic"),
                        format!("queues = 2 or more at \"{node}\""),
                    )
                } else if self.shapers.iter().any(|shaper| shaper.node == *node) {
                    (
                        format!(
                            "passes switch \"{node}\", which has shapers: together there is no bound here"
                        ),
                        format!("no [[shaper]] at \"{node}\""),
                    )
                } else if longest_ns.is_some_and(|longest_ns| cycles_ns > longest_ns) {
                    (
                        format!(
                            "passes switch \"{node}\", whose gates cannot repeat after two cycles, {cycles_ns} ns"
                        ),
                        format!("a `cycle` of at most {} ns", longest_ns.unwrap_or(0) / 2),
                    )
                } else {
                    continue;
                };
                if !told {
                    let key = "schedule";
                    fault(
                        name,
                        key,
                        format!("cyclic stream \"{name}\" {message}"),
                        help,
                    );
                }
            }
        }
        faults.extend(self.beside_cyclic(first.pcp, &switches));
        faults
    }

    /// Returns the faults of other traffic at switches with cyclic streams of this priority.
    fn beside_cyclic(&self, pcp: u8, switches: &[&str]) -> Vec<CyclicFault> {
        let mut faults = Vec::new();
        let routers = self.routers();
        let others = self.streams.iter().filter(|it| !it.cyclic).map(|it| {
            let subject = CyclicSubject::Stream(it.stated_name().to_owned());
            let what = format!("stream \"{}\"", it.name);
            (subject, what, &it.routes, it.marks())
        });
        let allowances = self.best_effort.iter().enumerate().map(|(index, it)| {
            let what = format!("best-effort \"{}\"", it.name);
            (
                CyclicSubject::BestEffort(index),
                what,
                &it.routes,
                it.marks(),
            )
        });
        for (subject, what, routes, marks) in others.chain(allowances) {
            let found = routers.hops_of_all(routes, marks).find_map(|(node, _, at)| {
                let own = self.cyclic_queues(node)?;
                if !switches.contains(&node) {
                    return None;
                }
                if at == pcp {
                    return Some(format!(
                        "{what} has priority {pcp} at \"{node}\", which cyclic streams have for themselves"
                    ));
                }
                let queue = self.class(node, at);
                own.contains(&queue).then(|| {
                    format!(
                        "{what} would have queue {queue} of \"{node}\": its two most urgent ones are those of cyclic streams"
                    )
                })
            });
            if let Some(message) = found {
                faults.push(CyclicFault {
                    subject,
                    key: "priority",
                    message,
                    help: "another `priority`, more `queues`, or a `priority-map` that leaves two queues"
                        .to_owned(),
                });
            }
        }
        faults
    }

    /// Checks that no stream is cyclic, for a caller without cyclic queueing.
    ///
    /// # Errors
    /// The message for the user, with the name of the first such stream and `why` the caller has none.
    pub fn without_cyclic_streams(&self, why: &str) -> Result<(), String> {
        match self.streams.iter().find(|stream| stream.cyclic) {
            None => Ok(()),
            Some(stream) => Err(format!(
                "stream \"{}\" has `schedule = \"cyclic\"`: it is planned and simulated, but {why}",
                stream.name
            )),
        }
    }
}
