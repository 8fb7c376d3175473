//! One host's question to the manager, over UDP.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rtwire_manager::{Answer, Client, Key, LARGEST_MESSAGE, Question, Reason, Step};

use crate::keys::random;
use crate::{Addresses, ManagerdError};

/// A host that asks a manager. One question at a time.
#[derive(Debug)]
pub struct Asker {
    client: Client,
    socket: UdpSocket,
    managers: Addresses,
    start: Instant,
}

impl AsFd for Asker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Asker {
    /// Opens a socket to the managers, of which one leads. They are asked in turn until one answers.
    ///
    /// # Errors
    /// [`ManagerdError::Socket`].
    pub fn new(managers: &[SocketAddr], host: &str, key: Key) -> Result<Asker, ManagerdError> {
        let managers = Addresses::new(managers);
        let present = managers.present();
        let own = match present {
            SocketAddr::V4(_) => SocketAddr::from(([0, 0, 0, 0], 0)),
            SocketAddr::V6(_) => SocketAddr::from(([0_u16; 8], 0)),
        };
        let socket = UdpSocket::bind(own).map_err(|error| ManagerdError::Socket {
            what: "reach the manager at",
            address: present,
            error,
        })?;
        managers.connect(&socket)?;
        Ok(Asker {
            client: Client::new(host, key),
            socket,
            managers,
            start: Instant::now(),
        })
    }

    /// Returns a random id for a new request.
    ///
    /// # Errors
    /// [`ManagerdError::File`] if the kernel has no random numbers.
    pub fn request() -> Result<u128, ManagerdError> {
        random().map(u128::from_be_bytes)
    }

    /// Asks, and repeats the question until there is an answer or the time is over.
    ///
    /// # Errors
    /// [`ManagerdError::NoAnswer`]: the manager may have decided.
    pub fn ask(&mut self, question: &Question, within: Duration) -> Result<Answer, ManagerdError> {
        let now = |start: &Instant| u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let limit = u64::try_from(within.as_nanos()).unwrap_or(u64::MAX);
        let nonce = Asker::request()?;
        let begun = now(&self.start);
        self.client
            .ask(begun, begun.saturating_add(limit), question.clone(), nonce);
        let mut buffer = [0_u8; LARGEST_MESSAGE + 1];
        let mut step = self.client.poll(begun);
        let mut unanswered = false;
        loop {
            match step {
                Step::Send(bytes) => {
                    if unanswered {
                        self.managers.next(&self.socket);
                    }
                    unanswered = true;
                    // What is not sent is repeated.
                    drop(self.socket.send(&bytes));
                }
                Step::Done(answer) => return Ok(answer),
                Step::TooLate | Step::Idle => {
                    return Err(ManagerdError::NoAnswer {
                        address: self.managers.to_string(),
                        seconds: within.as_secs_f64(),
                    });
                }
                Step::Wait(until_ns) => {
                    let wait = until_ns.saturating_sub(now(&self.start)).max(1_000_000);
                    let wait = Some(Duration::from_nanos(wait));
                    let received = self
                        .socket
                        .set_read_timeout(wait)
                        .and_then(|()| self.socket.recv(&mut buffer));
                    match received {
                        Ok(count) => {
                            unanswered = false;
                            step = self.client.datagram(now(&self.start), &buffer[..count]);
                            continue;
                        }
                        // Nobody listens there now: the time goes on, the manager may start.
                        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                            std::thread::sleep(Duration::from_millis(5));
                            if self.managers.next(&self.socket) {
                                unanswered = false;
                                self.client.repeat(now(&self.start));
                            }
                        }
                        Err(_) => {}
                    }
                }
            }
            step = self.client.poll(now(&self.start));
        }
    }

    /// As [`Asker::ask`] for a request that is made anew while the manager says that it is busy. `question` makes it
    /// from a new id.
    ///
    /// # Errors
    /// As [`Asker::ask`].
    pub fn ask_until(
        &mut self,
        question: &dyn Fn(u128) -> Question,
        within: Duration,
    ) -> Result<Answer, ManagerdError> {
        let begun = Instant::now();
        loop {
            let left = within.saturating_sub(begun.elapsed());
            let answer = self.ask(&question(Asker::request()?), left);
            let answer = answer.map_err(|error| match error {
                ManagerdError::NoAnswer { address, .. } => ManagerdError::NoAnswer {
                    address,
                    seconds: within.as_secs_f64(),
                },
                other => other,
            })?;
            let pause = match &answer {
                Answer::Refused(no) if no.reason == Reason::Busy => {
                    Duration::from_micros(no.retry_after_us.into())
                }
                _ => return Ok(answer),
            };
            if begun.elapsed() + pause >= within {
                return Ok(answer);
            }
            std::thread::sleep(pause);
        }
    }
}
