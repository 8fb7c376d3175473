//! Device descriptions (EPSG DS 311): an XDD describes a kind of device, an XDC one device with its configured
//! values.

use crate::Error;
use crate::od::{Access, DataType, Entry, Mappable, Object, ObjectDictionary, ObjectKind};
use roxmltree::{Document, Node};
use std::collections::BTreeMap;

/// A device description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Name of the manufacturer.
    pub vendor: String,
    /// Name of the product.
    pub product: String,
    /// `true` if the device can be a managing node.
    pub managing: bool,
    /// Shortest possible cycle in µs; `None` if the description does not name it.
    pub least_cycle_us: Option<u64>,
    /// The objects as in the description.
    pub objects: ObjectDictionary,
    /// Ranges of objects that a configurator makes where they are mapped (`dynamicChannels`).
    pub dynamic: Vec<DynamicChannel>,
    /// Values that were ignored because they do not fit their type, with their line numbers.
    pub ignored: Vec<(u32, String)>,
}

/// A range of objects that exist as soon as they are mapped: a managing node's network variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DynamicChannel {
    /// First index.
    pub first: u16,
    /// Last index.
    pub last: u16,
    /// Type of each sub-index from 1 to 254.
    pub data_type: DataType,
}

/// Size limit of a file in bytes; descriptions have some hundred kilobytes.
const MAXIMUM_OCTETS: usize = 64 << 20;

/// The most ranges that are read; devices have some sixteen, one of each type and direction.
const MAXIMUM_CHANNELS: usize = 256;

struct Reader<'a> {
    document: &'a Document<'a>,
    /// Parameters of the application by name: access and element.
    parameters: BTreeMap<&'a str, Node<'a, 'a>>,
    ignored: Vec<(u32, String)>,
}

impl Description {
    /// Parses a description.
    ///
    /// # Errors
    /// The text is not XML, has no list of objects, or has an invalid index or sub-index.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.len() > MAXIMUM_OCTETS {
            return Err(Error::Configuration {
                what: format!("{} bytes are too long for a device description", text.len()),
            });
        }
        let document = Document::parse(text).map_err(|error| Error::Xml {
            line: error.pos().row,
            reason: error.to_string(),
        })?;
        let named = |name: &'static str| {
            let mut all = document.descendants();
            all.find(move |node| node.tag_name().name() == name)
        };
        let parameters = document
            .descendants()
            .filter(|node| node.tag_name().name() == "parameter")
            .filter_map(|node| Some((node.attribute("uniqueID")?, node)))
            .collect();
        let mut reader = Reader {
            document: &document,
            parameters,
            ignored: Vec::new(),
        };
        let list = named("ObjectList").ok_or_else(|| Error::Description {
            line: 1,
            what: "there is no `ObjectList`: a device description has one in its communication profile".into(),
        })?;
        let mut objects = ObjectDictionary::default();
        for node in list
            .children()
            .filter(|node| node.tag_name().name() == "Object")
        {
            let (index, object) = reader.object(node)?;
            objects.insert(index, object);
        }
        let channels = document
            .descendants()
            .filter(|node| node.tag_name().name() == "dynamicChannel")
            .take(MAXIMUM_CHANNELS);
        let dynamic = channels
            .map(|node| reader.dynamic_channel(node))
            .collect::<Result<_, _>>()?;
        let text_of = |name| named(name).and_then(|node| node.text()).unwrap_or_default();
        let general = named("GeneralFeatures");
        let feature = |name: &str| general.and_then(|node| node.attribute(name));
        Ok(Self {
            vendor: text_of("vendorName").trim().into(),
            product: text_of("productName").trim().into(),
            managing: feature("DLLFeatureMN") == Some("true"),
            least_cycle_us: feature("NMTCycleTimeMin").and_then(|text| text.parse().ok()),
            objects,
            dynamic,
            ignored: reader.ignored,
        })
    }

    /// Returns a node's whole dictionary: the objects of DS 301 that this crate's nodes use, overridden by those of
    /// the description.
    #[must_use]
    pub fn dictionary(&self) -> ObjectDictionary {
        let mut dictionary = if self.managing {
            ObjectDictionary::managing_node()
        } else {
            ObjectDictionary::controlled_node()
        };
        for (index, object) in self.objects.objects() {
            let mut object = object.clone();
            // Descriptions omit values that the standard defines; these keep their defaults.
            if let Some(standard) = dictionary.object(index) {
                for (subindex, entry) in &standard.entries {
                    object
                        .entries
                        .entry(*subindex)
                        .or_insert_with(|| entry.clone());
                }
                object.others = object.others.or_else(|| standard.others.clone());
            }
            dictionary.insert(index, object);
        }
        for channel in &self.dynamic {
            for index in channel.first..=channel.last {
                if dictionary.object(index).is_none() {
                    dictionary.insert(index, channel.object());
                }
            }
        }
        dictionary
    }
}

impl DynamicChannel {
    /// Returns the object behind each index of the range.
    fn object(self) -> Object {
        let mut count = Entry::new("NumberOfEntries", DataType::Unsigned(1));
        count.value = vec![254];
        let mut variable = Entry::new("NetworkVariable", self.data_type);
        variable.mappable = Mappable::Both;
        Object {
            name: "NetworkVariables".into(),
            kind: ObjectKind::Array,
            entries: [(0, count)].into(),
            others: Some((254, variable)),
        }
    }
}

impl<'a> Reader<'a> {
    fn line(&self, node: Node<'_, '_>) -> u32 {
        self.document.text_pos_at(node.range().start).row
    }

    fn wrong(&self, node: Node<'_, '_>, what: String) -> Error {
        Error::Description {
            line: self.line(node),
            what,
        }
    }

    /// Returns a hexadecimal attribute, with or without `0x`.
    fn hexadecimal(&self, node: Node<'_, '_>, name: &str, most: u32) -> Result<u32, Error> {
        let text = node.attribute(name).unwrap_or_default().trim();
        let digits = text.trim_start_matches("0x").trim_start_matches("0X");
        u32::from_str_radix(digits, 16)
            .ok()
            .filter(|&number| number <= most)
            .ok_or_else(|| {
                let what = format!(
                    "`{name}` is `{text}`: a hexadecimal number up to {most:X} is expected"
                );
                self.wrong(node, what)
            })
    }

    fn dynamic_channel(&self, node: Node<'a, 'a>) -> Result<DynamicChannel, Error> {
        let index = |name| self.hexadecimal(node, name, 0xffff);
        let (first, last) = (index("startIndex")? as u16, index("endIndex")? as u16);
        if last < first {
            let what = format!("`endIndex` {last:04X} is less than `startIndex` {first:04X}");
            return Err(self.wrong(node, what));
        }
        let code = self.hexadecimal(node, "dataType", 0xffff)? as u16;
        Ok(DynamicChannel {
            first,
            last,
            data_type: DataType::from_code(code),
        })
    }

    fn object(&mut self, node: Node<'a, 'a>) -> Result<(u16, Object), Error> {
        let index = self.hexadecimal(node, "index", 0xffff)? as u16;
        let name = node.attribute("name").unwrap_or_default();
        let kind = match node.attribute("objectType") {
            Some("8") => ObjectKind::Array,
            Some("9") => ObjectKind::Record,
            _ => ObjectKind::Variable,
        };
        let mut entries = BTreeMap::new();
        let children = node
            .children()
            .filter(|child| child.tag_name().name() == "SubObject");
        for child in children {
            let subindex = self.hexadecimal(child, "subIndex", 0xff)? as u8;
            let entry = self.entry(child, node);
            entries.insert(subindex, entry);
        }
        if entries.is_empty() {
            let entry = self.entry(node, node);
            entries.insert(0, entry);
        }
        let object = Object {
            name: name.into(),
            kind,
            entries,
            others: None,
        };
        Ok((index, object))
    }

    fn entry(&mut self, node: Node<'a, 'a>, object: Node<'a, 'a>) -> Entry {
        let parameter = node
            .attribute("uniqueIDRef")
            .and_then(|id| self.parameters.get(id).copied());
        let code = node
            .attribute("dataType")
            .or_else(|| object.attribute("dataType"));
        let data_type = code
            .and_then(|code| u16::from_str_radix(code.trim_start_matches("0x"), 16).ok())
            .map(DataType::from_code)
            .or_else(|| parameter.and_then(type_of))
            .unwrap_or(DataType::Domain);
        let mut entry = Entry::new(node.attribute("name").unwrap_or_default(), data_type);
        let access = node
            .attribute("accessType")
            .or_else(|| parameter?.attribute("access"));
        entry.access = match access {
            Some("const") => Access::Constant,
            Some("rw" | "readWrite" | "readWriteInput" | "readWriteOutput") => Access::ReadWrite,
            Some("wo" | "write") => Access::WriteOnly,
            _ => Access::ReadOnly,
        };
        entry.mappable = match node.attribute("PDOmapping") {
            Some("TPDO") => Mappable::Transmit,
            Some("RPDO") => Mappable::Receive,
            Some("optional" | "default") => Mappable::Both,
            _ => Mappable::No,
        };
        let value = |name: &'static str| {
            let of_parameter = || {
                let mut children = parameter?.children();
                let element = children.find(|child| child.tag_name().name() == name)?;
                element.attribute("value")
            };
            node.attribute(name).or_else(of_parameter)
        };
        let limit = |name| value(name).and_then(|text| number(text, data_type));
        (entry.low, entry.high) = (limit("lowLimit"), limit("highLimit"));
        if let Some(text) = value("actualValue").or_else(|| value("defaultValue")) {
            match bytes(text, data_type) {
                Some(bytes) => entry.value = bytes,
                None => {
                    let what = format!("`{text}` is no {}", data_type.name());
                    let line = self.line(node);
                    self.ignored.push((line, what));
                }
            }
        }
        entry
    }
}

/// Returns the type of an application's parameter, which is an element of its own.
fn type_of(parameter: Node<'_, '_>) -> Option<DataType> {
    parameter.children().find_map(|child| {
        Some(match child.tag_name().name() {
            "BOOL" => DataType::Boolean,
            "SINT" => DataType::Integer(1),
            "INT" => DataType::Integer(2),
            "DINT" => DataType::Integer(4),
            "LINT" => DataType::Integer(8),
            "USINT" | "BYTE" | "CHAR" | "BITSTRING" => DataType::Unsigned(1),
            "UINT" | "WORD" => DataType::Unsigned(2),
            "UDINT" | "DWORD" => DataType::Unsigned(4),
            "ULINT" | "LWORD" => DataType::Unsigned(8),
            "REAL" => DataType::Real32,
            "LREAL" => DataType::Real64,
            "STRING" => DataType::VisibleString,
            "WSTRING" => DataType::UnicodeString,
            _ => return None,
        })
    })
}

/// Parses a number in the notation of descriptions: decimal, hexadecimal with `0x`, `true` or `false`.
fn number(text: &str, data_type: DataType) -> Option<i128> {
    let text = text.trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let hexadecimal = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"));
    let magnitude: i128 = match (hexadecimal, digits) {
        (Some(digits), _) => i128::from(u64::from_str_radix(digits, 16).ok()?),
        (None, "true") => 1,
        (None, "false") => 0,
        (None, digits) => i128::from(digits.parse::<u64>().ok()?),
    };
    let number = sign * magnitude;
    let bits = u32::try_from(data_type.octets()? * 8).ok()?;
    let fits = match data_type {
        DataType::Boolean => (0..=1).contains(&number),
        // Hexadecimal digits may also denote the bits of a signed number.
        DataType::Integer(_) if hexadecimal.is_some() => magnitude < 1 << bits,
        DataType::Integer(_) => (-(1 << (bits - 1))..1 << (bits - 1)).contains(&number),
        _ => (0..1 << bits).contains(&number),
    };
    fits.then_some(number)
}

/// Returns the bytes of a value.
fn bytes(text: &str, data_type: DataType) -> Option<Vec<u8>> {
    match data_type {
        DataType::VisibleString => Some(text.as_bytes().to_vec()),
        DataType::UnicodeString => Some(text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
        DataType::Real32 => Some(text.trim().parse::<f32>().ok()?.to_le_bytes().to_vec()),
        DataType::Real64 => Some(text.trim().parse::<f64>().ok()?.to_le_bytes().to_vec()),
        DataType::IpAddress if text.contains('.') => {
            let parts: Option<Vec<u8>> = text
                .split('.')
                .map(|part| part.trim().parse().ok())
                .collect();
            let parts: [u8; 4] = parts?.try_into().ok()?;
            Some(u32::from_be_bytes(parts).to_le_bytes().to_vec())
        }
        DataType::OctetString | DataType::Domain | DataType::Other(_) => {
            let digits = text.trim().trim_start_matches("0x");
            if digits.len() % 2 != 0 || !digits.is_ascii() {
                return None;
            }
            let octet = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
            (0..digits.len()).step_by(2).map(octet).collect()
        }
        DataType::MacAddress | DataType::TimeOfDay | DataType::NetTime => {
            let number = number(text, DataType::Unsigned(8))?;
            let octets = data_type.octets()?;
            Some((number as u64).to_le_bytes().get(..octets)?.to_vec())
        }
        _ => {
            let number = number(text, data_type)?;
            let octets = data_type.octets()?;
            Some(number.to_le_bytes().get(..octets)?.to_vec())
        }
    }
}
