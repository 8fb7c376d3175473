//! A share whose gates and launch times need the network's time, on a host that may not have it. Pure.

use super::configuration::{Configuration, Lack};

/// Adds the reasons why the host does not have the network's time: as a lack, or as a note if the user waived it.
pub(super) fn without(all: &mut Configuration, reasons: &str, waived: bool) {
    if waived {
        all.notes.push(format!(
            "NOT SYNCHRONISED ({reasons}): gates and launch times are those of this host's own clock"
        ));
        return;
    }
    all.lacks.push(Lack {
        what: format!("the network's time ({reasons})"),
        lost: "every window, and every delay and jitter that depends on one".to_owned(),
        remedy: "ptp4l and phc2sys, see `rtwire clock`; or go on without a common time: --no-sync"
            .to_owned(),
        instead: "gates and launch times of this host's own clock".to_owned(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_time_is_a_lack_unless_it_was_waived() {
        let mut all = Configuration::default();
        without(&mut all, "port 1 LISTENING", false);
        assert_eq!((all.lacks.len(), all.notes.len()), (1, 0));
        assert!(all.lacks[0].what.contains("LISTENING"), "{:?}", all.lacks);
        let mut all = Configuration::default();
        without(&mut all, "port 1 LISTENING", true);
        assert_eq!((all.lacks.len(), all.notes.len()), (0, 1));
        assert!(all.notes[0].contains("NOT SYNCHRONISED"), "{:?}", all.notes);
    }
}
