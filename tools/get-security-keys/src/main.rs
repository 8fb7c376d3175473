//! Asks an OPC UA security key service once: method GetSecurityKeys (OPC 10000-14, 8.3.2).
//!
//! A question in JSON comes in on standard input, an answer in JSON goes out on standard output; `rtwire pubsub keys` is at the
//! other end. The process holds the keys for the length of one answer, and nothing after it.

mod certificates;

use certificates::Store;
use opcua_client::{Client, ClientBuilder, IdentityToken, Session};
use opcua_crypto::SecurityPolicy;
use opcua_types::{
    CallMethodRequest, CallMethodResult, EndpointDescription, Error, MessageSecurityMode, MethodId,
    NodeId, ObjectId, StatusCode, Variant,
};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// The time for one request. The other end has one for the whole question.
const PATIENCE: Duration = Duration::from_secs(10);

/// The question.
#[derive(Deserialize)]
struct Question {
    endpoint: String,
    security_group: String,
    channel: String,
    policy: String,
    application_uri: String,
    server_certificate: Option<PathBuf>,
    certificate: Option<PathBuf>,
    private_key: Option<PathBuf>,
    user: Option<String>,
    password: Option<String>,
    starting_token: u32,
    key_count: u32,
}

/// The answer.
#[derive(Serialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
enum Answer {
    Keys {
        policy: String,
        first_token: u32,
        keys: Vec<String>,
        time_to_next_key_ms: f64,
        key_lifetime_ms: f64,
    },
    Fault(Fault),
}

/// The reason why there are no keys.
#[derive(Serialize)]
struct Fault {
    /// True where another try with the same settings would fail, too.
    settings: bool,
    message: String,
}

impl Fault {
    fn settings(message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            settings: true,
            message,
        }
    }

    fn service(message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            settings: false,
            message,
        }
    }

    /// Judges a status code of the service or of the client.
    fn of(doing: &str, status: StatusCode) -> Self {
        use StatusCode as Code;
        let why = match status {
            Code::BadNotFound => "the service has no such security group",
            Code::BadUserAccessDenied => {
                "the user may not do that: look at `user` and its password, and at the rights of the security group"
            }
            Code::BadIdentityTokenRejected | Code::BadIdentityTokenInvalid => {
                "the service refuses the user: look at `user` and its password"
            }
            Code::BadSecurityChecksFailed | Code::BadCertificateUntrusted => {
                "the service refuses our certificate, or its own is not the one in `server-certificate`"
            }
            Code::BadCertificateUriInvalid => {
                "`application-uri` is not the one in our certificate, or the service's certificate has another one than the service"
            }
            Code::BadSecurityModeInsufficient => {
                "the service sends keys through a channel with encryption only"
            }
            Code::BadSecurityModeRejected | Code::BadSecurityPolicyRejected => {
                "the service refuses `channel` or `policy`"
            }
            Code::BadNodeIdUnknown | Code::BadMethodInvalid | Code::BadServiceUnsupported => {
                "the server is no security key service"
            }
            Code::BadTcpEndpointUrlInvalid => "the service does not know this `endpoint`",
            _ if format!("{status:?}").starts_with("BadCertificate") => {
                "a certificate cannot be used"
            }
            _ => return Self::service(format!("{doing}: {status:?}")),
        };
        Self::settings(format!("{doing}: {why} ({status:?})"))
    }
}

fn main() {
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line);
    let answer = match read.map(|_| serde_json::from_str(&line)) {
        Ok(Ok(question)) => answer(&question),
        _ => Err(Fault::settings(
            "usage: `rtwire pubsub keys` starts this program and asks it in JSON",
        )),
    };
    let answer = answer.unwrap_or_else(Answer::Fault);
    println!("{}", serde_json::to_string(&answer).unwrap_or_default());
}

fn answer(question: &Question) -> Result<Answer, Fault> {
    let failed = |error: std::io::Error| Fault::service(error.to_string());
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().map_err(failed)?;
    runtime.block_on(ask(question))
}

async fn ask(question: &Question) -> Result<Answer, Fault> {
    let secured = question.channel == "sign-and-encrypt";
    if !secured && question.user.is_some() {
        let why = "a password needs a channel with encryption";
        return Err(Fault::settings(why));
    }
    let store = Store::new(question, secured)?;
    let mut client = client(question, &store)?;
    let endpoint = find_endpoint(&client, question, &store, secured).await?;
    let user = match (&question.user, &question.password) {
        (Some(user), Some(password)) => IdentityToken::new_user_name(user, password.as_str()),
        _ => IdentityToken::Anonymous,
    };
    let connected = client.connect_to_endpoint_directly(endpoint, user);
    let (session, events) = connected.map_err(|error| told("session", &error))?;
    session.disable_reconnects();
    let mut events = events.spawn();
    let result = tokio::select! {
        result = call(&session, question) => result,
        ended = &mut events => {
            let status = ended.unwrap_or(StatusCode::BadUnexpectedError);
            return Err(Fault::of("session", status));
        }
    };
    // The answer is there: the service closes the session by itself where it does not hear this.
    let _ = tokio::time::timeout(Duration::from_secs(1), session.disconnect()).await;
    understood(result?)
}

fn told(doing: &str, error: &Error) -> Fault {
    Fault::of(doing, error.status())
}

fn client(question: &Question, store: &Store) -> Result<Client, Fault> {
    let mut builder = ClientBuilder::new()
        .application_name("rtwire pubsub keys")
        .application_uri(&question.application_uri)
        .product_uri("urn:rtwire")
        .pki_dir(store.folder())
        .create_sample_keypair(false)
        .trust_server_certs(false)
        .verify_server_certs(true)
        .session_retry_limit(0)
        .request_timeout(PATIENCE);
    if let Some((certificate, key)) = store.own() {
        builder = builder.certificate_path(certificate).private_key_path(key);
    }
    let failed = |faults: Vec<String>| Fault::settings(faults.join("; "));
    builder.client().map_err(failed)
}

/// Finds the endpoint with the channel that is asked for. The list itself is not protected: certificate and address are ours.
async fn find_endpoint(
    client: &Client,
    question: &Question,
    store: &Store,
    secured: bool,
) -> Result<EndpointDescription, Fault> {
    let address = question.endpoint.as_str();
    let found = client.get_server_endpoints_from_url(address).await;
    let found = found.map_err(|error| told("endpoints", &error))?;
    let (policy, mode) = match secured {
        true => (
            question.policy.as_str(),
            MessageSecurityMode::SignAndEncrypt,
        ),
        false => ("None", MessageSecurityMode::None),
    };
    let policy = policy
        .parse::<SecurityPolicy>()
        .unwrap_or(SecurityPolicy::Unknown);
    let suits = |one: &EndpointDescription| {
        one.security_mode == mode && one.security_policy_uri.as_ref() == policy.to_uri()
    };
    let Some(mut endpoint) = found.into_iter().find(suits) else {
        let channel = &question.channel;
        return Err(Fault::settings(format!(
            "the service offers no channel `{channel}` with {policy}"
        )));
    };
    if let Some(pinned) = store.pinned() {
        if endpoint.server_certificate != pinned {
            return Err(Fault::settings(
                "the service's certificate is not the one in `server-certificate`",
            ));
        }
        endpoint.server_certificate = pinned;
    }
    endpoint.endpoint_url = address.into();
    Ok(endpoint)
}

async fn call(session: &Session, question: &Question) -> Result<CallMethodResult, Fault> {
    session.wait_for_connection().await;
    let arguments = vec![
        Variant::from(question.security_group.as_str()),
        Variant::from(question.starting_token),
        Variant::from(question.key_count),
    ];
    let (object, method): (NodeId, NodeId) = (
        ObjectId::PublishSubscribe.into(),
        MethodId::PublishSubscribe_GetSecurityKeys.into(),
    );
    let request = CallMethodRequest {
        object_id: object,
        method_id: method,
        input_arguments: Some(arguments),
    };
    let results = session.call(vec![request]).await;
    let results = results.map_err(|error| told("GetSecurityKeys", &error))?;
    let none = || Fault::service("GetSecurityKeys: the service sent no result");
    results.into_iter().next().ok_or_else(none)
}

fn understood(result: CallMethodResult) -> Result<Answer, Fault> {
    if result.status_code.is_bad() {
        return Err(Fault::of("GetSecurityKeys", result.status_code));
    }
    let strange =
        || Fault::service("GetSecurityKeys: the results are of other types than the standard's");
    let results = result.output_arguments.unwrap_or_default();
    let [
        Variant::String(policy),
        Variant::UInt32(first_token),
        Variant::Array(keys),
        Variant::Double(time_to_next_key_ms),
        Variant::Double(key_lifetime_ms),
    ] = &results[..]
    else {
        return Err(strange());
    };
    if !time_to_next_key_ms.is_finite() || !key_lifetime_ms.is_finite() {
        return Err(strange());
    }
    let mut rows = Vec::with_capacity(keys.values.len());
    for key in &keys.values {
        let Variant::ByteString(bytes) = key else {
            return Err(strange());
        };
        let mut row = String::new();
        for byte in bytes.as_ref() {
            let _ = write!(row, "{byte:02x}");
        }
        rows.push(row);
    }
    Ok(Answer::Keys {
        policy: policy.as_ref().to_owned(),
        first_token: *first_token,
        keys: rows,
        time_to_next_key_ms: *time_to_next_key_ms,
        key_lifetime_ms: *key_lifetime_ms,
    })
}
