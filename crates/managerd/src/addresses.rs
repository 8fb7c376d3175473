//! The addresses of the managers of a network, of which one leads.

use std::fmt::Display;
use std::io;
use std::net::{SocketAddr, UdpSocket};

use crate::ManagerdError;

/// The managers of a network, of which one leads, and the one that is asked at present.
#[derive(Clone, Debug)]
pub struct Addresses {
    all: Vec<SocketAddr>,
    at: usize,
}

impl Display for Addresses {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (number, address) in self.all.iter().enumerate() {
            let gap = if number == 0 { "" } else { " or " };
            write!(to, "{gap}{address}")?;
        }
        Ok(())
    }
}

impl Addresses {
    /// Returns the addresses, of which the first is asked first.
    #[must_use]
    pub fn new(all: &[SocketAddr]) -> Addresses {
        Addresses {
            all: all.to_vec(),
            at: 0,
        }
    }

    /// Returns the address that is asked at present.
    #[must_use]
    pub fn present(&self) -> SocketAddr {
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        self.all.get(self.at).copied().unwrap_or(unknown)
    }

    /// Connects a socket to the present address.
    ///
    /// # Errors
    /// [`ManagerdError::Socket`].
    pub fn connect(&self, socket: &UdpSocket) -> Result<(), ManagerdError> {
        let done = socket.connect(self.present());
        done.map_err(|error| ManagerdError::Socket {
            what: "reach the manager at",
            address: self.present(),
            error,
        })
    }

    /// Connects a socket to the next address. Returns false if there is only one.
    ///
    /// An address that cannot be reached now is the present one all the same: what is sent there is lost.
    pub fn next(&mut self, socket: &UdpSocket) -> bool {
        if self.all.len() < 2 {
            return false;
        }
        self.at = (self.at + 1) % self.all.len();
        let free = || -> io::Result<()> {
            // Else the socket keeps the source address that it has for the one before.
            rustix::net::connect_unspec(socket)?;
            socket.connect(self.present())
        };
        let _ = free();
        true
    }
}
