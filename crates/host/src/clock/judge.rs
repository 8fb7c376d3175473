//! Judges whether a host has the network's time. Pure.

use super::state::{ClockQuestion, Daemon, SystemClock};

/// Returns the reasons why a host does not have the network's time; empty if it has. Pure.
#[must_use]
pub fn judge(question: &ClockQuestion, daemon: &Daemon, system: &SystemClock) -> Vec<String> {
    let mut reasons = Vec::new();
    let states = |wanted: &str| daemon.ports.iter().any(|port| port.state == wanted);
    let shown: Vec<String> = daemon
        .ports
        .iter()
        .map(|port| format!("port {} {}", port.number, port.state))
        .collect();
    if question.gives_time {
        if !daemon.own_grandmaster {
            reasons.push(format!(
                "this host should be the grandmaster, but follows {}",
                daemon.grandmaster
            ));
        } else if !states("MASTER") {
            reasons.push(format!("no port gives the time ({})", shown.join(", ")));
        }
    } else if daemon.own_grandmaster {
        reasons.push(format!(
            "this clock follows nobody: it is its own grandmaster ({}); if that is intended, add --gives-time",
            shown.join(", ")
        ));
    } else if !states("SLAVE") {
        reasons.push(format!("no port takes the time yet ({})", shown.join(", ")));
    }
    let limit = question.limit_ns;
    if let Some(offset) = daemon.offset_ns.filter(|_| !question.gives_time) {
        if offset.unsigned_abs() > limit {
            reasons.push(format!(
                "the clock is {offset} ns from its master; {limit} ns are allowed"
            ));
        }
    }
    if let (Some(utc), true, true) = (
        daemon.utc_offset_s,
        daemon.utc_offset_valid,
        daemon.ptp_timescale,
    ) {
        if i64::from(utc) != system.tai_offset_s {
            reasons.push(format!(
                "the grandmaster's TAI is {utc} s ahead of UTC, this kernel's {} s: CLOCK_TAI is wrong by the \
                 difference; start phc2sys (or ptp4l), which sets it",
                system.tai_offset_s
            ));
        }
    }
    if let (Some(offset), Some(uncertainty)) = (system.phc_minus_tai_ns, system.phc_uncertainty_ns)
    {
        if offset.unsigned_abs() > limit.saturating_add(uncertainty) {
            reasons.push(format!(
                "the interface's clock is {offset} ns from CLOCK_TAI (read to ±{uncertainty} ns); start: phc2sys -a -r"
            ));
        }
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::super::state::DaemonPort;
    use super::*;

    fn following() -> Daemon {
        Daemon {
            identity: "a".to_owned(),
            grandmaster: "b".to_owned(),
            offset_ns: Some(-900),
            ports: vec![DaemonPort {
                number: 1,
                state: "SLAVE".to_owned(),
            }],
            utc_offset_s: Some(37),
            utc_offset_valid: true,
            ptp_timescale: true,
            ..Daemon::default()
        }
    }

    #[test]
    fn each_fault_is_named_and_a_sound_clock_has_none() {
        let question = ClockQuestion::default();
        let system = SystemClock {
            tai_offset_s: 37,
            ..SystemClock::default()
        };
        assert_eq!(
            judge(&question, &following(), &system),
            Vec::<String>::new()
        );
        type Plant<'a> = &'a dyn Fn(&mut Daemon, &mut SystemClock);
        let faults: [(&str, Plant<'_>); 5] = [
            ("ns from its master", &|daemon, _| {
                daemon.offset_ns = Some(1_001)
            }),
            ("takes the time yet", &|daemon, _| {
                daemon.ports[0].state = "UNCALIBRATED".to_owned()
            }),
            ("follows nobody", &|daemon, _| daemon.own_grandmaster = true),
            ("ahead of UTC", &|_, system| system.tai_offset_s = 0),
            ("from CLOCK_TAI", &|_, system| {
                system.phc_minus_tai_ns = Some(-2_000);
                system.phc_uncertainty_ns = Some(100);
            }),
        ];
        for (part, plant) in faults {
            let (mut daemon, mut system) = (following(), system.clone());
            plant(&mut daemon, &mut system);
            let reasons = judge(&question, &daemon, &system);
            assert!(
                reasons.len() == 1 && reasons[0].contains(part),
                "{part}: {reasons:?}"
            );
        }
        let gives = ClockQuestion {
            gives_time: true,
            ..question
        };
        assert!(judge(&gives, &following(), &system)[0].contains("follows b"));
    }
}
