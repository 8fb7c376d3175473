//! Every field of a frame by name, for monitors and for comparison with other dissectors.
//!
//! The names are those of Wireshark's display filters, so a field found here can be searched for there.

use super::codes::{AsndService, MessageType, NmtCommandId, RequestedService};
use super::view::View;

/// A field of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// The field's name in Wireshark's display filters.
    pub name: &'static str,
    /// The field's position, in octets from the frame's first.
    pub at: usize,
    /// Octets that the field takes, fully or in part.
    pub octets: usize,
    /// The field's value.
    pub value: Value<'a>,
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number, or a flag (0 or 1).
    Number(u64),
    /// Octets: data, an address, a text.
    Octets(&'a [u8]),
}

struct Visit<'a, 'v> {
    view: View<'a>,
    visit: &'v mut dyn FnMut(Field<'a>),
}

impl<'a> Visit<'a, '_> {
    /// Reports a little-endian number of `octets` octets at `at`; nothing if the frame is too short.
    fn number(&mut self, name: &'static str, at: usize, octets: usize) -> Option<u64> {
        let number = self.view.number_at(at, octets)?;
        (self.visit)(Field {
            name,
            at,
            octets,
            value: Value::Number(number),
        });
        Some(number)
    }

    fn octet(&mut self, name: &'static str, at: usize) -> u8 {
        self.number(name, at, 1).unwrap_or_default() as u8
    }

    /// Reports some bits of a little-endian number.
    fn bits(&mut self, at: usize, octets: usize, bits: &[(&'static str, u64)]) {
        let Some(number) = self.view.number_at(at, octets) else {
            return;
        };
        for &(name, mask) in bits {
            (self.visit)(Field {
                name,
                at,
                octets,
                value: Value::Number((number & mask) >> mask.trailing_zeros()),
            });
        }
    }

    fn data(&mut self, name: &'static str, at: usize, octets: usize) {
        let bytes = self.view.bytes().get(at..at.saturating_add(octets));
        if let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) {
            (self.visit)(Field {
                name,
                at,
                octets,
                value: Value::Octets(bytes),
            });
        }
    }

    fn rest(&mut self, name: &'static str, at: usize) {
        self.data(name, at, self.view.bytes().len().saturating_sub(at));
    }
}

impl<'a> View<'a> {
    /// Calls `visit` with each field of the frame, in the order of the frame. Reports nothing for a frame that is not
    /// POWERLINK.
    pub fn fields(self, visit: &mut dyn FnMut(Field<'a>)) {
        if !self.is_powerlink() {
            return;
        }
        let mut v = Visit { view: self, visit };
        v.bits(14, 1, &[("epl.mtyp", 0x7f)]);
        v.octet("epl.dest", 15);
        v.octet("epl.src", 16);
        match self.message_type().unwrap_or_default() {
            MessageType::SOC => soc(&mut v),
            MessageType::PREQ => preq(&mut v),
            MessageType::PRES => pres(&mut v),
            MessageType::SOA | MessageType::AINV => soa(&mut v),
            MessageType::ASND => asnd(&mut v),
            _ => v.rest("epl.data", 17),
        }
    }
}

fn soc(v: &mut Visit<'_, '_>) {
    v.octet("epl.soc.flags", 18);
    let flags = [
        ("epl.soc.mc", 0x80),
        ("epl.soc.ps", 0x40),
        ("epl.soc.an", 0x08),
    ];
    v.bits(18, 1, &flags);
    v.data("epl.soc.nettime", 20, 8);
    v.number("epl.soc.relativetime", 28, 8);
}

fn preq(v: &mut Visit<'_, '_>) {
    v.octet("epl.preq.flags", 18);
    let flags = [
        ("epl.preq.ms", 0x20),
        ("epl.preq.ea", 0x04),
        ("epl.preq.rd", 0x01),
    ];
    v.bits(18, 1, &flags);
    v.bits(19, 1, &[("epl.preq.fls", 0x80), ("epl.preq.sls", 0x40)]);
    v.octet("epl.preq.pdov", 20);
    let size = v.number("epl.preq.size", 22, 2).unwrap_or_default();
    payload(v, size);
}

fn pres(v: &mut Visit<'_, '_>) {
    v.octet("epl.pres.stat", 17);
    v.octet("epl.pres.flags", 18);
    let flags = [
        ("epl.pres.ms", 0x20),
        ("epl.pres.en", 0x10),
        ("epl.pres.rd", 0x01),
    ];
    v.bits(18, 1, &flags);
    let request = [
        ("epl.pres.fls", 0x80),
        ("epl.pres.sls", 0x40),
        ("epl.pres.pr", 0x38),
        ("epl.pres.rs", 0x07),
    ];
    v.bits(19, 1, &request);
    v.octet("epl.pres.pdov", 20);
    let size = v.number("epl.pres.size", 22, 2).unwrap_or_default();
    payload(v, size);
}

/// Reports the process data: as many octets as `size` says, or as there are.
fn payload(v: &mut Visit<'_, '_>, size: u64) {
    let there = v.view.bytes().len().saturating_sub(24);
    v.data("epl.pdo", 24, there.min(size as usize));
}

fn soa(v: &mut Visit<'_, '_>) {
    v.octet("epl.soa.stat", 17);
    let flags = [
        ("epl.soa.an.local", 0x10),
        ("epl.soa.an.global", 0x08),
        ("epl.soa.ea", 0x04),
        ("epl.soa.er", 0x02),
    ];
    v.bits(18, 1, &flags);
    let service = v.octet("epl.soa.svid", 20);
    v.octet("epl.soa.svtg", 21);
    v.octet("epl.soa.eplv", 22);
    v.octet("epl.soa.rrFlags", 23);
    let redundancy = [
        ("epl.soa.rrFlags.ringstat", 0x08),
        ("epl.soa.rrFlags.ringred", 0x04),
        ("epl.soa.rrFlags.cblred", 0x02),
        ("epl.soa.rrFlags.mnred", 0x01),
    ];
    v.bits(23, 1, &redundancy);
    if RequestedService(service) != RequestedService::SYNC_REQUEST {
        return;
    }
    v.octet("epl.soa.sync", 24);
    let control = [
        ("epl.soa.adva", 0x20),
        ("epl.soa.tm", 0x10),
        ("epl.soa.mnsc", 0x08),
        ("epl.soa.mnft", 0x04),
        ("epl.soa.prsc", 0x02),
        ("epl.soa.prft", 0x01),
    ];
    v.bits(24, 1, &control);
    v.bits(27, 1, &[("epl.soa.prmst", 0x80), ("epl.soa.prmrst", 0x40)]);
    v.number("epl.soa.prft.end", 28, 4);
    v.number("epl.soa.prsc.end", 32, 4);
    v.number("epl.soa.mnft.end", 36, 4);
    v.number("epl.soa.mnsc.end", 40, 4);
    v.number("epl.soa.tm.end", 44, 4);
    v.data("epl.soa.adva.end", 48, 6);
}

fn asnd(v: &mut Visit<'_, '_>) {
    match AsndService(v.octet("epl.asnd.svid", 17)) {
        AsndService::IDENT_RESPONSE => ident(v),
        AsndService::STATUS_RESPONSE => status(v),
        AsndService::NMT_REQUEST => {
            v.octet("epl.asnd.nmtrequest.rcid", 18);
            v.octet("epl.asnd.nmtrequest.rct", 19);
            v.rest("epl.asnd.nmtrequest.rcd", 20);
        }
        AsndService::NMT_COMMAND => nmt_command(v),
        AsndService::SDO => sdo(v),
        AsndService::SYNC_RESPONSE => {
            v.octet("epl.asnd.syncresponse.sync", 20);
            let status = [
                ("epl.asnd.syncresponse.fst.val", 0x01),
                ("epl.asnd.syncresponse.sec.val", 0x02),
            ];
            v.bits(20, 1, &status);
            v.bits(23, 1, &[("epl.asnd.syncresponse.mode", 0x80)]);
            v.number("epl.asnd.syncresponse.latency", 24, 4);
            v.number("epl.asnd.syncresponse.delay.station", 28, 4);
            v.number("epl.asnd.syncresponse.delay", 32, 4);
            v.number("epl.asnd.syncresponse.pres.fst", 36, 4);
            v.number("epl.asnd.syncresponse.pres.sec", 40, 4);
        }
        _ => v.rest("epl.data", 18),
    }
}

fn nmt_command(v: &mut Visit<'_, '_>) {
    match NmtCommandId(v.octet("epl.asnd.nmtcommand.cid", 18)) {
        NmtCommandId::NET_HOST_NAME_SET => {
            v.data("epl.asnd.nmtcommand.nmtnethostnameset.hn", 20, 32);
        }
        NmtCommandId::FLUSH_ARP_ENTRY => {
            v.octet("epl.asnd.nmtcommand.nmtflusharpentry.nid", 20);
        }
        NmtCommandId::PUBLISH_TIME => {
            v.data("epl.asnd.nmtcommand.nmtpublishtime.dt", 20, 6);
        }
        NmtCommandId::RESET_NODE => {
            v.number("epl.asnd.nmtcommand.resetnode_reason", 20, 2);
            v.rest("epl.asnd.nmtcommand.cdat", 20);
        }
        _ => v.rest("epl.asnd.nmtcommand.cdat", 20),
    }
}

const FEATURES: [(&str, u64); 22] = [
    ("epl.asnd.ires.features.bit0", 1),
    ("epl.asnd.ires.features.bit1", 1 << 1),
    ("epl.asnd.ires.features.bit2", 1 << 2),
    ("epl.asnd.ires.features.bit3", 1 << 3),
    ("epl.asnd.ires.features.bit4", 1 << 4),
    ("epl.asnd.ires.features.bit5", 1 << 5),
    ("epl.asnd.ires.features.bit6", 1 << 6),
    ("epl.asnd.ires.features.bit7", 1 << 7),
    ("epl.asnd.ires.features.bit8", 1 << 8),
    ("epl.asnd.ires.features.bit9", 1 << 9),
    ("epl.asnd.ires.features.bitA", 1 << 10),
    ("epl.asnd.ires.features.bitB", 1 << 11),
    ("epl.asnd.ires.features.bitC", 1 << 12),
    ("epl.asnd.ires.features.bitD", 1 << 13),
    ("epl.asnd.ires.features.bitE", 1 << 14),
    ("epl.asnd.ires.features.bitF", 1 << 15),
    ("epl.asnd.ires.features.bit10", 1 << 16),
    ("epl.asnd.ires.features.bit11", 1 << 17),
    ("epl.asnd.ires.features.bit12", 1 << 18),
    ("epl.asnd.ires.features.bit13", 1 << 19),
    ("epl.asnd.ires.features.bit14", 1 << 20),
    // Wireshark's name for bit 21, too, is not hexadecimal.
    ("epl.asnd.ires.features.bit21", 1 << 21),
];

fn ident(v: &mut Visit<'_, '_>) {
    let flags = [("epl.asnd.ires.en", 0x10), ("epl.asnd.ires.ec", 0x08)];
    v.bits(18, 1, &flags);
    let request = [
        ("epl.asnd.ires.fls", 0x80),
        ("epl.asnd.ires.sls", 0x40),
        ("epl.asnd.ires.pr", 0x38),
        ("epl.asnd.ires.rs", 0x07),
    ];
    v.bits(19, 1, &request);
    v.octet("epl.asnd.ires.state", 20);
    v.octet("epl.asnd.ires.eplver", 22);
    v.number("epl.asnd.ires.features", 24, 4);
    v.bits(24, 4, &FEATURES);
    v.number("epl.asnd.ires.mtu", 28, 2);
    v.number("epl.asnd.ires.pollinsize", 30, 2);
    v.number("epl.asnd.ires.polloutsizes", 32, 2);
    v.number("epl.asnd.ires.resptime", 34, 4);
    v.number("epl.asnd.ires.devicetype", 40, 2);
    v.number("epl.asnd.ires.devicetype.add", 42, 2);
    v.number("epl.asnd.ires.vendorid", 44, 4);
    v.number("epl.asnd.ires.productcode", 48, 4);
    v.number("epl.asnd.ires.revisionno", 52, 4);
    v.number("epl.asnd.ires.serialno", 56, 4);
    v.number("epl.asnd.ires.vendorext1", 60, 8);
    v.number("epl.asnd.ires.confdate", 68, 4);
    v.number("epl.asnd.ires.conftime", 72, 4);
    v.number("epl.asnd.ires.appswdate", 76, 4);
    v.number("epl.asnd.ires.appswtime", 80, 4);
    v.number("epl.asnd.ires.ip", 84, 4);
    v.number("epl.asnd.ires.subnet", 88, 4);
    v.number("epl.asnd.ires.gateway", 92, 4);
    v.data("epl.asnd.ires.hostname", 96, 32);
    v.data("epl.asnd.ires.vendorext2", 128, 48);
}

fn status(v: &mut Visit<'_, '_>) {
    let flags = [("epl.asnd.sres.en", 0x10), ("epl.asnd.sres.ec", 0x08)];
    v.bits(18, 1, &flags);
    let request = [
        ("epl.asnd.sres.fls", 0x80),
        ("epl.asnd.sres.sls", 0x40),
        ("epl.asnd.sres.pr", 0x38),
        ("epl.asnd.sres.rs", 0x07),
    ];
    v.bits(19, 1, &request);
    v.octet("epl.asnd.sres.stat", 20);
    let register = [
        ("epl.asnd.res.seb.bit0", 0x01),
        ("epl.asnd.res.seb.bit1", 0x02),
        ("epl.asnd.res.seb.bit2", 0x04),
        ("epl.asnd.res.seb.bit3", 0x08),
        ("epl.asnd.res.seb.bit4", 0x10),
        ("epl.asnd.res.seb.bit5", 0x20),
        ("epl.asnd.res.seb.bit7", 0x80),
    ];
    v.bits(24, 1, &register);
    v.data("epl.asnd.res.seb.devicespecific_err", 26, 6);
    let mut at = 32;
    while at + super::ERROR_ENTRY_OCTETS <= v.view.bytes().len() {
        v.number("epl.asnd.sres.el.entry.type", at, 2);
        let parts = [
            ("epl.asnd.sres.el.entry.type.profile", 0x0fff),
            ("epl.asnd.sres.el.entry.type.mode", 0x3000),
            ("epl.asnd.sres.el.entry.type.bit14", 0x4000),
            ("epl.asnd.sres.el.entry.type.bit15", 0x8000),
        ];
        v.bits(at, 2, &parts);
        v.number("epl.asnd.sres.el.entry.code", at + 2, 2);
        v.data("epl.asnd.sres.el.entry.time", at + 4, 8);
        v.number("epl.asnd.sres.el.entry.add", at + 12, 8);
        at += super::ERROR_ENTRY_OCTETS;
    }
}

fn sdo(v: &mut Visit<'_, '_>) {
    let receive = [
        ("epl.asnd.sdo.seq.receive.sequence.number", 0xfc),
        ("epl.asnd.sdo.seq.receive.con", 0x03),
    ];
    v.bits(18, 1, &receive);
    let send = [
        ("epl.asnd.sdo.seq.send.sequence.number", 0xfc),
        ("epl.asnd.sdo.seq.send.con", 0x03),
    ];
    v.bits(19, 1, &send);
    // From 22: a reserved octet, transaction, flags, command, size of the segment, two reserved octets.
    let header = v.view.bytes().get(22..30);
    let Some(header) = header.filter(|header| header.iter().any(|&octet| octet != 0)) else {
        return;
    };
    let (flags, command) = (header[2], header[3]);
    v.octet("epl.asnd.sdo.cmd.transaction.id", 23);
    let parts = [
        ("epl.asnd.sdo.cmd.response", 0x80),
        ("epl.asnd.sdo.cmd.abort", 0x40),
        ("epl.asnd.sdo.cmd.segmentation", 0x30),
    ];
    v.bits(24, 1, &parts);
    v.octet("epl.asnd.sdo.cmd.command.id", 25);
    let size = v.number("epl.asnd.sdo.cmd.segment.size", 26, 2);
    let end = 30 + size.unwrap_or_default() as usize;
    let mut at = 30;
    if flags & 0x30 == 0x10 {
        v.number("epl.asnd.sdo.cmd.data.size", at, 4);
        at += 4;
    }
    if flags & 0x40 != 0 {
        v.number("epl.asnd.sdo.cmd.abort.code", at, 4);
        return;
    }
    // Write and read by index begin with the object, in their first message.
    let begins = flags & 0x80 == 0 && flags & 0x30 <= 0x10;
    if begins && matches!(command, 1 | 2) {
        let index = v.number("epl.asnd.sdo.cmd.data.index", at, 2);
        let subindex = v.octet("epl.asnd.sdo.cmd.data.subindex", at + 2);
        at += if command == 1 { 4 } else { 3 };
        let mapping = matches!(index, Some(0x1600..=0x16ff | 0x1a00..=0x1aff));
        if command == 1 && mapping && subindex > 0 {
            v.number("epl.asnd.sdo.cmd.data.mapping.index", at, 2);
            v.octet("epl.asnd.sdo.cmd.data.mapping.subindex", at + 2);
            v.number("epl.asnd.sdo.cmd.data.mapping.offset", at + 4, 2);
            v.number("epl.asnd.sdo.cmd.data.mapping.length", at + 6, 2);
        }
    }
    let there = v.view.bytes().len();
    v.data(
        "epl.asnd.sdo.cmd.data",
        at,
        end.min(there).saturating_sub(at),
    );
}
