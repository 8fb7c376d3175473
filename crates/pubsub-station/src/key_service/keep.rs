//! The loop that follows the service: asks, writes the key file, changes the current key.

use super::{Asked, KeyService};
use crate::{KeyFile, StationError};
use rtwire_pubsub::security::{KeySchedule, KeyStep};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The longest sleep without a look at the stop flag.
const LOOK: Duration = Duration::from_millis(50);

/// An event for the person who runs the process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyEvent {
    /// The key file was written.
    Written {
        /// The token of the current key.
        current: u32,
        /// The keys behind it.
        to_come: usize,
    },
    /// The service did not answer, or not as it should. The keys stay.
    Silent {
        /// The reason.
        why: String,
        /// The time until the next question, ms.
        again_ms: u64,
    },
    /// The service answers again.
    Back,
    /// The service sends its current key only.
    NoneToCome,
    /// A known token has another key.
    Replaced {
        /// The token.
        token: u32,
    },
    /// The key file could not be written; it is tried again.
    NotWritten {
        /// The reason.
        why: String,
    },
}

impl fmt::Display for KeyEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Written { current, to_come } => {
                write!(f, "written: key {current} is current, {to_come} to come")
            }
            Self::Silent { why, again_ms } => write!(
                f,
                "no keys: {why}; the last keys stay, next try in {again_ms} ms"
            ),
            Self::Back => f.write_str("the service answers again"),
            Self::NoneToCome => f.write_str(
                "the service sends no keys to come: messages may be lost when it changes keys",
            ),
            Self::Replaced { token } => write!(
                f,
                "token {token} has another key than before: the service began anew, and stations with the old keys lose messages until they ask"
            ),
            Self::NotWritten { why } => f.write_str(why),
        }
    }
}

impl KeyService {
    /// Keeps the key file current until `stop` is set; with `once`, until it was written after one answer. `say` hears what happens.
    ///
    /// # Errors
    /// Before the first answer that can be used: the service refuses the settings, or its answer cannot be used. At any time: the program that asks
    /// cannot be started. With `once`: the file cannot be written, or there is no answer ([`StationError::Ended`]).
    pub fn keep(
        &self,
        stop: &AtomicBool,
        once: bool,
        mut say: impl FnMut(KeyEvent),
    ) -> Result<(), StationError> {
        let begun = Instant::now();
        let now_ns = || u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        // What an earlier run left is used until the service answers. A faulty file is replaced.
        let mut schedule = match KeyFile::read(&self.key_file) {
            Ok(known) => KeySchedule::new(known.keys, Some(known.current)),
            Err(_) => KeySchedule::new(Vec::new(), None),
        };
        let (mut answered, mut silent, mut alone) = (false, false, false);
        while !stop.load(Ordering::Relaxed) {
            match schedule.step(now_ns()) {
                KeyStep::Write => {
                    let current = schedule.current().unwrap_or(0);
                    match KeyFile::write(&self.key_file, schedule.keys(), current) {
                        Ok(()) => {
                            schedule.written();
                            let to_come = schedule.to_come();
                            say(KeyEvent::Written { current, to_come });
                        }
                        Err(source) => {
                            let path = self.key_file.clone();
                            let fault = StationError::WriteKeys { path, source };
                            if once {
                                return Err(fault);
                            }
                            schedule.not_written(now_ns());
                            let why = fault.to_string();
                            say(KeyEvent::NotWritten { why });
                        }
                    }
                }
                KeyStep::Ask => {
                    let (why, fatal) = match self.ask(stop)? {
                        Asked::Stopped => return Ok(()),
                        Asked::Refused(why) => (why, true),
                        Asked::Silent(why) => (why, false),
                        Asked::Answer(answer) => match answer.check() {
                            Err(fault) => (fault.to_string(), true),
                            Ok(keys) => {
                                let served = schedule.served(now_ns(), &keys);
                                if silent {
                                    say(KeyEvent::Back);
                                }
                                if let Some(token) = served.replaced {
                                    say(KeyEvent::Replaced { token });
                                }
                                if served.to_come == 0 && !alone {
                                    say(KeyEvent::NoneToCome);
                                }
                                alone = served.to_come == 0;
                                (answered, silent) = (true, false);
                                continue;
                            }
                        },
                    };
                    if fatal && !answered {
                        return Err(StationError::KeyService {
                            endpoint: self.question.endpoint.clone(),
                            group: self.question.security_group.clone(),
                            why,
                        });
                    }
                    let now = now_ns();
                    let again_ms = (schedule.unanswered(now) - now) / 1_000_000;
                    silent = true;
                    say(KeyEvent::Silent { why, again_ms });
                    if once {
                        return Err(StationError::Ended);
                    }
                }
                KeyStep::Wait(_) if once => return Ok(()),
                KeyStep::Wait(until_ns) => {
                    let left = Duration::from_nanos(until_ns.saturating_sub(now_ns()));
                    thread::sleep(left.min(LOOK));
                }
            }
        }
        Ok(())
    }
}
