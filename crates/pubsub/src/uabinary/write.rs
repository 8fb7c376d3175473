//! A tree in, bytes out.

use super::UabinaryFault;
use super::item::{Item, Object, Record};
use super::schema::Kind;

/// Writes a configuration file: a `UABinaryFileDataType`.
///
/// # Errors
/// A field has a value of another type, or one that is too long.
pub fn write(file: &Record) -> Result<Vec<u8>, UabinaryFault> {
    let mut writer = Writer {
        out: Vec::new(),
        path: Vec::new(),
    };
    writer.known(file)?;
    Ok(writer.out)
}

/// Writes a structure without a file around it.
///
/// # Errors
/// A field has a value of another type, or one that is too long.
pub fn write_structure(record: &Record) -> Result<Vec<u8>, UabinaryFault> {
    let mut writer = Writer {
        out: Vec::new(),
        path: Vec::new(),
    };
    writer.record(record)?;
    Ok(writer.out)
}

struct Writer {
    out: Vec<u8>,
    path: Vec<&'static str>,
}

impl Writer {
    #[cold]
    fn unfit(&self) -> UabinaryFault {
        UabinaryFault::Unfit {
            path: self.path.join("."),
        }
    }

    fn length(&mut self, length: Option<usize>) -> Result<(), UabinaryFault> {
        let length = match length {
            None => -1,
            Some(length) => i32::try_from(length).map_err(|_| self.unfit())?,
        };
        self.out.extend(length.to_le_bytes());
        Ok(())
    }

    fn octets(&mut self, octets: Option<&[u8]>) -> Result<(), UabinaryFault> {
        self.length(octets.map(<[u8]>::len))?;
        self.out.extend(octets.unwrap_or_default());
        Ok(())
    }

    fn object(&mut self, object: &Object) -> Result<(), UabinaryFault> {
        match object {
            Object::Null => self.out.extend([0, 0, 0]),
            Object::Other(octets) => self.out.extend(octets),
            Object::Known(record) => self.known(record)?,
        }
        Ok(())
    }

    fn known(&mut self, record: &Record) -> Result<(), UabinaryFault> {
        // A structure that is no content of an ExtensionObject has no such number.
        if record.structure.encoding == 0 {
            return Err(self.unfit());
        }
        self.out.extend([1, 0]);
        self.out.extend(record.structure.encoding.to_le_bytes());
        self.out.push(1);
        let start = self.out.len();
        self.out.extend([0; 4]);
        self.record(record)?;
        let length = i32::try_from(self.out.len() - start - 4).map_err(|_| self.unfit())?;
        if let Some(place) = self.out.get_mut(start..start + 4) {
            place.copy_from_slice(&length.to_le_bytes());
        }
        Ok(())
    }

    fn record(&mut self, record: &Record) -> Result<(), UabinaryFault> {
        self.path.push(record.structure.name);
        if record.items.len() != record.structure.fields.len() {
            return Err(self.unfit());
        }
        for ((name, kind), item) in record.structure.fields.iter().zip(&record.items) {
            self.path.push(name);
            self.item(kind, item)?;
            self.path.pop();
        }
        self.path.pop();
        Ok(())
    }

    fn item(&mut self, kind: &'static Kind, item: &Item) -> Result<(), UabinaryFault> {
        match (kind, item) {
            (Kind::Boolean, Item::Boolean(truth)) => self.out.push(u8::from(*truth)),
            (Kind::Byte, Item::Byte(number)) => self.out.push(*number),
            (Kind::UInt16, Item::UInt16(number)) => self.out.extend(number.to_le_bytes()),
            (Kind::UInt32, Item::UInt32(number)) => self.out.extend(number.to_le_bytes()),
            (Kind::Int32, Item::Int32(number)) => self.out.extend(number.to_le_bytes()),
            (Kind::Int64, Item::Int64(number)) => self.out.extend(number.to_le_bytes()),
            (Kind::Double, Item::Double(bits)) => self.out.extend(bits.to_le_bytes()),
            (Kind::String, Item::String(text)) => {
                self.octets(text.as_deref().map(str::as_bytes))?;
            }
            (Kind::ByteString, Item::ByteString(octets)) => self.octets(octets.as_deref())?,
            (Kind::Guid, Item::Guid(octets)) => self.out.extend(octets),
            (Kind::QualifiedName, Item::QualifiedName(namespace, name)) => {
                self.out.extend(namespace.to_le_bytes());
                self.octets(name.as_deref().map(str::as_bytes))?;
            }
            (Kind::NodeId | Kind::LocalizedText | Kind::Variant, Item::Encoded(octets)) => {
                self.out.extend(octets);
            }
            (Kind::Body, Item::Object(Object::Null)) => self.out.push(0),
            (Kind::Body, Item::Object(object)) => {
                self.out.push(22);
                self.object(object)?;
            }
            (Kind::Object, Item::Object(object)) => self.object(object)?,
            (Kind::Record(structure), Item::Record(record)) if *structure == record.structure => {
                self.record(record)?;
            }
            (Kind::List(element), Item::List(items)) => {
                self.length(items.as_ref().map(Vec::len))?;
                for item in items.iter().flatten() {
                    self.item(element, item)?;
                }
            }
            _ => return Err(self.unfit()),
        }
        Ok(())
    }
}
