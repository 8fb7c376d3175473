//! The key file of a security group: mode 0600, TOML, one key or more.

use crate::{StationError, private_file};
use rtwire_describe::foreign;
use rtwire_describe::project_file::{Findings, Keys, parse};
use rtwire_pubsub::security::{Algorithm, Key, KeyMaterial, MOST_KEYS};
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};
use toml::de::{DeTable, DeValue};

const WANTED: &str = "a key file (docs/pubsub.md)";

/// The age of a change from which on a later one has another time. Kernels count the time of a change in steps of up to 10 ms.
const SETTLED: Duration = Duration::from_millis(50);

/// The keys of a security group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFile {
    /// The keys.
    pub keys: Vec<KeyMaterial>,
    /// The token of the key that a publisher uses.
    pub current: u32,
    /// The time of the file's last change; `None` if it is so recent that a later change may have the same time. Such a file is
    /// to be read again.
    pub changed: Option<SystemTime>,
}

impl KeyFile {
    /// Reads a key file.
    ///
    /// # Errors
    /// The file cannot be read, others may read or own it, or it is faulty.
    pub fn read(path: &Path) -> Result<Self, StationError> {
        let (bytes, changed) = private_file::read(path)?;
        let name = path.display().to_string();
        let text = foreign::text(bytes, &name, WANTED).map_err(StationError::Project)?;
        let mut keys = Self::parse(&text, path)?;
        // A time in the future is of a clock that was set back.
        let settled = |at: &SystemTime| at.elapsed().map_or(true, |age| age >= SETTLED);
        keys.changed = changed.filter(settled);
        Ok(keys)
    }

    /// Reads keys from text; messages show `path`, and never the text of a key.
    ///
    /// # Errors
    /// The text is faulty.
    pub fn parse(text: &str, path: &Path) -> Result<Self, StationError> {
        let mut findings = Findings::new(text);
        let document = parse(
            text,
            &["key", "algorithm", "current"],
            WANTED,
            &mut findings,
        );
        let parsed = match findings.is_clean() {
            true => read(document.get_ref(), &mut findings),
            false => None,
        };
        let name = path.display().to_string();
        match parsed {
            Some(keys) if findings.is_clean() => Ok(keys),
            _ => {
                let mut faults = findings.into_faults(&name);
                // The line may hold a key.
                for fault in &mut faults.faults {
                    fault.excerpt.clear();
                    fault.width = 0;
                }
                Err(StationError::Project(faults))
            }
        }
    }

    /// Replaces a key file as a whole, with mode 0600: running stations look at it.
    ///
    /// # Errors
    /// The file cannot be written. The old one is unchanged then.
    pub fn write(path: &Path, keys: &[KeyMaterial], current: u32) -> io::Result<()> {
        let hex = |bytes: &[u8]| -> String { bytes.iter().map(|b| format!("{b:02x}")).collect() };
        let mut text = String::new();
        if let Some(key) = keys.first() {
            let name = key.algorithm().name();
            let _ = writeln!(text, "algorithm = \"{name}\"\ncurrent = {current}");
        }
        for key in keys {
            let (signing, encrypting, nonce) = key.parts();
            let _ = write!(
                text,
                "\n[[key]]\ntoken = {}\nsigning = \"{}\"\nencrypting = \"{}\"\nnonce = \"{}\"\n",
                key.token(),
                hex(signing),
                hex(encrypting),
                hex(nonce)
            );
        }
        private_file::replace(path, &text)
    }

    /// Returns the key that a publisher uses, expanded.
    ///
    /// # Errors
    /// The key cannot be used; [`parse`](Self::parse) lets none of those pass.
    pub fn current_key(&self, path: &Path) -> Result<Key, StationError> {
        let material = self.keys.iter().find(|key| key.token() == self.current);
        let material = material.or(self.keys.first()).ok_or(StationError::Ended)?;
        expand(material, path)
    }

    /// Returns all keys, expanded.
    ///
    /// # Errors
    /// As [`current_key`](Self::current_key).
    pub fn all(&self, path: &Path) -> Result<Vec<Key>, StationError> {
        self.keys.iter().map(|key| expand(key, path)).collect()
    }
}

fn expand(material: &KeyMaterial, path: &Path) -> Result<Key, StationError> {
    Key::new(material).map_err(|source| StationError::Key {
        path: path.to_owned(),
        source,
    })
}

pub(crate) fn hex(text: &str) -> Option<Vec<u8>> {
    if text.len() % 2 != 0 || !text.is_ascii() {
        return None;
    }
    let digits = text.as_bytes().chunks_exact(2);
    digits
        .map(|two| {
            let two = core::str::from_utf8(two).ok()?;
            two.bytes()
                .all(|digit| digit.is_ascii_hexdigit())
                .then_some(())?;
            u8::from_str_radix(two, 16).ok()
        })
        .collect()
}

fn read(document: &DeTable<'_>, findings: &mut Findings<'_>) -> Option<KeyFile> {
    let mut keys = Keys::new(document, "the key file", 0..0, findings);
    let _ = keys.get("key");
    let algorithm = match keys.choice("algorithm", &["PubSub-Aes128-CTR", "PubSub-Aes256-CTR"]) {
        Some("PubSub-Aes256-CTR") => Algorithm::Aes256Ctr,
        _ => Algorithm::Aes128Ctr,
    };
    let current = keys.number("current", 1..0x1_0000_0000);
    for key in ["algorithm", "key"] {
        if !document.contains_key(key) {
            keys.missing(key);
        }
    }
    keys.finish();
    let DeValue::Array(list) = document.get("key")?.get_ref() else {
        let span = document.get("key")?.span();
        findings.at(&span, "`key` is a list: write `[[key]]`".to_owned(), None);
        return None;
    };
    if list.len() > MOST_KEYS {
        let count = list.len();
        let message = format!("{count} keys, but at most {MOST_KEYS} fit; remove old ones");
        let span = list.get(MOST_KEYS).map_or(0..0, |item| item.span());
        findings.at(&span, message, None);
    }
    let mut found: Vec<KeyMaterial> = Vec::new();
    for item in list {
        let DeValue::Table(table) = item.get_ref() else {
            findings.at(&item.span(), "a key is a table".to_owned(), None);
            continue;
        };
        let mut keys = Keys::new(table, "[[key]]", item.span(), findings);
        let token = keys.number("token", 1..0x1_0000_0000);
        let mut bytes = |name: &'static str| {
            if !table.contains_key(name) {
                keys.missing(name);
            }
            let (text, span) = keys.text(name)?;
            let bytes = hex(text);
            if bytes.is_none() {
                let message = format!("`{name}` is no row of pairs of hexadecimal digits");
                keys.findings.at(&span, message, None);
            }
            bytes
        };
        let parts = (bytes("signing"), bytes("encrypting"), bytes("nonce"));
        if !table.contains_key("token") {
            keys.missing("token");
        }
        keys.finish();
        let (Some(token), (Some(signing), Some(encrypting), Some(nonce))) = (token, parts) else {
            continue;
        };
        let token = u32::try_from(token).unwrap_or(0);
        match KeyMaterial::new(algorithm, token, &signing, &encrypting, &nonce) {
            Ok(_) if found.iter().any(|other| other.token() == token) => {
                let message = format!("two keys have the token {token}");
                findings.at(&item.span(), message, None);
            }
            Ok(key) => found.push(key),
            Err(fault) => findings.at(&item.span(), fault.to_string(), None),
        }
    }
    let newest = found.first().map(KeyMaterial::token);
    if found.is_empty() && findings.is_clean() {
        findings.at(&(0..0), "there is no key: write `[[key]]`".to_owned(), None);
    }
    let current = current
        .and_then(|token| u32::try_from(token).ok())
        .or(newest)?;
    if !found.iter().any(|key| key.token() == current) {
        let span = document.get("current").map_or(0..0, |value| value.span());
        findings.at(
            &span,
            format!("there is no key with the token {current}"),
            None,
        );
    }
    Some(KeyFile {
        keys: found,
        current,
        changed: None,
    })
}
