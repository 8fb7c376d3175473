//! Clocks: the programs that set them.

use super::{Area, Certainty, Facts, Finding, Level};

const AREA: Area = Area::Clock;

pub(super) fn synchronisation(facts: &Facts) -> Vec<Finding> {
    let running = |name: &str| facts.processes.iter().any(|process| process.name == name);
    let id = "clocks.synchronisation";
    let why =
        "launch times and gates need one time on all hosts; so do measured delays between hosts";
    let ptp = running("ptp4l");
    let between = running("phc2sys");
    let ntp: Vec<&str> = ["chronyd", "ntpd", "systemd-timesyn", "openntpd"]
        .into_iter()
        .filter(|name| running(name))
        .collect();
    if ptp {
        let phc = facts.interface.as_ref().and_then(|it| it.time_stamping.phc);
        let mut findings = vec![
            Finding::good(
                AREA,
                id,
                "ptp4l is running; `rtwire clock` shows its state",
                why,
            )
            .sure(Certainty::Concluded),
        ];
        if phc.is_some() && !between {
            findings.push(
                Finding::good(
                    AREA,
                    "clocks.system_clock",
                    "ptp4l sets the interface's clock, but no phc2sys sets the system's clock from it",
                    "frames are launched by CLOCK_TAI, which follows the system's clock",
                )
                .at(Level::Weak)
                .sure(Certainty::Concluded)
                .by_hand("phc2sys -a -r"),
            );
        }
        if !ntp.is_empty() {
            findings.push(
                Finding::good(
                    AREA,
                    "clocks.rivals",
                    format!("{} runs beside ptp4l", ntp.join(", ")),
                    "two programs set one clock to different times",
                )
                .at(Level::Weak)
                .sure(Certainty::Concluded)
                .by_hand(format!("systemctl disable --now {}", ntp[0])),
            );
        }
        return findings;
    }
    let found = if ntp.is_empty() {
        "nobody sets this machine's clock".to_owned()
    } else {
        format!(
            "{} sets the clock: accurate to milliseconds, not microseconds",
            ntp.join(", ")
        )
    };
    vec![
        Finding::good(AREA, id, found, why)
            .at(Level::Note)
            .sure(Certainty::Concluded)
            .by_hand(match &facts.interface {
                Some(it) if it.time_stamping.phc.is_some() => {
                    format!("ptp4l -i {0} -m; phc2sys -a -r", it.link.name)
                }
                Some(it) => format!("ptp4l -S -i {} -m", it.link.name),
                None => "ptp4l -i INTERFACE -m".to_owned(),
            }),
    ]
}
