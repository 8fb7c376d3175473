//! A security key service: the method GetSecurityKeys on open62541's server, with keys that follow from their tokens.
//!
//! Lines on standard input plant faults, each answered by `ok`: `lifetime MS`, `length BYTES`, `secret BYTE`, `policy NAME`, `keys COUNT`.

use open62541_sys as ua;
use std::ffi::c_void;
use std::io::{BufRead as _, Write as _};
use std::ptr;
use std::sync::Mutex;
use std::time::SystemTime;

const GROUP: &[u8] = b"axes";
const URI: &str = "urn:rtwire:test:key-service";
const NOT_FOUND: ua::UA_StatusCode = 0x803E_0000;
/// The namespace of types and references is 0.
const HAS_COMPONENT: u32 = 47;
const PUBLISH_SUBSCRIBE: u32 = 14443;
const GET_SECURITY_KEYS: u32 = 15215;

/// The answer of the service.
struct Settings {
    lifetime_ms: f64,
    /// The lifetime in answers, where it is another one.
    told_ms: Option<f64>,
    length: usize,
    secret: u8,
    policy: String,
    most: u32,
}

static SETTINGS: Mutex<Option<Settings>> = Mutex::new(None);

fn zeroed<T>() -> T {
    // SAFETY: used for the library's plain C structures only, for which it prescribes zeroes as the initial value.
    unsafe { std::mem::zeroed() }
}

fn bytes(bytes: &[u8]) -> ua::UA_String {
    let bytes: &'static mut [u8] = bytes.to_vec().leak();
    ua::UA_String {
        length: bytes.len(),
        data: bytes.as_mut_ptr(),
    }
}

fn numeric(number: u32) -> ua::UA_NodeId {
    let mut id: ua::UA_NodeId = zeroed();
    // SAFETY: zeroes are the numeric identifier 0, so this member of the union is the one in use.
    unsafe { *id.identifier.numeric.as_mut() = number };
    id
}

fn argument(name: &str, kind: u32, rank: i32) -> ua::UA_Argument {
    let mut argument: ua::UA_Argument = zeroed();
    argument.name = bytes(name.as_bytes());
    argument.dataType = numeric(kind);
    argument.valueRank = rank;
    argument
}

fn check(what: &str, code: ua::UA_StatusCode) {
    if code != 0 {
        eprintln!("{what}: status 0x{code:08x}");
        std::process::exit(3);
    }
}

/// Returns the bytes of a key: they follow from its token.
fn key(token: u32, settings: &Settings) -> Vec<u8> {
    let byte = |at: usize| settings.secret ^ (token as u8).wrapping_mul(31) ^ at as u8;
    (0..settings.length).map(byte).collect()
}

unsafe extern "C" fn get_security_keys(
    _server: *mut ua::UA_Server,
    _session: *const ua::UA_NodeId,
    _session_context: *mut c_void,
    _method: *const ua::UA_NodeId,
    _method_context: *mut c_void,
    _object: *const ua::UA_NodeId,
    _object_context: *mut c_void,
    _inputs: usize,
    input: *const ua::UA_Variant,
    _outputs: usize,
    output: *mut ua::UA_Variant,
) -> ua::UA_StatusCode {
    let settings = SETTINGS.lock().unwrap_or_else(|held| held.into_inner());
    let Some(settings) = settings.as_ref() else {
        return NOT_FOUND;
    };
    // SAFETY: the library has checked number and types of the arguments: a String, two UInt32.
    let (group, starting, count) = unsafe {
        let group = (*input).data.cast::<ua::UA_String>();
        let group = match (*group).length {
            0 => &[][..],
            length => std::slice::from_raw_parts((*group).data, length),
        };
        let number = |at: usize| *(*input.add(at)).data.cast::<u32>();
        (group, number(1), number(2))
    };
    if group != GROUP || starting != 0 {
        return NOT_FOUND;
    }
    // By the wall clock: a service that was started again goes on with its keys.
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let elapsed_ms = now.as_secs_f64() * 1e3;
    let number = (elapsed_ms / settings.lifetime_ms).floor();
    let to_next = (number + 1.0) * settings.lifetime_ms - elapsed_ms;
    let first = (number % 1e6) as u32 + 1;
    let count = count.clamp(1, settings.most);
    let mut rows: Vec<Vec<u8>> = (first..first + count).map(|t| key(t, settings)).collect();
    let keys: Vec<ua::UA_String> = rows
        .iter_mut()
        .map(|row| ua::UA_String {
            length: row.len(),
            data: row.as_mut_ptr(),
        })
        .collect();
    let mut policy = settings.policy.clone().into_bytes();
    let policy = ua::UA_String {
        length: policy.len(),
        data: policy.as_mut_ptr(),
    };
    let lifetime = settings.told_ms.unwrap_or(settings.lifetime_ms);
    // SAFETY: there are five results, and each value has the type named beside it. The library copies the values.
    unsafe {
        let kind = |index: u32| &raw const ua::UA_TYPES[index as usize];
        let scalar = |at: usize, value: *const c_void, index: u32| {
            ua::UA_Variant_setScalarCopy(output.add(at), value, kind(index))
        };
        scalar(0, (&raw const policy).cast(), ua::UA_TYPES_STRING)
            | scalar(1, (&raw const first).cast(), ua::UA_TYPES_UINT32)
            | ua::UA_Variant_setArrayCopy(
                output.add(2),
                keys.as_ptr().cast(),
                keys.len(),
                kind(ua::UA_TYPES_BYTESTRING),
            )
            | scalar(3, (&raw const to_next).cast(), ua::UA_TYPES_DOUBLE)
            | scalar(4, (&raw const lifetime).cast(), ua::UA_TYPES_DOUBLE)
    }
}

fn planted(line: &str) {
    let mut settings = SETTINGS.lock().unwrap_or_else(|held| held.into_inner());
    let (Some((name, value)), Some(settings)) = (line.split_once(' '), settings.as_mut()) else {
        return;
    };
    let number = value.parse::<f64>().unwrap_or(0.0);
    match name {
        "lifetime" => settings.told_ms = Some(number),
        "length" => settings.length = number as usize,
        "secret" => settings.secret = number as u8,
        "keys" => settings.most = number as u32,
        _ => settings.policy = format!("http://opcfoundation.org/UA/SecurityPolicy#{value}"),
    }
}

/// Serves keys until it is ended: `keys PORT LIFETIME_MS CERTIFICATE KEY TRUSTED` (files, DER). The user is `station`, with the
/// password `secret`.
pub fn serve(port: &str, lifetime_ms: &str, files: [&str; 3]) {
    let [certificate, key, trusted] =
        files.map(|path| bytes(&std::fs::read(path).expect("a readable file")));
    *SETTINGS.lock().expect("no other thread yet") = Some(Settings {
        lifetime_ms: lifetime_ms.parse().expect("milliseconds"),
        told_ms: None,
        length: 52,
        secret: 0,
        policy: "http://opcfoundation.org/UA/SecurityPolicy#PubSub-Aes128-CTR".to_owned(),
        most: 16,
    });
    let port = port.parse().expect("a port");
    let mut config: ua::UA_ServerConfig = zeroed();
    let login = ua::UA_UsernamePasswordLogin {
        username: bytes(b"station"),
        password: bytes(b"secret"),
    };
    let inputs = [
        argument("SecurityGroupId", 12, -1),
        argument("StartingTokenId", 7, -1),
        argument("RequestedKeyCount", 7, -1),
    ];
    let outputs = [
        argument("SecurityPolicyUri", 12, -1),
        argument("FirstTokenId", 7, -1),
        argument("Keys", 15, 1),
        argument("TimeToNextKey", 11, -1),
        argument("KeyLifetime", 11, -1),
    ];
    let mut name: ua::UA_QualifiedName = zeroed();
    name.name = bytes(b"GetSecurityKeys");
    // SAFETY: each structure is as the library wants it, and all that it points to lives as long as the process.
    let server = unsafe {
        check(
            "configuration",
            ua::UA_ServerConfig_setDefaultWithSecurityPolicies(
                &raw mut config,
                port,
                &raw const certificate,
                &raw const key,
                &raw const trusted,
                1,
                ptr::null(),
                0,
                ptr::null(),
                0,
            ),
        );
        config.applicationDescription.applicationUri = bytes(URI.as_bytes());
        let code =
            ua::UA_AccessControl_default(&raw mut config, false, ptr::null(), 1, &raw const login);
        check("access", code);
        let server = ua::UA_Server_newWithConfig(&raw mut config);
        assert!(!server.is_null(), "no server");
        check(
            "the method",
            ua::UA_Server_addMethodNode(
                server,
                numeric(GET_SECURITY_KEYS),
                numeric(PUBLISH_SUBSCRIBE),
                numeric(HAS_COMPONENT),
                name,
                ptr::read(&raw const ua::UA_MethodAttributes_default),
                Some(get_security_keys),
                inputs.len(),
                inputs.as_ptr(),
                outputs.len(),
                outputs.as_ptr(),
                ptr::null_mut(),
                ptr::null_mut(),
            ),
        );
        check("start", ua::UA_Server_run_startup(server));
        server
    };
    println!("running");
    let _ = std::io::stdout().flush();
    std::thread::spawn(|| {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            planted(&line);
            println!("ok");
            let _ = std::io::stdout().flush();
        }
        // Nobody plants any more: the test has ended.
        std::process::exit(0);
    });
    loop {
        // SAFETY: the server lives, and only this thread uses it.
        unsafe { ua::UA_Server_run_iterate(server, true) };
    }
}
