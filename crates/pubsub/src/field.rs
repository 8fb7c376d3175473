//! The values of fields: numbers, truth values and moments of at most 8 bytes.

use core::fmt;
use rtwire_wire::uadp::{BuiltIn, DateTime, Value};

/// A field's value with its type. Texts, arrays and structures are no scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scalar {
    kind: BuiltIn,
    bits: u64,
}

/// Returns the bytes of a scalar type, 1 to 8; `None` for other types.
#[must_use]
pub const fn scalar_bytes(kind: BuiltIn) -> Option<usize> {
    match kind.octets() {
        Some(bytes) if bytes <= 8 => Some(bytes),
        _ => None,
    }
}

impl Scalar {
    /// Takes the lowest bits of `bits` as a value of `kind`; 0 where that is no scalar type.
    #[must_use]
    pub const fn from_bits(kind: BuiltIn, bits: u64) -> Self {
        let mask = match scalar_bytes(kind) {
            Some(8) => u64::MAX,
            Some(bytes) => (1 << (8 * bytes)) - 1,
            None => 0,
        };
        let bits = match kind {
            BuiltIn::Boolean => (bits & mask != 0) as u64,
            _ => bits & mask,
        };
        Self { kind, bits }
    }

    /// Returns the number of a whole-number type as one of `kind`; the nearest one where it is a floating-point type.
    #[must_use]
    pub fn of_number(kind: BuiltIn, number: i64) -> Self {
        match kind {
            BuiltIn::Float => Self::from_bits(kind, u64::from((number as f32).to_bits())),
            BuiltIn::Double => Self::from_bits(kind, (number as f64).to_bits()),
            _ => Self::from_bits(kind, number as u64),
        }
    }

    /// Returns the nearest value of `kind` to a floating-point number.
    #[must_use]
    pub fn of_float(kind: BuiltIn, number: f64) -> Self {
        match kind {
            BuiltIn::Float => Self::from_bits(kind, u64::from((number as f32).to_bits())),
            BuiltIn::Double => Self::from_bits(kind, number.to_bits()),
            _ => Self::of_number(kind, number as i64),
        }
    }

    /// The type.
    #[must_use]
    pub const fn kind(self) -> BuiltIn {
        self.kind
    }

    /// The value's bits, the lowest first, as they are on the wire.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.bits
    }

    /// Returns a whole number; that of a floating-point value is cut.
    #[must_use]
    pub fn number(self) -> i64 {
        let bits = self.bits;
        match self.kind {
            BuiltIn::SByte => i64::from(bits as u8 as i8),
            BuiltIn::Int16 => i64::from(bits as u16 as i16),
            BuiltIn::Int32 => i64::from(bits as u32 as i32),
            BuiltIn::Float | BuiltIn::Double => self.float() as i64,
            _ => bits as i64,
        }
    }

    /// Returns the value as a floating-point number.
    #[must_use]
    pub fn float(self) -> f64 {
        match self.kind {
            BuiltIn::Float => f64::from(f32::from_bits(self.bits as u32)),
            BuiltIn::Double => f64::from_bits(self.bits),
            BuiltIn::UInt64 => self.bits as f64,
            _ => self.number() as f64,
        }
    }

    /// Returns the value as the wire knows it.
    #[must_use]
    pub fn value(self) -> Value<'static> {
        let bits = self.bits;
        match self.kind {
            BuiltIn::Boolean => Value::Boolean(bits != 0),
            BuiltIn::SByte => Value::SByte(bits as u8 as i8),
            BuiltIn::Int16 => Value::Int16(bits as u16 as i16),
            BuiltIn::UInt16 => Value::UInt16(bits as u16),
            BuiltIn::Int32 => Value::Int32(bits as u32 as i32),
            BuiltIn::UInt32 => Value::UInt32(bits as u32),
            BuiltIn::Int64 => Value::Int64(bits as i64),
            BuiltIn::UInt64 => Value::UInt64(bits),
            BuiltIn::Float => Value::Float(f32::from_bits(bits as u32)),
            BuiltIn::Double => Value::Double(f64::from_bits(bits)),
            BuiltIn::DateTime => Value::DateTime(DateTime(bits as i64)),
            BuiltIn::StatusCode => Value::StatusCode(bits as u32),
            _ => Value::Byte(bits as u8),
        }
    }

    /// Returns the scalar of a value; `None` for texts, arrays and structures.
    #[must_use]
    pub fn of_value(value: &Value<'_>) -> Option<Self> {
        let bits = match *value {
            Value::Boolean(value) => u64::from(value),
            Value::SByte(value) => u64::from(value as u8),
            Value::Byte(value) => u64::from(value),
            Value::Int16(value) => u64::from(value as u16),
            Value::UInt16(value) => u64::from(value),
            Value::Int32(value) => u64::from(value as u32),
            Value::UInt32(value) | Value::StatusCode(value) => u64::from(value),
            Value::Int64(value) => value as u64,
            Value::UInt64(value) => value,
            Value::Float(value) => u64::from(value.to_bits()),
            Value::Double(value) => value.to_bits(),
            Value::DateTime(value) => value.0 as u64,
            _ => return None,
        };
        Some(Self::from_bits(value.built_in(), bits))
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            BuiltIn::Boolean => write!(f, "{}", self.bits != 0),
            BuiltIn::Float | BuiltIn::Double => write!(f, "{}", self.float()),
            BuiltIn::UInt64 => write!(f, "{}", self.bits),
            _ => write!(f, "{}", self.number()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Scalar;
    use rtwire_wire::uadp::BuiltIn;

    #[test]
    fn each_type_keeps_its_values() {
        for kind in BuiltIn::ALL
            .into_iter()
            .filter(|kind| super::scalar_bytes(*kind).is_some())
        {
            for number in [0, 1, 100] {
                let scalar = Scalar::of_number(kind, number);
                let number = if kind == BuiltIn::Boolean {
                    number.min(1)
                } else {
                    number
                };
                assert_eq!(scalar.number(), number, "{kind}");
                assert_eq!(Scalar::of_value(&scalar.value()), Some(scalar), "{kind}");
            }
        }
        assert_eq!(Scalar::of_number(BuiltIn::Int16, -2).number(), -2);
        assert_eq!(Scalar::of_number(BuiltIn::SByte, -2).to_string(), "-2");
        assert_eq!(Scalar::of_float(BuiltIn::Double, 0.5).to_string(), "0.5");
    }
}
