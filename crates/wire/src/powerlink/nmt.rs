//! NMT commands of the managing node, and requests for them.

use super::PowerlinkError;
use super::bytes::{Reader, Writer};
use super::codes::NmtCommandId;

/// An NMT command (DS 301, 7.3.1). Its data end where the frame ends, so they include any padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NmtCommand<'a> {
    /// The command.
    pub command: NmtCommandId,
    /// The command's data. For commands to several nodes: 32 octets with a bit for each node.
    pub data: &'a [u8],
}

impl<'a> NmtCommand<'a> {
    pub(super) fn parse(mut reader: Reader<'a>) -> Result<Self, PowerlinkError> {
        let command = NmtCommandId(reader.u8()?);
        reader.skip(1)?;
        Ok(Self {
            command,
            data: reader.rest(),
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) -> Result<(), PowerlinkError> {
        writer.put(&[self.command.0, 0])?;
        writer.put(self.data)
    }
}

/// A request to the managing node for an NMT command, or for another node's ident or status (DS 301, 7.3.6).
///
/// Its data end where the frame ends, so they include any padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NmtRequest<'a> {
    /// The command that is asked for.
    pub command: NmtCommandId,
    /// The node that the command is for.
    pub target: u8,
    /// The command's data.
    pub data: &'a [u8],
}

impl<'a> NmtRequest<'a> {
    pub(super) fn parse(mut reader: Reader<'a>) -> Result<Self, PowerlinkError> {
        Ok(Self {
            command: NmtCommandId(reader.u8()?),
            target: reader.u8()?,
            data: reader.rest(),
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) -> Result<(), PowerlinkError> {
        writer.put(&[self.command.0, self.target])?;
        writer.put(self.data)
    }
}

/// True if a list of nodes (32 octets, bit 0 of octet 0 for node 0) names `node`. A shorter list does not name the
/// nodes behind its end.
#[must_use]
pub fn node_list_contains(list: &[u8], node: u8) -> bool {
    list.get(usize::from(node / 8))
        .is_some_and(|octet| octet & 1 << (node % 8) != 0)
}

/// Puts `node` into a list of nodes.
pub fn node_list_insert(list: &mut [u8; 32], node: u8) {
    if let Some(octet) = list.get_mut(usize::from(node / 8)) {
        *octet |= 1 << (node % 8);
    }
}
