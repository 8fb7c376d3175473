//! The members of an etcd, asked by their JSON gateway over plain HTTP.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

/// The answer of a member. A field that is missing has its default, as the gateway leaves it out.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Answer {
    /// A lease.
    #[serde(rename = "ID")]
    pub(super) id: String,
    /// A lease's time, seconds.
    #[serde(rename = "TTL")]
    pub(super) ttl: String,
    pub(super) succeeded: bool,
    pub(super) kvs: Vec<Entry>,
    pub(super) responses: Vec<Response>,
    /// The answer inside of a stream.
    result: Option<Box<Answer>>,
    error: Value,
    message: String,
}

/// A part of a transaction's answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Response {
    pub(super) response_range: Option<Ranged>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Ranged {
    pub(super) kvs: Vec<Entry>,
}

/// A key and its value, both in base 64.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Entry {
    pub(super) key: String,
    value: String,
    pub(super) create_revision: String,
    pub(super) lease: String,
}

impl Entry {
    /// Returns the value's bytes.
    pub(super) fn value(&self) -> Result<Vec<u8>, String> {
        let bytes = STANDARD.decode(&self.value);
        bytes.map_err(|error| format!("a value is not in base 64: {error}"))
    }

    /// Returns the key's bytes.
    pub(super) fn key(&self) -> Result<Vec<u8>, String> {
        let bytes = STANDARD.decode(&self.key);
        bytes.map_err(|error| format!("a key is not in base 64: {error}"))
    }
}

/// Returns bytes as the gateway reads them.
pub(super) fn base64(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

/// Returns the operation that writes a value.
pub(super) fn put(key: &str, value: &[u8]) -> Value {
    json!({"request_put": {"key": base64(key), "value": base64(value)}})
}

/// Returns the operation that removes a key.
pub(super) fn delete(key: &str) -> Value {
    json!({"request_delete_range": {"key": base64(key)}})
}

/// Returns the operation that reads a key.
pub(super) fn range(key: &str) -> Value {
    json!({"request_range": {"key": base64(key)}})
}

/// The members of an etcd. One of them is asked until it does not answer, then the next.
#[derive(Debug)]
pub(super) struct Gateway {
    agent: ureq::Agent,
    members: Vec<String>,
    at: AtomicUsize,
    /// The time in which a member must answer.
    patience: Duration,
}

impl Gateway {
    pub(super) fn new(members: &[String], patience: Duration) -> Gateway {
        let config = ureq::Agent::config_builder()
            // Never through a proxy that the environment names: the answer must be etcd's own.
            .proxy(None)
            .http_status_as_error(false)
            .max_redirects(0)
            .build();
        Gateway {
            agent: config.into(),
            members: members.to_vec(),
            at: AtomicUsize::new(0),
            patience,
        }
    }

    /// Returns the number of members.
    pub(super) fn members(&self) -> usize {
        self.members.len()
    }

    /// Asks one member. After an error, which may leave the question's effect open, the next call asks another one.
    pub(super) fn ask(
        &self,
        path: &str,
        question: &Value,
        most: Duration,
    ) -> Result<Answer, String> {
        let at = self.at.load(Ordering::Relaxed);
        let member = self.members.get(at).map_or("", String::as_str);
        let answer = self.asked(member, path, question, self.patience.min(most));
        answer.map_err(|error| {
            let next = (at + 1) % self.members.len().max(1);
            self.at.store(next, Ordering::Relaxed);
            format!("{member}: {error}")
        })
    }

    fn asked(
        &self,
        member: &str,
        path: &str,
        question: &Value,
        time: Duration,
    ) -> Result<Answer, String> {
        // A time of zero would be none.
        let time = time.max(Duration::from_millis(1));
        let request = self.agent.post(format!("http://{member}/v3/{path}"));
        let request = request.config().timeout_global(Some(time)).build();
        let request = request.header("Content-Type", "application/json");
        let sent = request.send(question.to_string());
        let mut response = sent.map_err(|error| error.to_string())?;
        let status = response.status();
        let body = response.body_mut().read_to_vec();
        let body = body.map_err(|error| error.to_string())?;
        // A stream's answer is one line; what follows are trailers.
        let mut answers = serde_json::Deserializer::from_slice(&body).into_iter::<Answer>();
        let answer = match answers.next() {
            Some(Ok(answer)) => answer,
            _ => {
                return Err(format!(
                    "HTTP status {status}, and no JSON that can be read"
                ));
            }
        };
        if !answer.error.is_null() || !status.is_success() {
            let words = match (&answer.error, answer.message.as_str()) {
                (_, message) if !message.is_empty() => message.to_owned(),
                (Value::String(error), _) => error.clone(),
                (error, _) => error.to_string(),
            };
            return Err(format!("HTTP status {status}: {words}"));
        }
        Ok(match answer.result {
            Some(inner) => *inner,
            None => answer,
        })
    }
}
