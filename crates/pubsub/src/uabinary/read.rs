//! Bytes in, a tree out.

use super::item::{Item, Object, Record};
use super::schema::{FILE, Kind, Structure};
use super::{MOST_ITEMS, MOST_OCTETS, UabinaryFault};
use core::fmt::Write as _;
use rtwire_wire::uadp::Variant;

/// ExtensionObjects in each other; the standard has no more than file, configuration, transport, address.
const MOST_DEPTH: usize = 8;

/// Reads a configuration file whole.
///
/// # Errors
/// The first fault: the field's path, and the offset of its bytes in the file.
pub fn read(bytes: &[u8]) -> Result<Record, UabinaryFault> {
    if bytes.len() > MOST_OCTETS {
        return Err(UabinaryFault::TooMuch {
            what: "bytes",
            found: bytes.len(),
            most: MOST_OCTETS,
        });
    }
    let mut reader = Reader::new(bytes, "file");
    let object = reader.object()?;
    let file = match object {
        Object::Known(record) if record.structure == &FILE => record,
        other => return Err(reader.other(0, FILE.name, &other)),
    };
    if reader.left() > 0 {
        return Err(reader.trailing());
    }
    Ok(file)
}

/// Reads a structure at the front of `bytes`, without a file around it. Returns it with its length.
///
/// # Errors
/// The table has no structure of this name, or the first fault: the field's path, and the offset of its bytes.
pub fn read_structure(name: &'static str, bytes: &[u8]) -> Result<(Record, usize), UabinaryFault> {
    let unknown = || UabinaryFault::Unfit {
        path: name.to_owned(),
    };
    let structure = Structure::named(name).ok_or_else(unknown)?;
    let mut reader = Reader::new(bytes, structure.name);
    let record = reader.record(structure)?;
    Ok((record, reader.at))
}

#[derive(Clone, Copy)]
enum Step {
    Field(&'static str),
    Element(usize),
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The end of the innermost ExtensionObject.
    end: usize,
    items: usize,
    /// ExtensionObjects around this place.
    depth: usize,
    path: Vec<Step>,
}

impl<'a> Reader<'a> {
    /// Returns a reader at the front of `bytes`, which names faults from `name` on.
    fn new(bytes: &'a [u8], name: &'static str) -> Self {
        Self {
            bytes,
            at: 0,
            end: bytes.len(),
            items: 0,
            depth: 0,
            path: vec![Step::Field(name)],
        }
    }

    const fn left(&self) -> usize {
        self.end.saturating_sub(self.at)
    }

    fn path(&self) -> String {
        let mut text = String::new();
        for step in &self.path {
            // Writing to a text does not fail.
            let _ = match step {
                Step::Field(name) if text.is_empty() => write!(text, "{name}"),
                Step::Field(name) => write!(text, ".{name}"),
                Step::Element(at) => write!(text, "[{at}]"),
            };
        }
        text
    }

    #[cold]
    fn other(&self, at: usize, wanted: &'static str, found: &Object) -> UabinaryFault {
        let found = match found {
            Object::Null => "nothing".to_owned(),
            Object::Known(record) => format!("a {}", record.structure.name),
            Object::Other(octets) => match numeric(octets) {
                Some(id) => format!("a structure with the encoding i={id}"),
                None => "a structure of another namespace".to_owned(),
            },
        };
        UabinaryFault::Other {
            path: self.path(),
            at,
            wanted,
            found,
        }
    }

    #[cold]
    fn trailing(&self) -> UabinaryFault {
        UabinaryFault::Trailing {
            path: self.path(),
            at: self.at,
            octets: self.left(),
        }
    }

    #[cold]
    fn value(&self, at: usize, what: String) -> UabinaryFault {
        UabinaryFault::Value {
            path: self.path(),
            at,
            what,
        }
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..self.end).unwrap_or_default()
    }

    fn take(&mut self, octets: usize) -> Result<&'a [u8], UabinaryFault> {
        let Some(taken) = self.rest().get(..octets) else {
            return Err(UabinaryFault::Truncated {
                path: self.path(),
                at: self.at,
                needed: octets,
                found: self.left(),
            });
        };
        self.at += octets;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], UabinaryFault> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    /// Reads a length in elements of at least `least` bytes; `None` is null.
    fn length(&mut self, least: usize) -> Result<Option<usize>, UabinaryFault> {
        let at = self.at;
        let told = i32::from_le_bytes(self.array()?);
        let most = self.left() / least.max(1);
        match usize::try_from(told) {
            Err(_) if told == -1 => Ok(None),
            Ok(length) if length <= most => Ok(Some(length)),
            _ => Err(UabinaryFault::Length {
                path: self.path(),
                at,
                told: i64::from(told),
                most,
            }),
        }
    }

    fn octets(&mut self) -> Result<Option<&'a [u8]>, UabinaryFault> {
        match self.length(1)? {
            Some(length) => self.take(length).map(Some),
            None => Ok(None),
        }
    }

    fn string(&mut self) -> Result<Option<String>, UabinaryFault> {
        let Some(octets) = self.octets()? else {
            return Ok(None);
        };
        match core::str::from_utf8(octets) {
            Ok(text) => Ok(Some(text.to_owned())),
            Err(fault) => Err(UabinaryFault::Text {
                path: self.path(),
                at: self.at - octets.len() + fault.valid_up_to(),
            }),
        }
    }

    /// Reads over a value and keeps its bytes.
    fn encoded(
        &mut self,
        over: impl FnOnce(&mut Self) -> Result<(), UabinaryFault>,
    ) -> Result<Item, UabinaryFault> {
        let start = self.at;
        over(self)?;
        let octets = self.bytes.get(start..self.at).unwrap_or_default();
        Ok(Item::Encoded(octets.to_vec()))
    }

    fn node_id(&mut self) -> Result<(), UabinaryFault> {
        let at = self.at;
        let [form] = self.array()?;
        match form {
            0 => self.take(1).map(|_| ()),
            1 => self.take(3).map(|_| ()),
            2 => self.take(6).map(|_| ()),
            3 => {
                self.take(2)?;
                self.string().map(|_| ())
            }
            4 => self.take(18).map(|_| ()),
            5 => {
                self.take(2)?;
                self.octets().map(|_| ())
            }
            found => Err(self.value(at, format!("{found} is no form of a NodeId"))),
        }
    }

    fn localized_text(&mut self) -> Result<(), UabinaryFault> {
        let at = self.at;
        let [mask] = self.array()?;
        if mask & !3 != 0 {
            return Err(self.value(at, format!("{mask:#x} is no mask of a LocalizedText")));
        }
        for bit in [1, 2] {
            if mask & bit != 0 {
                self.string()?;
            }
        }
        Ok(())
    }

    fn variant(&mut self) -> Result<(), UabinaryFault> {
        match Variant::parse(self.rest()) {
            Ok((_, octets)) => self.take(octets).map(|_| ()),
            Err(fault) => {
                let at = self.at + fault.at().unwrap_or(0);
                Err(self.value(at, format!("no Variant: {fault} (from its beginning)")))
            }
        }
    }

    fn object(&mut self) -> Result<Object, UabinaryFault> {
        let start = self.at;
        self.node_id()?;
        let id = numeric(self.bytes.get(start..self.at).unwrap_or_default());
        let at = self.at;
        let [form] = self.array()?;
        let known = id.and_then(Structure::encoded_as);
        match (form, known) {
            (0, _) if id == Some(0) => return Ok(Object::Null),
            (0, _) => {}
            (1, Some(structure)) => {
                let length_at = self.at;
                let Some(length) = self.length(1)? else {
                    return Err(self.value(length_at, format!("{} is null", structure.name)));
                };
                if self.depth >= MOST_DEPTH {
                    let what = format!("more than {MOST_DEPTH} structures in each other");
                    return Err(self.value(start, what));
                }
                let outer = core::mem::replace(&mut self.end, self.at + length);
                self.depth += 1;
                let record = self.record(structure)?;
                self.depth -= 1;
                if self.left() > 0 {
                    return Err(self.trailing());
                }
                self.end = outer;
                return Ok(Object::Known(record));
            }
            (1 | 2, _) => {
                self.octets()?;
            }
            (found, _) => {
                return Err(self.value(at, format!("{found} is no form of an ExtensionObject")));
            }
        }
        let octets = self.bytes.get(start..self.at).unwrap_or_default();
        Ok(Object::Other(octets.to_vec()))
    }

    fn record(&mut self, structure: &'static Structure) -> Result<Record, UabinaryFault> {
        let mut items = Vec::with_capacity(structure.fields.len());
        for (name, kind) in structure.fields {
            self.path.push(Step::Field(name));
            items.push(self.item(kind)?);
            self.path.pop();
        }
        Ok(Record { structure, items })
    }

    fn item(&mut self, kind: &'static Kind) -> Result<Item, UabinaryFault> {
        self.items += 1;
        if self.items > MOST_ITEMS {
            return Err(UabinaryFault::TooMuch {
                what: "values",
                found: self.items,
                most: MOST_ITEMS,
            });
        }
        Ok(match kind {
            // Any number but 0 is true.
            Kind::Boolean => Item::Boolean(self.array::<1>()? != [0]),
            Kind::Byte => Item::Byte(u8::from_le_bytes(self.array()?)),
            Kind::UInt16 => Item::UInt16(u16::from_le_bytes(self.array()?)),
            Kind::UInt32 => Item::UInt32(u32::from_le_bytes(self.array()?)),
            Kind::Int32 => Item::Int32(i32::from_le_bytes(self.array()?)),
            Kind::Int64 => Item::Int64(i64::from_le_bytes(self.array()?)),
            Kind::Double => Item::Double(u64::from_le_bytes(self.array()?)),
            Kind::String => Item::String(self.string()?),
            Kind::ByteString => Item::ByteString(self.octets()?.map(<[u8]>::to_vec)),
            Kind::Guid => Item::Guid(self.array()?),
            Kind::NodeId => self.encoded(Self::node_id)?,
            Kind::QualifiedName => {
                let namespace = u16::from_le_bytes(self.array()?);
                Item::QualifiedName(namespace, self.string()?)
            }
            Kind::LocalizedText => self.encoded(Self::localized_text)?,
            Kind::Variant => self.encoded(Self::variant)?,
            Kind::Body => {
                const WANTED: &str = "Variant with one structure";
                let at = self.at;
                match self.array::<1>()? {
                    [0] => Item::Object(Object::Null),
                    [22] => Item::Object(self.object()?),
                    [found] => {
                        return Err(UabinaryFault::Other {
                            path: self.path(),
                            at,
                            wanted: WANTED,
                            found: format!("one of the type {found:#x}"),
                        });
                    }
                }
            }
            Kind::Object => Item::Object(self.object()?),
            Kind::Record(structure) => Item::Record(self.record(structure)?),
            Kind::List(element) => {
                let Some(count) = self.length(element.least())? else {
                    return Ok(Item::List(None));
                };
                let mut items = Vec::new();
                for at in 0..count {
                    self.path.push(Step::Element(at));
                    items.push(self.item(element)?);
                    self.path.pop();
                }
                Item::List(Some(items))
            }
        })
    }
}

/// Returns the number of a NodeId in namespace 0 that begins `bytes`.
pub(super) fn numeric(octets: &[u8]) -> Option<u32> {
    match *octets {
        [0, id, ..] => Some(u32::from(id)),
        [1, 0, low, high, ..] => Some(u32::from(u16::from_le_bytes([low, high]))),
        [2, 0, 0, a, b, c, d, ..] => Some(u32::from_le_bytes([a, b, c, d])),
        _ => None,
    }
}
