//! Writes pcapng: one section, one interface, nanoseconds, and a comment per packet where there is one.

use std::io::{self, Write};

/// A packet to be written.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'a> {
    /// Its capture time in ns since 1970-01-01 UTC.
    pub time_ns: u64,
    /// Its captured bytes.
    pub data: &'a [u8],
    /// Its length on the link in bytes.
    pub original_octets: u32,
    /// A comment that Wireshark shows beside the packet; empty for none.
    pub comment: &'a str,
}

/// Writes a capture. The output should be buffered.
#[derive(Debug)]
pub struct Writer<W> {
    output: W,
}

impl<W: Write> Writer<W> {
    /// Begins a file whose packets have the link type `link_type`.
    ///
    /// # Errors
    /// The error of the output if it cannot be written.
    pub fn new(mut output: W, link_type: u16) -> io::Result<Self> {
        let mut section = Vec::new();
        section.extend(0x1a2b_3c4d_u32.to_le_bytes());
        section.extend([1, 0, 0, 0]);
        section.extend(u64::MAX.to_le_bytes());
        option(
            &mut section,
            4,
            concat!("rtwire ", env!("CARGO_PKG_VERSION")).as_bytes(),
        );
        option(&mut section, 0, &[]);
        block(&mut output, 0x0a0d_0d0a, &section)?;
        let mut interface = Vec::new();
        interface.extend(link_type.to_le_bytes());
        interface.extend([0; 6]);
        // Timestamps count nanoseconds: 10^-9 s.
        option(&mut interface, 9, &[9]);
        option(&mut interface, 0, &[]);
        block(&mut output, 1, &interface)?;
        Ok(Self { output })
    }

    /// Writes one packet.
    ///
    /// # Errors
    /// The error of the output if it cannot be written.
    pub fn packet(&mut self, packet: &Recorded<'_>) -> io::Result<()> {
        let mut body = Vec::with_capacity(packet.data.len() + packet.comment.len() + 40);
        body.extend(0_u32.to_le_bytes());
        body.extend(((packet.time_ns >> 32) as u32).to_le_bytes());
        body.extend((packet.time_ns as u32).to_le_bytes());
        let captured = u32::try_from(packet.data.len()).map_err(io::Error::other)?;
        body.extend(captured.to_le_bytes());
        body.extend(packet.original_octets.max(captured).to_le_bytes());
        body.extend(packet.data);
        pad(&mut body);
        if !packet.comment.is_empty() {
            option(&mut body, 1, packet.comment.as_bytes());
            option(&mut body, 0, &[]);
        }
        block(&mut self.output, 6, &body)
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The error of the output if buffered bytes cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        self.output.flush()
    }
}

fn pad(octets: &mut Vec<u8>) {
    octets.resize(octets.len().next_multiple_of(4), 0);
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    pad(body);
}

fn block(output: &mut impl Write, kind: u32, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len() + 12).map_err(io::Error::other)?;
    output.write_all(&kind.to_le_bytes())?;
    output.write_all(&length.to_le_bytes())?;
    output.write_all(body)?;
    output.write_all(&length.to_le_bytes())
}
