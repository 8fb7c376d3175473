//! A deployer's line to one host.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rtwire_manager::Key;
use rtwire_managerd::random;

use crate::DeployError;
use crate::line::{Line, LineError};
use crate::order::{Order, Reply};

/// The time for the connection and its hellos.
const HELLO_WITHIN: Duration = Duration::from_secs(5);

/// A connection to a host's door, which has shown the host's key.
pub struct Remote {
    host: String,
    address: SocketAddr,
    line: Line<TcpStream>,
    /// A second handle, for timeouts.
    stream: TcpStream,
}

impl Remote {
    /// Connects to a door.
    ///
    /// # Errors
    /// [`DeployError::Line`] if nobody answers, [`DeployError::Forged`] if somebody else does.
    pub fn connect(host: &str, address: SocketAddr, key: Key) -> Result<Remote, DeployError> {
        let failed = |what| {
            move |error| DeployError::Line {
                host: host.to_owned(),
                address,
                what,
                error,
            }
        };
        let stream =
            TcpStream::connect_timeout(&address, HELLO_WITHIN).map_err(failed("cannot connect"))?;
        let set = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(HELLO_WITHIN)))
            .and_then(|()| stream.set_write_timeout(Some(HELLO_WITHIN)))
            .and_then(|()| stream.try_clone());
        let second = set.map_err(failed("cannot connect"))?;
        let line = Line::deployer(stream, key, random()?);
        let line = line.map_err(|error| match error {
            LineError::Io(error) => failed("no hello comes")(error),
            LineError::Forged => DeployError::Forged {
                host: host.to_owned(),
                address,
            },
        })?;
        let mut remote = Remote {
            host: host.to_owned(),
            address,
            line,
            stream: second,
        };
        remote.ask(&Order::Ready, HELLO_WITHIN)?;
        Ok(remote)
    }

    fn failed(&self, what: &'static str, error: LineError) -> DeployError {
        let (host, address) = (self.host.clone(), self.address);
        match error {
            LineError::Io(error) => DeployError::Line {
                host,
                address,
                what,
                error,
            },
            LineError::Forged => DeployError::Forged { host, address },
        }
    }

    /// Sends an order, and waits for its reply.
    ///
    /// # Errors
    /// [`DeployError`]: then the host may have carried it out.
    pub fn ask(
        &mut self,
        order: &Order,
        within: Duration,
    ) -> Result<(Reply, Vec<u8>), DeployError> {
        let text = serde_json::to_vec(order).map_err(io::Error::from);
        let sent = text
            .map_err(LineError::from)
            .and_then(|text| self.line.send(&text));
        sent.map_err(|error| self.failed("the order cannot be sent", error))?;
        let _ = self
            .stream
            .set_read_timeout(Some(within.max(Duration::from_millis(1))));
        let what = "no reply comes";
        let content = self.line.receive();
        let content = content.map_err(|error| self.failed(what, error))?;
        let reply: Result<Reply, _> = serde_json::from_slice(&content).map_err(io::Error::from);
        let reply = reply.map_err(|error| self.failed(what, error.into()))?;
        let mut attached = Vec::new();
        if reply.attached {
            let content = self.line.receive();
            attached = content.map_err(|error| self.failed(what, error))?;
        }
        Ok((reply, attached))
    }
}
