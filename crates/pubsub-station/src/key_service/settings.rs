//! The file that describes a key service: TOML.

use super::Question;
use crate::{StationError, private_file};
use rtwire_describe::project_file::{Findings, Keys, parse};
use rtwire_pubsub::security::MOST_TO_COME;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::de::DeTable;

const WANTED: &str = "the description of a key service (docs/pubsub.md)";
const CHANNELS: [&str; 2] = ["sign-and-encrypt", "none"];
const POLICIES: [&str; 3] = [
    "Basic256Sha256",
    "Aes128-Sha256-RsaOaep",
    "Aes256-Sha256-RsaPss",
];
const APPLICATION: &str = "urn:rtwire:keys";
/// The program that asks, beside `rtwire` or in the path.
const PROGRAM: &str = "rtwire-get-security-keys";

/// A security key service, and the file that its keys go to.
#[derive(Clone, Debug)]
pub struct KeyService {
    /// The key file.
    pub key_file: PathBuf,
    /// The program that asks.
    pub program: PathBuf,
    /// The longest time for one answer.
    pub timeout: Duration,
    /// The question that it gets.
    pub question: Question,
}

impl KeyService {
    /// Reads a description. Files that it names are looked for beside it.
    ///
    /// # Errors
    /// A file cannot be read, is faulty, or others may read the password's.
    pub fn read(path: &Path) -> Result<Self, StationError> {
        let text = std::fs::read_to_string(path).map_err(|source| StationError::Read {
            path: path.to_owned(),
            source,
        })?;
        let mut findings = Findings::new(&text);
        let tables = ["endpoint", "security-group", "key-file"];
        let document = parse(&text, &tables, WANTED, &mut findings);
        let folder = path.parent().unwrap_or(Path::new("."));
        let read = match findings.is_clean() {
            true => settings(document.get_ref(), folder, &mut findings),
            false => None,
        };
        let Some((mut service, password)) = read.filter(|_| findings.is_clean()) else {
            let faults = findings.into_faults(&path.display().to_string());
            return Err(StationError::Project(faults));
        };
        if let Some(path) = password {
            let (bytes, _) = private_file::read(&path)?;
            let text = String::from_utf8_lossy(&bytes);
            service.question.password = Some(text.trim_end_matches(['\r', '\n']).to_owned());
        }
        if let Some(path) = &service.question.private_key {
            private_file::read(path)?;
        }
        Ok(service)
    }
}

fn settings(
    document: &DeTable<'_>,
    folder: &Path,
    findings: &mut Findings<'_>,
) -> Option<(KeyService, Option<PathBuf>)> {
    let mut keys = Keys::new(document, "the file", 0..0, findings);
    for key in ["endpoint", "security-group", "key-file"] {
        if !document.contains_key(key) {
            keys.missing(key);
        }
    }
    let endpoint = keys.text("endpoint");
    let group = keys.text("security-group");
    let mut file = |key| keys.text(key).map(|(name, _)| folder.join(name));
    let key_file = file("key-file");
    let [server, certificate, private_key, password] = [
        "server-certificate",
        "certificate",
        "private-key",
        "password-file",
    ]
    .map(&mut file);
    let program = keys
        .text("program")
        .map(|(name, _)| match name.contains('/') {
            true => folder.join(name),
            false => PathBuf::from(name),
        });
    let channel = keys.choice("channel", &CHANNELS).unwrap_or(CHANNELS[0]);
    let policy = keys.choice("policy", &POLICIES).unwrap_or(POLICIES[0]);
    let uri = keys.text("application-uri").map(|(uri, _)| uri);
    let user = keys.text("user").map(|(name, _)| name.to_owned());
    let most = MOST_TO_COME as u64;
    let to_come = keys.number("keys-to-come", 1..most + 1).unwrap_or(4);
    let timeout_ns = keys.time("timeout", 100_000_000).unwrap_or(30_000_000_000);
    if channel == "sign-and-encrypt" {
        for key in ["server-certificate", "certificate", "private-key"] {
            if !document.contains_key(key) {
                keys.missing(key);
            }
        }
    }
    if user.is_some() != password.is_some() {
        keys.missing(if user.is_some() {
            "password-file"
        } else {
            "user"
        });
    }
    if user.is_some() && channel == "none" {
        let span = document.get("channel").map_or(0..0, |value| value.span());
        let message = "a password needs a channel with encryption".to_owned();
        let help = Some("leave out `user` and `password-file`, or `channel`".to_owned());
        keys.findings.at(&span, message, help);
    }
    if let Some((_, span)) = endpoint
        .as_ref()
        .filter(|(text, _)| !text.starts_with("opc.tcp://"))
    {
        let help = Some("write for instance `opc.tcp://192.0.2.1:4840`".to_owned());
        let message = "`endpoint` is no address of OPC UA over TCP".to_owned();
        keys.findings.at(span, message, help);
    }
    keys.finish();
    let ((endpoint, _), (group, _)) = (endpoint?, group?);
    let beside = || {
        let own = std::env::current_exe().ok()?;
        Some(own.parent()?.join(PROGRAM)).filter(|path| path.exists())
    };
    let service = KeyService {
        key_file: key_file?,
        program: program.or_else(beside).unwrap_or(PathBuf::from(PROGRAM)),
        timeout: Duration::from_nanos(timeout_ns),
        question: Question {
            endpoint: endpoint.to_owned(),
            security_group: group.to_owned(),
            channel: channel.to_owned(),
            policy: policy.to_owned(),
            application_uri: uri.unwrap_or(APPLICATION).to_owned(),
            server_certificate: server,
            certificate,
            private_key,
            user,
            password: None,
            starting_token: 0,
            key_count: u32::try_from(to_come).unwrap_or(4) + 1,
        },
    };
    Some((service, password))
}
