//! A value with its status and times.

use super::bytes::{Reader, Writer, bit};
use super::variant::skip_variant;
use super::{DateTime, UadpError, Variant};

const VALUE: u8 = 0x01;
const STATUS: u8 = 0x02;
const SOURCE: u8 = 0x04;
const SERVER: u8 = 0x08;
const SOURCE_PICOSECONDS: u8 = 0x10;
const SERVER_PICOSECONDS: u8 = 0x20;
const RESERVED: u8 = 0xc0;

/// A value with its status and times, as far as they are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DataValue<'a> {
    /// The value.
    pub value: Option<Variant<'a>>,
    /// The value's status; `None` means good.
    pub status: Option<u32>,
    /// The time of the value at its source.
    pub source_time: Option<DateTime>,
    /// The part of the source time below 100 ns, in units of 10 ps.
    pub source_picoseconds: Option<u16>,
    /// The time at the server.
    pub server_time: Option<DateTime>,
    /// The part of the server time below 100 ns, in units of 10 ps.
    pub server_picoseconds: Option<u16>,
}

impl<'a> DataValue<'a> {
    /// Reads a `DataValue` from the front of `bytes`. Returns it with its octets.
    ///
    /// # Errors
    /// The octets are no `DataValue`.
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, usize), UadpError> {
        let mut reader = Reader::new(bytes, 0);
        let value = Self::read(&mut reader, 0)?;
        Ok((value, reader.octets()))
    }

    /// Writes the value to the front of `out` and returns its octets.
    ///
    /// # Errors
    /// `out` is too short.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, UadpError> {
        let mut writer = Writer::new(out);
        self.write(&mut writer)?;
        Ok(writer.octets())
    }

    pub(super) fn read(reader: &mut Reader<'a>, depth: u8) -> Result<Self, UadpError> {
        let mask = mask(reader)?;
        let value = if mask & VALUE != 0 {
            Some(Variant::read(reader, depth)?)
        } else {
            None
        };
        let mut data = Self {
            value,
            ..Self::default()
        };
        if mask & STATUS != 0 {
            data.status = Some(reader.u32("StatusCode")?);
        }
        if mask & SOURCE != 0 {
            data.source_time = Some(DateTime(i64::from_le_bytes(
                reader.array("SourceTimestamp")?,
            )));
        }
        if mask & SOURCE_PICOSECONDS != 0 {
            data.source_picoseconds = Some(reader.u16("SourcePicoSeconds")?);
        }
        if mask & SERVER != 0 {
            data.server_time = Some(DateTime(i64::from_le_bytes(
                reader.array("ServerTimestamp")?,
            )));
        }
        if mask & SERVER_PICOSECONDS != 0 {
            data.server_picoseconds = Some(reader.u16("ServerPicoSeconds")?);
        }
        Ok(data)
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>) -> Result<(), UadpError> {
        writer.u8(bit(self.value.is_some(), VALUE)
            | bit(self.status.is_some(), STATUS)
            | bit(self.source_time.is_some(), SOURCE)
            | bit(self.server_time.is_some(), SERVER)
            | bit(self.source_picoseconds.is_some(), SOURCE_PICOSECONDS)
            | bit(self.server_picoseconds.is_some(), SERVER_PICOSECONDS))?;
        if let Some(value) = &self.value {
            value.write(writer)?;
        }
        if let Some(status) = self.status {
            writer.u32(status)?;
        }
        if let Some(DateTime(ticks)) = self.source_time {
            writer.put(&ticks.to_le_bytes())?;
        }
        if let Some(picoseconds) = self.source_picoseconds {
            writer.u16(picoseconds)?;
        }
        if let Some(DateTime(ticks)) = self.server_time {
            writer.put(&ticks.to_le_bytes())?;
        }
        if let Some(picoseconds) = self.server_picoseconds {
            writer.u16(picoseconds)?;
        }
        Ok(())
    }
}

fn mask(reader: &mut Reader<'_>) -> Result<u8, UadpError> {
    let at = reader.offset();
    let mask = reader.u8("the mask of a DataValue")?;
    if mask & RESERVED != 0 {
        return Err(UadpError::Reserved {
            what: "the mask of a DataValue",
            at,
            found: u64::from(mask),
        });
    }
    Ok(mask)
}

/// Reads over a `DataValue` and checks it.
pub(super) fn skip_data_value(reader: &mut Reader<'_>, depth: u8) -> Result<(), UadpError> {
    let mask = mask(reader)?;
    if mask & VALUE != 0 {
        skip_variant(reader, depth)?;
    }
    for (bit, octets) in [
        (STATUS, 4),
        (SOURCE, 8),
        (SOURCE_PICOSECONDS, 2),
        (SERVER, 8),
        (SERVER_PICOSECONDS, 2),
    ] {
        if mask & bit != 0 {
            reader.take("DataValue", octets)?;
        }
    }
    Ok(())
}
