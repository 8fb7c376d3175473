//! Values of objects, as people write and read them.

use clap::ValueEnum;
use rtwire_powerlink_station::control::unhex;
use rtwire_powerlink_station::powerlink::od::DataType;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// Bytes, as they are
    Hex,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    /// A text
    Text,
}

impl Kind {
    /// Returns the best display of an object of this type.
    pub(super) fn of(data_type: DataType) -> Self {
        match data_type {
            DataType::Boolean | DataType::Unsigned(1) => Self::U8,
            DataType::Unsigned(2) => Self::U16,
            DataType::Unsigned(4) => Self::U32,
            DataType::Unsigned(8) => Self::U64,
            DataType::Integer(1) => Self::I8,
            DataType::Integer(2) => Self::I16,
            DataType::Integer(4) => Self::I32,
            DataType::Integer(8) => Self::I64,
            DataType::VisibleString => Self::Text,
            _ => Self::Hex,
        }
    }

    fn octets(self) -> Option<(usize, bool)> {
        match self {
            Self::U8 => Some((1, false)),
            Self::U16 => Some((2, false)),
            Self::U32 => Some((4, false)),
            Self::U64 => Some((8, false)),
            Self::I8 => Some((1, true)),
            Self::I16 => Some((2, true)),
            Self::I32 => Some((4, true)),
            Self::I64 => Some((8, true)),
            Self::Hex | Self::Text => None,
        }
    }

    pub(super) fn encode(self, text: &str) -> Result<Vec<u8>, String> {
        match (self, self.octets()) {
            (_, Some((octets, signed))) => {
                let digits = text.strip_prefix("0x");
                let number = match digits {
                    Some(digits) => i128::from_str_radix(digits, 16),
                    None => text.parse(),
                }
                .map_err(|_| format!("`{text}` is not a number"))?;
                let bits = 8 * octets as u32;
                let (low, high) = if signed {
                    (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)
                } else {
                    (0, (1_i128 << bits) - 1)
                };
                if !(low..=high).contains(&number) {
                    return Err(format!("{number} is beyond {low} to {high}"));
                }
                Ok(number.to_le_bytes()[..octets].to_vec())
            }
            (Self::Text, None) => Ok(text.as_bytes().to_vec()),
            (_, None) => unhex(text).ok_or_else(|| {
                format!("`{text}` is not bytes in hexadecimal, as in 0a0b; for a number use `--type u8` (and the like)")
            }),
        }
    }

    pub(super) fn show(self, octets: &[u8]) -> String {
        match self.octets() {
            Some((length, signed)) if length == octets.len() => {
                let negative = signed && octets.last().is_some_and(|last| last & 0x80 != 0);
                let mut wide = [if negative { 0xff } else { 0 }; 16];
                wide[..length].copy_from_slice(octets);
                i128::from_le_bytes(wide).to_string()
            }
            _ if self == Self::Text => String::from_utf8_lossy(octets)
                .trim_end_matches('\0')
                .to_owned(),
            _ => hex(octets),
        }
    }
}

pub(super) fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}
