//! The frames that the card stamps by its own clock.

use super::{Area, Facts, Finding, Level};
use crate::netlink::TimeStamping;

const AREA: Area = Area::Driver;

pub(super) fn time_stamps(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    let (found, level) = stamps_of(&interface.time_stamping);
    let why = "hardware stamps (`--stamps hardware`) tell the time of a frame on the wire; software stamps add the host's own delay";
    vec![Finding::good(AREA, "driver.time_stamps", found, why).at(level)]
}

/// Says what the card stamps by its clock.
fn stamps_of(stamping: &TimeStamping) -> (String, Level) {
    let has = |kind: &str| stamping.kinds.contains(kind);
    let raw = has("hardware-raw-clock");
    let sent = raw && has("hardware-transmit") && stamping.sent.contains("on");
    let every = "all";
    let received: Vec<&str> = match raw && has("hardware-receive") {
        true => stamping.received.iter().map(String::as_str).collect(),
        false => Vec::new(),
    };
    let some: Vec<&str> = received
        .iter()
        .copied()
        .filter(|kind| *kind != "none")
        .collect();
    let Some(clock) = stamping.phc.filter(|_| sent || !some.is_empty()) else {
        return match (
            has("software-receive") || stamping.kinds.is_empty(),
            stamping.phc,
        ) {
            (false, _) => ("no receive stamps at all".to_owned(), Level::Weak),
            (true, Some(clock)) => (
                format!("software stamps only; its clock /dev/ptp{clock} stamps no frames"),
                Level::Note,
            ),
            (true, None) => (
                "software stamps only, no clock of its own".to_owned(),
                Level::Note,
            ),
        };
    };
    let of_sent = if sent { "every frame" } else { "none" };
    let (of_received, level) = match &some[..] {
        kinds if kinds.contains(&every) => ("every frame".to_owned(), Level::Good),
        [] => ("none".to_owned(), Level::Note),
        kinds => (format!("only {}", kinds.join(", ")), Level::Note),
    };
    let level = if sent { level } else { Level::Note };
    (
        format!("hardware stamps by /dev/ptp{clock}; sent: {of_sent}; received: {of_received}"),
        level,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamping(kinds: &[&str], received: &[&str], phc: Option<u32>) -> (String, Level) {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        stamps_of(&TimeStamping {
            kinds: set(kinds),
            sent: set(&["off", "on"]),
            received: set(received),
            phc,
        })
    }

    #[test]
    fn the_row_says_which_frames_a_card_stamps() {
        let all = [
            "hardware-transmit",
            "hardware-receive",
            "hardware-raw-clock",
            "software-receive",
        ];
        let (found, level) = stamping(&all, &["none", "all"], Some(0));
        assert!(
            found.ends_with("/dev/ptp0; sent: every frame; received: every frame"),
            "{found}"
        );
        assert_eq!(level, Level::Good);
        let (found, level) = stamping(&all, &["none", "ptpv2-event"], Some(1));
        assert!(found.ends_with("received: only ptpv2-event"), "{found}");
        assert_eq!(level, Level::Note);
        let (found, _) = stamping(&["software-receive"], &[], Some(1));
        assert!(found.contains("/dev/ptp1 stamps no frames"), "{found}");
        let (found, _) = stamping(&["software-receive"], &[], None);
        assert!(found.contains("no clock of its own"), "{found}");
        assert_eq!(stamping(&["software-transmit"], &[], None).1, Level::Weak);
    }
}
