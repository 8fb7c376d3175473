//! Reads what a plan's file has beyond JSON of the plan's types.
//!
//! Integers above 2^53 - 1 are decimal text, and the answer of `rtwire plan --json` has a `status`, and a `synthesis` if there was one.

use core::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IgnoredAny, IntoDeserializer, MapAccess,
    SeqAccess, Visitor,
};

use super::LARGEST_EXACT;

/// The whole document; its `status` and its `synthesis` are ignored.
pub(super) struct Document<D>(pub(super) D);

/// Any value in it; an integer of 64 bits may be text.
struct Inner<T>(T);

struct TopVisitor<V>(V);

macro_rules! forward {
    ($wrap:path; $($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method($wrap(visitor))
        })*
    };
}

macro_rules! forward_all {
    ($wrap:path) => {
        forward! { $wrap;
            deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32
            deserialize_i64 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_f32
            deserialize_f64 deserialize_char deserialize_str deserialize_string deserialize_bytes
            deserialize_byte_buf deserialize_option deserialize_unit deserialize_seq
            deserialize_map deserialize_identifier deserialize_ignored_any
        }

        fn deserialize_unit_struct<V: Visitor<'de>>(
            self,
            name: &'static str,
            visitor: V,
        ) -> Result<V::Value, D::Error> {
            self.0.deserialize_unit_struct(name, $wrap(visitor))
        }

        fn deserialize_newtype_struct<V: Visitor<'de>>(
            self,
            name: &'static str,
            visitor: V,
        ) -> Result<V::Value, D::Error> {
            self.0.deserialize_newtype_struct(name, $wrap(visitor))
        }

        fn deserialize_tuple<V: Visitor<'de>>(
            self,
            len: usize,
            visitor: V,
        ) -> Result<V::Value, D::Error> {
            self.0.deserialize_tuple(len, $wrap(visitor))
        }

        fn deserialize_tuple_struct<V: Visitor<'de>>(
            self,
            name: &'static str,
            len: usize,
            visitor: V,
        ) -> Result<V::Value, D::Error> {
            self.0.deserialize_tuple_struct(name, len, $wrap(visitor))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            name: &'static str,
            fields: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, D::Error> {
            self.0.deserialize_struct(name, fields, $wrap(visitor))
        }

        fn deserialize_enum<V: Visitor<'de>>(
            self,
            name: &'static str,
            variants: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, D::Error> {
            self.0.deserialize_enum(name, variants, $wrap(visitor))
        }
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Document<D> {
    type Error = D::Error;

    forward! { TopVisitor; deserialize_u64 }
    forward_all!(TopVisitor);
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Inner<D> {
    type Error = D::Error;

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(Integer(visitor))
    }

    forward_all!(Inner);
}

/// An integer, or the decimal text of one that is too large for many readers of JSON.
struct Integer<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for Integer<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number, as decimal text above 9007199254740991")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<V::Value, E> {
        self.0.visit_u64(value)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<V::Value, E> {
        match text.parse::<u64>() {
            Ok(value) if value > LARGEST_EXACT && value.to_string() == text => {
                self.0.visit_u64(value)
            }
            _ => Err(E::invalid_type(serde::de::Unexpected::Str(text), &self)),
        }
    }
}

macro_rules! plain_values {
    () => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.expecting(f)
        }

        fn visit_bool<E: Error>(self, value: bool) -> Result<V::Value, E> {
            self.0.visit_bool(value)
        }

        fn visit_i64<E: Error>(self, value: i64) -> Result<V::Value, E> {
            self.0.visit_i64(value)
        }

        fn visit_u64<E: Error>(self, value: u64) -> Result<V::Value, E> {
            self.0.visit_u64(value)
        }

        fn visit_f64<E: Error>(self, value: f64) -> Result<V::Value, E> {
            self.0.visit_f64(value)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<V::Value, E> {
            self.0.visit_str(text)
        }

        fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<V::Value, E> {
            self.0.visit_borrowed_str(text)
        }

        fn visit_string<E: Error>(self, text: String) -> Result<V::Value, E> {
            self.0.visit_string(text)
        }

        fn visit_none<E: Error>(self) -> Result<V::Value, E> {
            self.0.visit_none()
        }

        fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
            self.0.visit_unit()
        }

        fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
            self.0.visit_some(Inner(inner))
        }

        fn visit_newtype_struct<D: Deserializer<'de>>(
            self,
            inner: D,
        ) -> Result<V::Value, D::Error> {
            self.0.visit_newtype_struct(Inner(inner))
        }

        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
            self.0.visit_seq(Inner(list))
        }

        fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
            self.0.visit_enum(access)
        }
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Inner<V> {
    type Value = V::Value;

    plain_values!();

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Inner(map))
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for TopVisitor<V> {
    type Value = V::Value;

    plain_values!();

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(TopMap(map))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Inner<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Inner(seed))
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Inner<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Inner(seed))
    }
}

/// The fields of the document.
struct TopMap<A>(A);

impl<'de, A: MapAccess<'de>> MapAccess<'de> for TopMap<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.0.next_key::<String>()? {
            if !matches!(key.as_str(), "status" | "synthesis") {
                return seed.deserialize(key.into_deserializer()).map(Some);
            }
            self.0.next_value::<IgnoredAny>()?;
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Inner(seed))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Inner<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Inner(from))
    }
}
